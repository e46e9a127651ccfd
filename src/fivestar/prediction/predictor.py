"""Questions with one open slot, (?, r, t), (h, ?, t) or (h, r, ?), answered by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch

from fivestar.errors import GraphWarning, SettingsError
from fivestar.evaluation.calibration import Calibration, calibrate
from fivestar.evaluation.topk import AnswerFilter, Which, answer_log_probs, top_k
from fivestar.extras import require
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import Ids, Queries, Side
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.runs.run import Run

OPEN = ("_", "?")
# (head, relation, tail), one of them open.
Question = tuple[str, str, str]


@dataclass(frozen=True)
class Prediction:
    """One answer: its name in the graph, its text for people, and whether the graph knows it.

    `probability`: how often an answer like this is right (see `evaluation.calibration`). For
    entities it rises with the score; for relations, and for whole triples, it is the mean of both
    questions that the triple answers. Without validation facts nobody can tell: it is None.
    """

    rank: int
    id: str
    label: str
    score: float
    probability: float | None
    known: bool


class Predictions(Sequence[Prediction]):
    """The answers to a question, best first."""

    def __init__(self, question: Question, answers: list[Prediction]) -> None:
        self.question = question
        self._answers = answers

    @overload
    def __getitem__(self, at: int) -> Prediction: ...
    @overload
    def __getitem__(self, at: slice) -> list[Prediction]: ...
    def __getitem__(self, at: int | slice) -> Prediction | list[Prediction]:
        return self._answers[at]

    def __len__(self) -> int:
        return len(self._answers)

    def __repr__(self) -> str:
        lines = [" ".join(self.question)]
        for a in self:
            shown = a.label if a.label == a.id else f"{a.label} ({a.id})"
            mark = "known" if a.known else "new"
            likely = "" if a.probability is None else f"{a.probability:.1%}"
            lines.append(f"{a.rank:4}  {likely:>6}  {mark:5}  {shown}")
        return "\n".join(lines)

    def as_json(self) -> list[dict[str, Any]]:
        """Everything, for JSON."""
        return [asdict(answer) for answer in self]

    def to_pandas(self) -> Any:
        """A DataFrame with a row an answer."""
        pandas = require("pandas", "pandas", "to_pandas")
        return pandas.DataFrame(self.as_json(), columns=list(Prediction.__annotations__))


class Predictor:
    """Answers questions about a run; what it needs for that is found out once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.model = run.model
        self.graph = run.graph

    @cached_property
    def known(self) -> KnownAnswers:
        """The answers that the graph holds, in all splits and both directions."""
        return KnownAnswers.of(with_reciprocals(self.graph.facts, len(self.graph.relations)))

    @cached_property
    def calibration(self) -> Calibration | None:
        """How scores become probabilities: as training has stored it, or found out now."""
        stored = self.run.metrics.get("calibration")
        if stored is not None:
            return Calibration.from_json(stored)
        if "refit" in self.run.metrics or not len(self.graph.valid):
            return None  # nothing is held out
        return calibrate(self.model, self.graph)

    def likely(self, log_probs: npt.NDArray[np.float32]) -> list[float | None]:
        """The probabilities of log p(answer | question)."""
        if self.calibration is None:
            return [None] * len(log_probs)
        found: list[float | None] = self.calibration(log_probs).tolist()
        return found

    def ask(
        self,
        questions: Sequence[Question],
        top: int = 10,
        which: Which = "all",
        types: Sequence[str] = (),
    ) -> list[Predictions]:
        """The best answers to each question; all of them are looked up before any is answered."""
        if top < 1:
            raise SettingsError(f"top must be at least 1, not {top}")
        numbers = np.array([self.numbers(question) for question in questions]).reshape(-1, 3)
        for message in self.unlearned(numbers):
            warnings.warn(message, GraphWarning, stacklevel=3)
        found = self.answer(numbers, top, which, types)
        return [Predictions(*pair) for pair in zip(questions, found, strict=True)]

    def answer(
        self, numbers: Ids, top: int, which: Which = "all", types: Sequence[str] = ()
    ) -> list[list[Prediction]]:
        """The best answers to questions (n, 3) by ids, −1 for the open slot.

        The entity of the question is not an answer, unless the graph holds that fact or the
        relation allows self-answers (`KnowledgeGraph.allows_self_answers`).
        """
        itself = self.graph.allows_self_answers
        wanted = AnswerFilter(self.known, which, self._of_types(types), itself)
        about_relation = numbers[:, 1] < 0
        if types and about_relation.any():
            raise SettingsError("types are those of entities; a relation has none")
        rows: list[int] = np.flatnonzero(~about_relation).tolist()
        found = dict(zip(rows, self._entities(numbers[rows], top, wanted), strict=True))
        for row in np.flatnonzero(about_relation).tolist():
            found[row] = self._relations(numbers[row], top, which)
        return [found[row] for row in range(len(numbers))]

    def unlearned(self, numbers: Ids) -> list[str]:
        """What is to be said of questions about names that no fact of train tells anything of."""
        entities, relations = self._learned
        names = [
            (vocabulary, each)
            for vocabulary, ids, learned in (
                (self.graph.entities, numbers[:, [0, 2]], entities),
                (self.graph.relations, numbers[:, 1], relations),
            )
            for each in sorted(set(ids[(ids >= 0) & ~learned[ids]].tolist()))
        ]
        return [
            f"{vocabulary.kind} {vocabulary.name_of(each)!r} has no fact in train, so the model "
            "has learned nothing of it: its answers are no better than chance"
            for vocabulary, each in names
        ]

    @cached_property
    def _learned(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which entities and relations have facts in train."""
        train = self.graph.train
        entities = np.zeros(len(self.graph.entities), bool)
        entities[train.heads] = entities[train.tails] = True
        relations = np.zeros(len(self.graph.relations), bool)
        relations[train.relations] = True
        return entities, relations

    def numbers(self, question: Question) -> tuple[int, int, int]:
        """The ids of a question, −1 for the open slot."""
        is_open = [slot in OPEN for slot in question]
        if sum(is_open) != 1:
            raise SettingsError(
                f"{' '.join(question)}: exactly one of head, relation and tail must be open; "
                "write it as _"
            )
        names = (self.graph.entities, self.graph.relations, self.graph.entities)
        head, relation, tail = (
            -1 if missing else vocabulary.find(slot)
            for missing, vocabulary, slot in zip(is_open, names, question, strict=True)
        )
        return head, relation, tail

    def score(self, head: str, relation: str, tail: str) -> Prediction:
        """What is to be said of one triple; its rank is that of the tail."""
        names = (self.graph.entities, self.graph.relations, self.graph.entities)
        h, r, t = (v.find(x) for v, x in zip(names, (head, relation, tail), strict=True))
        with torch.no_grad():
            scores = self.model.score_tails(torch.tensor([h]), torch.tensor([r]))[0]
        triple, loop = Triples.of([(h, r, t)]), Triples.of([(h, r, h)])
        better = scores > scores[t]
        if not self.graph.allows_self_answers[r] and not loop.are_in(self.graph.facts)[0]:
            better[h] = False
        return Prediction(
            int(better.sum()) + 1,
            self.graph.entities.name_of(t),
            self.graph.entities.label_of(t),
            float(scores[t]),
            self.probabilities(triple)[0],
            bool(triple.are_in(self.graph.facts)[0]),
        )

    def probabilities(self, triples: Triples) -> list[float | None]:
        """How likely triples are: the mean of both questions that they answer."""
        h, r, t = triples.array.T.astype(np.int64)
        count = len(self.graph.relations)
        tails = self.likely(answer_log_probs(self.model, Queries.for_tails(h, r, count), t))
        heads = self.likely(answer_log_probs(self.model, Queries.for_heads(t, r, count), h))
        return [
            None if one is None or other is None else (one + other) / 2
            for one, other in zip(tails, heads, strict=True)
        ]

    def _entities(self, numbers: Ids, top: int, wanted: AnswerFilter) -> Iterator[list[Prediction]]:
        heads, relations, tails = numbers.T
        side = np.where(heads < 0, Side.HEAD, Side.TAIL).astype(np.int8)
        entity = np.where(heads < 0, tails, heads)
        queries = Queries(entity, relations, side, len(self.graph.relations))
        best = top_k(self.model, queries, top, wanted)
        # Named all at once: looking names up one question at a time takes longer than answering.
        there = best.ids >= 0
        answers = _named(
            self.graph.entities,
            best.ids[there],
            np.broadcast_to(np.arange(1, best.ids.shape[1] + 1), best.ids.shape)[there],
            best.scores[there],
            self.likely(best.log_probs[there]),
            best.known[there],
        )
        for count in there.sum(axis=1).tolist():
            yield list(islice(answers, count))

    def _relations(self, numbers: Ids, top: int, which: Which) -> list[Prediction]:
        head, _, tail = (int(x) for x in numbers)
        count, facts = len(self.graph.relations), self.graph.facts
        every = np.arange(count, dtype=np.int32)
        triples = Triples(np.full_like(every, head), every, np.full_like(every, tail))
        with torch.no_grad():
            columns = (torch.as_tensor(x.astype(np.int64)) for x in triples.array.T)
            scores = self.model.score(*columns).numpy()
        held = np.isin(every, facts.relations[(facts.heads == head) & (facts.tails == tail)])
        allowed = {"all": np.ones(count, bool), "new": ~held, "known": held}[which]
        order = [i for i in np.argsort(-scores, kind="stable") if allowed[i]][:top]
        likely = self.probabilities(triples)
        chosen = [likely[i] for i in order]
        ranks = np.arange(1, len(order) + 1)
        return list(
            _named(self.graph.relations, every[order], ranks, scores[order], chosen, held[order])
        )

    def _of_types(self, types: Sequence[str]) -> npt.NDArray[np.bool_] | None:
        """Which entities are of one of some types; None for all."""
        if not types:
            return None
        held = self.graph.required_types()
        numbers = [held.vocabulary.find(name) for name in types]
        found = np.zeros(len(self.graph.entities), bool)
        found[held.entities[np.isin(held.types, numbers)]] = True
        return found


def _named(
    names: Vocabulary,
    ids: npt.NDArray[np.integer],
    ranks: npt.NDArray[np.integer],
    scores: npt.NDArray[np.float32],
    likely: list[float | None],
    known: npt.NDArray[np.bool_],
) -> Iterator[Prediction]:
    texts = names.names_of(ids), names.labels_of(ids)
    return map(Prediction, ranks.tolist(), *texts, scores.tolist(), likely, known.tolist())
