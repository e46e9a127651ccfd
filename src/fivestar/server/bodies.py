"""The shapes of what comes in and goes out; OpenAPI is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from fivestar.evaluation.topk import Which

# Longer names are a mistake, not a question.
LONGEST_NAME = 10_000
# The same in an address, which is cut at 64 kB, and a sign may take 12 bytes there.
LONGEST_IN_ADDRESS = 1000
# The limit is that of the server, which refuses more itself.
ANY_NUMBER = 2**31 - 1

Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME)]
KindName = Literal[
    "degenerate", "identity", "parabolic", "circular", "elliptic", "hyperbolic", "loxodromic"
]

RunName = Annotated[Name | None, Field(description="The name of a run; the first by default.")]
Entity = Annotated[Name, Field(description="An entity by id or label, in upper or lower case.")]
Relation = Annotated[Name, Field(description="A relation by id or label, in upper or lower case.")]
Top = Annotated[int, Field(ge=1, le=ANY_NUMBER, description="How many answers, at most.")]
Wanted = Annotated[
    Which, Field(description="All answers, or only those that the graph lacks or holds.")
]
Types = Annotated[
    list[Name], Field(max_length=100, description="Only entities of one of these types.")
]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    run: RunName = None


class _AskedForBest(_Asked):
    top: Top = 10
    which: Wanted = "all"


class AskTails(_AskedForBest):
    """(head, relation, ?)."""

    head: Entity
    relation: Relation
    types: Types = []


class AskHeads(_AskedForBest):
    """(?, relation, tail)."""

    relation: Relation
    tail: Entity
    types: Types = []


class AskRelations(_AskedForBest):
    """(head, ?, tail)."""

    head: Entity
    tail: Entity


class AskBatch(_AskedForBest):
    """Many questions (head, relation, tail), one slot of each open: _ or ?."""

    questions: Annotated[list[tuple[Name, Name, Name]], Field(min_length=1)]
    types: Types = []


class AskScore(_Asked):
    """One whole triple."""

    head: Entity
    relation: Relation
    tail: Entity


class NamedThing(BaseModel):
    """What something is called in the graph, and what people call it."""

    id: str
    label: str


class Answer(BaseModel):
    """One answer; `probability` is how often such an answer is right, null if nobody can tell."""

    rank: int
    id: str
    label: str
    score: float
    probability: float | None
    split: str | None


class Question(BaseModel):
    """What was asked; null is what was asked for."""

    head: NamedThing | None
    relation: NamedThing | None
    tail: NamedThing | None


class Answered(BaseModel):
    """A question and its answers, best first; `warnings` tell why not to trust them."""

    question: Question
    answers: list[Answer]
    warnings: list[str]


class AnsweredOne(Answered):
    """The same, and by which run."""

    run: str


class AnsweredBatch(BaseModel):
    """The answers to each question, in their order."""

    run: str
    results: list[Answered]


class Scored(BaseModel):
    """What is to be said of a triple; `rank` is that of its tail."""

    run: str
    head: NamedThing
    relation: NamedThing
    tail: NamedThing
    score: float
    probability: float | None
    rank: int
    split: str | None


class NeighbourOf(BaseModel):
    """An entity that is like another one: a cosine of at most 1."""

    rank: int
    entity: NamedThing
    similarity: float
    common_types: list[str] | None


class Neighbours(BaseModel):
    """The entities most like one."""

    run: str
    entity: NamedThing
    neighbours: list[NeighbourOf]


class Explained(BaseModel):
    """What speaks for a triple: similar facts, connecting paths, and dimensions."""

    run: str
    explanation: dict[str, Any]


class FoundEntity(NamedThing):
    """An entity, and what helps to tell it from others."""

    description: str | None
    types: list[str]


class FoundEntities(BaseModel):
    """Those whose names begin so, then those with such a word, then those spelled alike."""

    run: str
    entities: list[FoundEntity]


class Fact(BaseModel):
    """A fact of the graph."""

    head: NamedThing
    relation: NamedThing
    tail: NamedThing


class EntityCard(FoundEntity):
    """An entity with some of its facts."""

    run: str
    facts: int
    some: list[Fact]


class CountedRelation(NamedThing):
    """A relation, and how many facts it has."""

    facts: int


class Relations(BaseModel):
    """All relations, the most frequent first."""

    run: str
    relations: list[CountedRelation]


class CountedType(BaseModel):
    """A type, and how many entities are of it."""

    id: str
    entities: int


class EntityTypes(BaseModel):
    """All types, the most frequent first."""

    run: str
    types: list[CountedType]


Complex = tuple[float, float]


class DimensionMap(BaseModel):
    """The map (a z + b)/(c z + d) of one dimension, its fixed points (null: ∞) and multiplier.

    The multiplier is the derivative at the first fixed point, the repelling one.
    """

    dimension: int
    kind: KindName
    matrix: tuple[Complex, Complex, Complex, Complex]
    fixed_points: list[Complex | None]
    multiplier: Complex | None
    steadiness: float


class Geometry(BaseModel):
    """What a relation does in every dimension."""

    run: str
    relation: NamedThing
    facts: int
    kinds: dict[str, float]
    dimensions: list[DimensionMap]


class MapPoint(NamedThing):
    """An entity in the plane; its type by its place in the list of types."""

    x: float
    y: float
    type: int | None


class EntityMap(BaseModel):
    """The entities with the most facts, placed in the plane."""

    run: str
    method: str
    types: list[str]
    points: list[MapPoint]


class ServedRunInfo(BaseModel):
    """A run that is served, and what can be asked of it."""

    name: str
    graph: str
    model: str
    dim: int
    entities: int
    relations: int
    facts: int
    types: bool
    geometry: bool
    calibrated: bool
    metrics: dict[str, float] | None


class Runs(BaseModel):
    """All runs that are served; the first answers where none is named."""

    runs: list[ServedRunInfo]


class Statistics(BaseModel):
    """What `fivestar graph info --json` tells."""

    model_config = ConfigDict(extra="allow")

    run: str
    entities: int
    relations: int


class Status(BaseModel):
    """How the server is."""

    status: str


class ProblemDocument(BaseModel):
    """What went wrong (RFC 9457): `code` for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
