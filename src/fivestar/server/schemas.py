"""Request and response bodies; the OpenAPI document is generated from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    StringConstraints,
    model_validator,
)

from fivestar.evaluation.topk import Which
from fivestar.prediction.fold_in import EPOCHS

# Longer names are mistakes.
MAX_NAME_LENGTH = 10_000
# The same in a URL, which is limited to 64 kB; a character may take 12 bytes there.
MAX_URL_NAME_LENGTH = 1000
# Replaced by the limits of the server, which are checked per request.
NO_LIMIT = 2**31 - 1
# Fields of a request; more are mistakes.
_MAX_FIELDS = 20

Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_LENGTH)]
MapClass = Literal[
    "degenerate", "identity", "parabolic", "circular", "elliptic", "hyperbolic", "loxodromic"
]
MapMethod = Literal["pca", "tsne"]
SplitName = Literal["train", "valid", "test"]
State = Literal["in train", "held out", "new"]

RunName = Annotated[Name | None, Field(description="Name of a run; by default the first.")]
Entity = Annotated[Name, Field(description="Name or label of an entity, ignoring case.")]
Relation = Annotated[Name, Field(description="Name or label of a relation, ignoring case.")]
Top = Annotated[int, Field(ge=1, le=NO_LIMIT, description="Number of answers.")]
WhichAnswers = Annotated[
    Which, Field(description="All answers, or only those that are new or already in the graph.")
]
Types = Annotated[
    list[Name],
    Field(max_length=100, description="Only entities with one of these types."),
    FailFast(),
]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    run: RunName = None

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, body: Any) -> Any:
        # Each unknown field would be an error of its own: a body of 1 MB can have 100,000.
        if isinstance(body, dict) and len(body) > _MAX_FIELDS:
            raise ValueError(f"{len(body):,} fields; at most {_MAX_FIELDS} are possible")
        return body


class PredictRequest(_Request):
    """What all queries have in common."""

    top: Top = 10
    which: WhichAnswers = "all"


class PredictTailsRequest(PredictRequest):
    """(head, relation, ?)."""

    head: Entity
    relation: Relation
    types: Types = []


class PredictHeadsRequest(PredictRequest):
    """(?, relation, tail)."""

    relation: Relation
    tail: Entity
    types: Types = []


class PredictRelationsRequest(PredictRequest):
    """(head, ?, tail)."""

    head: Entity
    tail: Entity


class PredictBatchRequest(PredictRequest):
    """Many queries (head, relation, tail), each with one missing slot, written _ or ?."""

    # One error is enough: a body of 1 MB can have 200,000.
    queries: Annotated[
        list[Annotated[tuple[Name, Name, Name], FailFast()]], Field(min_length=1), FailFast()
    ]
    types: Types = []


class ScoreRequest(_Request):
    """A triple."""

    head: Entity
    relation: Relation
    tail: Entity


class FoldInRequest(_Request):
    """Facts about new entities; each has at least one."""

    facts: Annotated[
        list[Annotated[tuple[Name, Name, Name], FailFast()]],
        Field(min_length=1, max_length=10_000),
        FailFast(),
    ]
    epochs: Annotated[int, Field(ge=1, le=1000, description="Passes over these facts.")] = EPOCHS


class Named(BaseModel):
    """An entity or relation: its name in the graph (`id`) and its label."""

    id: str
    label: str


class Answer(BaseModel):
    """One answer.

    `probability` is calibrated; null for triples in train and without validation triples. `split`
    is the first split that holds the triple, null if it is new.
    """

    rank: int
    id: str
    label: str
    score: float
    probability: float | None
    split: SplitName | None
    state: State


class Query(BaseModel):
    """A query; null is the missing slot."""

    head: Named | None
    relation: Named | None
    tail: Named | None


class QueryResult(BaseModel):
    """A query and its answers, best first; `warnings` say if train lacks a name of the query."""

    query: Query
    answers: list[Answer]
    warnings: list[str]


class PredictResponse(QueryResult):
    """A query, its answers, and the run that gave them."""

    run: str


class PredictBatchResponse(BaseModel):
    """The results in the order of the queries."""

    run: str
    results: list[QueryResult]


class ScoreResponse(BaseModel):
    """The score of a triple; `rank` is the rank of its tail."""

    run: str
    head: Named
    relation: Named
    tail: Named
    score: float
    probability: float | None
    rank: int
    split: SplitName | None
    state: State


class FoldInResponse(BaseModel):
    """The added entities; `warnings` say which names may be misspelled."""

    run: str
    entities: list[Named]
    warnings: list[str]


class Neighbor(BaseModel):
    """A similar entity and its cosine similarity."""

    rank: int
    entity: Named
    similarity: float
    common_types: list[str] | None


class NeighborsResponse(BaseModel):
    """The nearest neighbors of an entity."""

    run: str
    entity: Named
    neighbors: list[Neighbor]


class ExplainResponse(BaseModel):
    """The evidence for a triple: analogous facts, supporting paths, dimensions."""

    run: str
    explanation: dict[str, Any]


class EntityMatch(Named):
    """An entity with its description and types."""

    description: str | None
    types: list[str]


class EntitiesResponse(BaseModel):
    """Matches of the beginning of a name, then of a word, then similar spellings."""

    run: str
    entities: list[EntityMatch]


class NamedTriple(BaseModel):
    """A triple of the graph."""

    head: Named
    relation: Named
    tail: Named


class EntityResponse(EntityMatch):
    """An entity with up to 50 of its triples."""

    run: str
    num_triples: int
    triples: list[NamedTriple]


class RelationCount(Named):
    """A relation and its number of triples."""

    num_triples: int


class ProbableFact(NamedTriple):
    """A triple that the graph does not hold; `probability` is null without calibration."""

    probability: float | None


class RelationFacts(Named):
    """A relation and its number of probable facts."""

    num_facts: int


class SearchScope(BaseModel):
    """How much was searched: all of it, or the heads and tails with the most facts.

    `queries` of `num_queries` were answered, in `relations` of `num_relations` relations;
    `num_candidates` is the number of pairs of head and tail. `num_second_answers` probable facts
    were omitted: they would give an entity a second answer where nearly all have exactly one.
    """

    relations: int
    num_relations: int
    queries: int
    num_queries: int
    num_candidates: int
    num_second_answers: int
    is_complete: bool


class ProbableFactsResponse(BaseModel):
    """The most probable new facts, once the search for them is done.

    `relations` are those that have any. `searched` is null while the search is running.
    """

    run: str
    status: Literal["running", "done"]
    progress: float
    facts: list[ProbableFact]
    num_facts: int
    relations: list[RelationFacts]
    searched: SearchScope | None


class RelationsResponse(BaseModel):
    """All relations, most frequent first."""

    run: str
    relations: list[RelationCount]


class TypeCount(BaseModel):
    """A type and its number of entities."""

    id: str
    num_entities: int


class TypesResponse(BaseModel):
    """All entity types, most frequent first."""

    run: str
    types: list[TypeCount]


Complex = tuple[float, float]


class DimensionMap(BaseModel):
    """The Möbius map (a z + b)/(c z + d) of one dimension.

    `fixed_points`: repelling, then attracting (null: ∞). `multiplier`: the derivative at the first.
    `relative_determinant`: 1 for a rotation of the sphere, 0 for a degenerate map.
    """

    dimension: int
    map_class: MapClass
    matrix: tuple[Complex, Complex, Complex, Complex]
    fixed_points: list[Complex | None]
    multiplier: Complex | None
    relative_determinant: float


class GeometryResponse(BaseModel):
    """The maps of a relation, one per dimension; `class_shares` is the share of each class."""

    run: str
    relation: Named
    num_triples: int
    class_shares: dict[str, float]
    dimensions: list[DimensionMap]


class MapPoint(Named):
    """An entity in the plane; `type` is an index into the list of types."""

    x: float
    y: float
    type: int | None


class RunningResponse(BaseModel):
    """The result is still being computed: send the same request again."""

    run: str
    status: Literal["running"]


class MapResponse(BaseModel):
    """A projection of the entities with the most triples onto the plane.

    `num_entities` is the number of all entities of the graph.
    """

    run: str
    method: MapMethod
    num_entities: int
    types: list[str]
    points: list[MapPoint]


class RunInfo(BaseModel):
    """A served run and its capabilities; `version` changes when the run is reloaded."""

    name: str
    version: str
    graph: str
    model: str
    dim: int
    num_entities: int
    num_relations: int
    num_triples: int
    has_types: bool
    has_geometry: bool
    is_calibrated: bool
    map_methods: list[MapMethod]
    metrics: dict[str, float] | None


class RunsResponse(BaseModel):
    """All served runs; the first is the default."""

    runs: list[RunInfo]


class StatisticsResponse(BaseModel):
    """The statistics of `fivestar graph info --json`."""

    model_config = ConfigDict(extra="allow")

    run: str
    entities: int
    relations: int


class Status(BaseModel):
    """The status of the server."""

    status: str


class ProblemDocument(BaseModel):
    """An error (RFC 9457): `code` for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
