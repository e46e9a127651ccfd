"""Queries with one missing slot, (?, r, t), (h, ?, t) or (h, r, ?), and their answers by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from fivestar.errors import BadLine, BadSource, FivestarError, SettingsError, SourceNotFound
from fivestar.extras import require
from fivestar.notebook import html_table

if TYPE_CHECKING:  # a client of a server starts without them
    import numpy as np
    import numpy.typing as npt

    from fivestar.graph.knowledge_graph import KnowledgeGraph
    from fivestar.graph.vocabulary import Vocabulary

# How the missing slot of a query is written.
MISSING = ("_", "?")
# (head, relation, tail) by name, one of them missing.
Query = tuple[str, str, str]
# The same by id, −1 for the missing slot.
QueryIds = tuple[int, int, int]
Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
# What a model knows of a triple: trained on it; held out (valid, test); not in the graph.
State = Literal["in train", "held out", "new"]


@dataclass(frozen=True)
class Named:
    """An entity or relation: its name in the graph (`id`) and its label."""

    id: str
    label: str

    @classmethod
    def of(cls, vocabulary: Vocabulary, number: int) -> Named:
        """Look up a row of a vocabulary."""
        return cls(vocabulary.name_of(number), vocabulary.label_of(number))

    def __str__(self) -> str:
        return self.id if self.id == self.label else f"{self.label} ({self.id})"


@dataclass(frozen=True)
class Prediction:
    """One answer to a query.

    Attributes:
        rank: position in the list, from 1.
        id: name in the graph.
        label: text for people.
        score: score of the model.
        probability: calibrated probability (see `evaluation.calibration`). For entities it rises
            with the score; for relations and whole triples it is the mean over the tail query and
            the head query of the triple. None without validation triples, and for triples that the
            model was trained on: their probabilities would say nothing.
        split: first split that holds the triple (train, valid or test); None if it is new.
        state: "in train" if the model was trained on the triple, "held out" (valid, test), or
            "new". After a refit, which trains on valid, its triples are in train, too.
    """

    rank: int
    id: str
    label: str
    score: float
    probability: float | None
    split: Split | None
    state: State

    @property
    def state_text(self) -> str:
        """Return the state with the split that holds the triple out."""
        return describe_state(self.state, self.split)


class Predictions(Sequence[Prediction]):
    """The answers to a query, best first; a table in notebooks."""

    def __init__(self, query: Query, answers: list[Prediction], names: Query | None = None) -> None:
        self.query = query
        self._answers = answers
        self._names = names or query

    @overload
    def __getitem__(self, at: int) -> Prediction: ...
    @overload
    def __getitem__(self, at: slice) -> list[Prediction]: ...
    def __getitem__(self, at: int | slice) -> Prediction | list[Prediction]:
        return self._answers[at]

    def __len__(self) -> int:
        return len(self._answers)

    def __repr__(self) -> str:
        lines = [" ".join(self.query)]
        width = max((len(a.state_text) for a in self), default=0)
        for a in self:
            probability = "" if a.probability is None else f"{a.probability:.1%}"
            lines.append(
                f"{a.rank:4}  {probability:>6}  {a.state_text:{width}}  {Named(a.id, a.label)}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (
                str(a.rank),
                str(Named(a.id, a.label)),
                f"{a.score:.3f}",
                "–" if a.probability is None else f"{a.probability:.1%}",
                a.state_text,
            )
            for a in self
        ]
        columns = ("rank", "answer", "score", "probability", "fact")
        return html_table(columns, rows, " ".join(self.query))

    def triples(self) -> list[tuple[str, str, str]]:
        """Return the triple of each answer by name; labels in the query are resolved."""
        head, relation, tail = self._names
        match [name in MISSING for name in self._names]:
            case [True, _, _]:
                return [(answer.id, relation, tail) for answer in self]
            case [_, True, _]:
                return [(head, answer.id, tail) for answer in self]
            case _:
                return [(head, relation, answer.id) for answer in self]

    def as_json(self) -> list[dict[str, Any]]:
        """Return the answers as dictionaries, for JSON."""
        return [asdict(answer) for answer in self]

    def to_pandas(self) -> Any:
        """Return a DataFrame with one row per answer."""
        pandas = require("pandas", "pandas", "to_pandas")
        return pandas.DataFrame(self.as_json(), columns=list(Prediction.__annotations__))


def predictions_of(
    names: Vocabulary,
    ids: npt.NDArray[np.integer],
    ranks: npt.NDArray[np.integer],
    scores: npt.NDArray[np.float32],
    probabilities: list[float | None],
    splits: list[Split | None],
    *,
    refit: bool,
) -> Iterator[Prediction]:
    """Name all answers at once: looking names up query by query takes longer than scoring."""
    texts = names.names_of(ids), names.labels_of(ids)
    states = [state_of(split, refit=refit) for split in splits]
    meant = [
        None if state == "in train" else probability
        for state, probability in zip(states, probabilities, strict=True)
    ]
    return map(Prediction, ranks.tolist(), *texts, scores.tolist(), meant, splits, states)


def state_of(split: str | None, *, refit: bool) -> State:
    """Return the state of a triple from the first split that holds it.

    Args:
        split: the split; None if there is none.
        refit: whether the model was finally trained on train and valid.

    >>> state_of("valid", refit=False), state_of("valid", refit=True), state_of(None, refit=True)
    ('held out', 'in train', 'new')
    """
    if split is None:
        return "new"
    return "in train" if split == "train" or (refit and split == "valid") else "held out"


def describe_state(state: State, split: str | None) -> str:
    """Return a state for people, with the split that holds the triple out.

    >>> describe_state("held out", "test"), describe_state("in train", "train")
    ('held out (test)', 'in train')
    """
    return f"{state} ({split})" if state == "held out" else state


def missing_slots(query: Query) -> list[bool]:
    """Return for head, relation and tail whether it is missing.

    Raises:
        SettingsError: if not exactly one slot is missing.
    """
    is_missing = [slot in MISSING for slot in query]
    if sum(is_missing) != 1:
        raise SettingsError(
            f"{' '.join(query)}: exactly one of head, relation and tail must be missing; "
            "write it as _"
        )
    return is_missing


def query_ids(graph: KnowledgeGraph, query: Query) -> QueryIds:
    """Return the ids of a query, −1 for the missing slot.

    Raises:
        SettingsError: if not exactly one slot is missing.
        UnknownName: if a name is not in the graph.
        AmbiguousName: if a label belongs to several entities.
    """
    is_missing = missing_slots(query)
    names = (graph.entities, graph.relations, graph.entities)
    head, relation, tail = (
        -1 if missing else vocabulary.find(slot)
        for missing, vocabulary, slot in zip(is_missing, names, query, strict=True)
    )
    return head, relation, tail


def query_names(graph: KnowledgeGraph, ids: Sequence[int]) -> Query:
    """Return the names of a query by id, as the inverse of `query_ids`."""
    vocabularies = (graph.entities, graph.relations, graph.entities)
    head, relation, tail = (
        MISSING[0] if number < 0 else vocabulary.name_of(number)
        for vocabulary, number in zip(vocabularies, ids, strict=True)
    )
    return head, relation, tail


def read_queries(path: Path, graph: KnowledgeGraph) -> list[Query]:
    """Read a file of queries: three tab-separated names per line, the missing one as _.

    Every query is looked up, so that a wrong name is found before anything is answered. Blank
    lines are skipped.
    """
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError as error:
        raise SourceNotFound(f"no file {path}; give a file of queries") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadSource(f"{path}: cannot be read as text in UTF-8 ({error})") from error
    queries: list[Query] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        slots = [slot.strip() for slot in line.split("\t")]
        try:
            if len(slots) != 3:
                raise BadSource(f"has {len(slots)} fields, not head, relation and tail, one as _")
            query = (slots[0], slots[1], slots[2])
            query_ids(graph, query)
        except FivestarError as error:
            message = f"{path}, line {number}: {error}"
            raise BadLine(message, source=str(path), line=number) from error
        queries.append(query)
    if not queries:
        raise BadSource(
            f"{path}: has no queries; write one per line, as Paris<TAB>capital_of<TAB>_"
        )
    return queries
