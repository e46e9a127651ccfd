"""Can a model close a loop and leave the path beside it open? Ranks on the paper's small graph.

In a path beside a loop, (t₁₀, r₃, t₁) closes the loop: it should rank first on both sides, and
(h₁₀, r₃, h₁) and (h₁₀, r₁, h₁), which would close the path, far behind. The paper does not say
whether its models were trained on the closing fact, so both cases are measured:

held out: What is left are two equal paths. Exchanging h ↔ t and r₁ ↔ r₃ and reversing r₂ maps the
facts and their reciprocals onto themselves. So over seeds, the ranks of (t₁₀, r₃, t₁) and of
(h₁₀, r₁, h₁) have the same distribution, for every model.

trained: The loop is closed; it is measured what happens to the path. A bijective model that
fits all facts exactly closes it too: M₁ = M₂⁻¹M₃M₂. Whether a trained model, which does not fit
them exactly, separates the two depends on its form and its regularizer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fivestar.errors import SettingsError
from fivestar.evaluation.ranking import rank_answers
from fivestar.experiments.records import append_record, read_records
from fivestar.experiments.structures import FIRST, SECOND, Ids, side_by_side
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.graph.triples import Triples
from fivestar.runs.identity import learned_settings
from fivestar.runs.run import Run
from fivestar.runs.settings import Settings, make_settings
from fivestar.training.train import train

Closing = Literal["held out", "trained"]
Ranks = npt.NDArray[np.float64]
CLOSINGS: tuple[Closing, ...] = get_args(Closing)
NODES = 10
CLOSES_LOOP = (2 * NODES - 1, SECOND, NODES)
# (h₁₀, r₃, h₁) and (h₁₀, r₁, h₁).
CLOSE_PATH = ((NODES - 1, SECOND, 0), (NODES - 1, FIRST, 0))

RIVALS: Mapping[str, Mapping[str, Any]] = {
    "TransE": {"name": "transe", "norm": "l2"},
    "RotatE": {"name": "rotate"},
    "ComplEx": {"name": "complex"},
    "QuatE": {"name": "quate"},
}
# (left, right) ranks of (t₁₀, r₃, t₁) and of (h₁₀, r₃, h₁), where the paper gives them.
PUBLISHED_RANKS: Mapping[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "RotatE": ((1, 1), (1, 1)),
    "5★E": ((2, 2), (19, 18)),
}
# The same for all models: there is no validation split to choose by.
_TRAINING: Mapping[str, Any] = {
    "objective": "softmax",
    "optimizer": "adagrad",
    "lr": 0.1,
    "batch_size": 64,
}
DEFAULT_WEIGHT = 0.1


def fivestar_forms(
    denominators: Iterable[str] = ("mobius",),
    pairings: Iterable[str] = ("hermitian",),
    scores: Iterable[str] = ("inner", "distance"),
    options: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the model options of all combinations of forms of 5★E, by name.

    Args:
        denominators: Values of the option `denominator`.
        pairings: Values of the option `pairing`.
        scores: Values of the option `score`.
        options: Further options of all forms, as `init`.

    >>> fivestar_forms(scores=["distance"])
    {'5★E mobius hermitian distance': {'name': 'fivestar', 'denominator': 'mobius', \
'pairing': 'hermitian', 'score': 'distance'}}
    """
    suffix = "".join(f" {name.replace('_', '-')} {v}" for name, v in (options or {}).items())
    return {
        f"5★E {denominator} {pairing} {score}{suffix}": {
            "name": "fivestar",
            "denominator": denominator,
            "pairing": pairing,
            "score": score,
            **(options or {}),
        }
        for denominator, pairing, score in product(denominators, pairings, scores)
    }


@dataclass(frozen=True)
class Training:
    """What is the same for all models of a measurement.

    Attributes:
        regularizer: Name of the regularizer.
        reg_weight: Its weight; None for the default, or without a regularizer.
        dim: Embedding dimension.
        epochs: Epochs per training.
        seeds: Number of seeds, 0 to seeds − 1.
    """

    regularizer: str = "n3"
    reg_weight: float | None = None
    dim: int = 20
    epochs: int = 300
    seeds: int = 5

    def settings(self, model: Mapping[str, Any], seed: int) -> Settings:
        """Return the settings of one training; what is not given is as in version 1 of defaults."""
        if self.regularizer == "none" and self.reg_weight is not None:
            raise SettingsError("reg_weight has no effect with regularizer none; omit it")
        weight = DEFAULT_WEIGHT if self.reg_weight is None else self.reg_weight
        training = {"regularizer": self.regularizer, "reg_weight": weight, "epochs": self.epochs}
        return make_settings(
            {
                "defaults": 1,
                "model": {**model, "dim": self.dim},
                "training": {**_TRAINING, **training, "seed": seed},
            }
        )


@dataclass(frozen=True)
class PathLoopResult:
    """Ranks (seeds, triples, 2) by model: left and right ranks of all facts.

    The last three triples are (t₁₀, r₃, t₁), (h₁₀, r₃, h₁) and (h₁₀, r₁, h₁).
    """

    closing: Closing
    triples: list[str]
    ranks: dict[str, Ranks]

    def median(self, model: str) -> Ranks:
        """Return the median over seeds (triples, 2)."""
        median: Ranks = np.median(self.ranks[model], axis=0)
        return median

    def fit(self, model: str) -> float:
        """Return the MRR of the trained facts: 1 if all are learned."""
        trained = -2 if self.closing == "trained" else -3
        return float((1 / self.ranks[model][:, :trained]).mean())

    def separated(self, model: str) -> tuple[int, int]:
        """Return the number of seeds that close the loop and leave the path open by r₃, and by r₁.

        The loop is closed if (t₁₀, r₃, t₁) ranks first or second, and the path is open if
        (h₁₀, r₃, h₁), or (h₁₀, r₁, h₁), ranks behind half of the entities, on both sides.
        """
        loop, *path = np.moveaxis(self.ranks[model][:, -3:], 1, 0)
        closed = (loop <= 2).all(axis=1)
        by_second, by_first = (int((closed & (r > NODES).all(axis=1)).sum()) for r in path)
        return by_second, by_first

    def as_json(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "closing": self.closing,
            "triples": self.triples,
            "fit": {name: self.fit(name) for name in self.ranks},
            "separated": {name: self.separated(name) for name in self.ranks},
            "median": {name: self.median(name).tolist() for name in self.ranks},
            "ranks": {name: ranks.tolist() for name, ranks in self.ranks.items()},
        }


def path_beside_loop(
    closing: Closing,
    models: Mapping[str, Mapping[str, Any]],
    training: Training,
    record: Path | None = None,
    on_trained: Callable[[int], None] | None = None,
) -> PathLoopResult:
    """Train models on a path beside a loop, and rank all facts and those that would close them.

    Args:
        closing: Whether the fact that closes the loop is held out or trained.
        models: Model options by name.
        training: The training settings of all models.
        record: A file of JSON lines, one per model and closing: what it has is not trained again,
            what is new is appended.
        on_trained: Called with the number of new trainings.
    """
    done = {} if record is None else {_key(line): line for line in read_records(record)}
    ranks = {}
    for label, model in models.items():
        learned = learned_settings(training.settings(model, 0))
        line: dict[str, Any] = {
            "closing": closing,
            "model": label,
            "seeds": training.seeds,
            "settings_values": learned,
        }
        old = done.get(_key(line))
        if old is None:
            began = time.perf_counter()
            measured = _measure(closing, model, training, on_trained)
            line |= {
                "minutes": round((time.perf_counter() - began) / 60, 2),
                "ranks": [[[_number(r) for r in pair] for pair in one] for one in measured],
            }
            old = line if record is None else append_record(record, line)
        elif on_trained is not None:
            on_trained(training.seeds)
        ranks[label] = np.array(old["ranks"], dtype=np.float64)
    return PathLoopResult(closing, triple_names(closing), ranks)


def _key(line: Mapping[str, Any]) -> tuple[str, int, str]:
    return line["closing"], line["seeds"], repr(line["settings_values"])


def _number(rank: float) -> int | float:
    return int(rank) if rank == int(rank) else float(rank)


def _measure(
    closing: Closing,
    model: Mapping[str, Any],
    training: Training,
    on_trained: Callable[[int], None] | None,
) -> Ranks:
    graph, triples = path_loop_graph(closing), ranked_triples(closing)
    by_seed = []
    for seed in range(training.seeds):
        by_seed.append(rank_triples(train(graph, training.settings(model, seed)), triples))
        if on_trained is not None:
            on_trained(1)
    return np.array(by_seed)


def path_loop_graph(closing: Closing) -> KnowledgeGraph:
    """Return a path beside a loop, with the fact that closes the loop in train or in test."""
    whole = side_by_side("path", "loop", NODES)
    if closing == "trained":
        return whole
    rest = Triples.of([fact for fact in _rows(whole.train) if fact != CLOSES_LOOP])
    closes = Triples.of([CLOSES_LOOP])
    return KnowledgeGraph(whole.name, whole.entities, whole.relations, rest, test=closes)


def ranked_triples(closing: Closing) -> list[Ids]:
    """Return all triples that are ranked, the marked ones last."""
    facts = _rows(path_loop_graph(closing).train)
    return [*(fact for fact in facts if fact != CLOSES_LOOP), CLOSES_LOOP, *CLOSE_PATH]


def triple_names(closing: Closing) -> list[str]:
    """Return the ranked triples as text."""
    graph = path_loop_graph(closing)
    entities, relations = graph.entities, graph.relations
    return [
        f"{entities.name_of(h)} {relations.name_of(r)} {entities.name_of(t)}"
        for h, r, t in ranked_triples(closing)
    ]


def rank_triples(run: Run, triples: Sequence[Ids]) -> Ranks:
    """Return the filtered (left, right) ranks of triples; only facts of train are filtered."""
    count = len(run.graph.relations)

    def rank(ids: Ids) -> tuple[float, float]:
        # One triple at a time, so that none is filtered out of the ranking of another.
        triple = Triples.of([ids])
        known = KnownAnswers.of(with_reciprocals(run.graph.train + triple, count))
        tail, head = rank_answers(run.model, *both_sides(triple, count), known).realistic
        return float(head), float(tail)

    return np.array([rank(ids) for ids in triples])


def _rows(triples: Triples) -> list[Ids]:
    return [(h, r, t) for h, r, t in triples.array.tolist()]
