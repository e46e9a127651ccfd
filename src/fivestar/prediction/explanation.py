"""Explain the score of a triple: ranks, analogous facts, supporting paths, contributions."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fivestar.analysis.relations import relation_maps
from fivestar.errors import SettingsError
from fivestar.evaluation.calibration import Calibration
from fivestar.evaluation.ranking import rank_answers
from fivestar.evaluation.topk import answer_log_probs
from fivestar.geometry.classification import MobiusClass, classify
from fivestar.geometry.fixed_points import multiplier
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.graph.steps import Steps
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.distances import EuclideanDistance
from fivestar.models.fivestar import FiveStarE
from fivestar.models.neural import ConvE
from fivestar.models.similarity import Biased, Similarity
from fivestar.notebook import html_table
from fivestar.prediction.evidence import Evidence, count_evidence
from fivestar.prediction.findings import describe_pattern, findings_of
from fivestar.prediction.neighbors import Analogy, analogous_facts, cosine_similarities
from fivestar.prediction.path_patterns import SupportingPaths, supporting_paths
from fivestar.prediction.paths import TripleIds
from fivestar.prediction.predictions import (
    Named,
    State,
    describe_state,
    state_of,
)
from fivestar.runs.run import Run

# Tolerance when classifying a map, as in `fivestar geometry`.
TOLERANCE = 0.05


@dataclass(frozen=True)
class FilteredRank:
    """A realistic filtered rank (ties get the mean), the number of candidates, the probability.

    Other known answers are no candidates, nor is the query's own entity where predictions omit it
    (`fivestar.KnowledgeGraph.allows_self_answers`). The calibrated probability is that of the
    answer to this query; None as for `fivestar.prediction.predictions.Prediction`.
    """

    rank: float
    candidates: int
    probability: float | None = None


@dataclass(frozen=True)
class MobiusMap:
    """The Möbius map of a relation in one dimension; `scale` and `degrees` are |k| and arg k.

    k is the multiplier of the map; both are None if it is not finite.
    """

    map_class: str
    scale: float | None
    degrees: float | None
    description: str


@dataclass(frozen=True)
class Dimension:
    """The contribution of one dimension; `map` only for a 5★E with the denominator mobius."""

    dimension: int
    contribution: float
    map: MobiusMap | None


@dataclass(frozen=True)
class Contributions:
    """The dimensions with the largest contributions.

    Attributes:
        largest: dimensions by absolute contribution, largest first.
        num_dimensions: number of dimensions.
        positive: sum of all positive contributions.
        negative: sum of all negative contributions.
        bias: sum of the biases; with it, positive + negative + bias is the score.
    """

    largest: tuple[Dimension, ...]
    num_dimensions: int
    positive: float
    negative: float
    bias: float


@dataclass(frozen=True)
class Explanation:
    """The evidence for a triple.

    Attributes:
        head, relation, tail: the triple.
        score: score of the model.
        probability: probability of the triple, the mean over its tail query and its head query, as
            `fivestar.TrainedModel.score` has it.
        tail_rank: rank of the tail among all tails.
        head_rank: rank of the head among all heads.
        splits: splits that hold the triple; empty if it is new.
        state: "in train", "held out" or "new", as for `fivestar.prediction.predictions.Prediction`.
        relation_triples: number of training triples of the relation.
        evidence: similar entities and other answers, counted in train.
        analogies: most similar training triples of the relation.
        paths: most reliable paths between head and tail in train.
        dimensions: largest contributions; None if the score is not a sum over dimensions.
    """

    head: Named
    relation: Named
    tail: Named
    score: float
    probability: float | None
    tail_rank: FilteredRank
    head_rank: FilteredRank
    splits: tuple[str, ...]
    state: State
    relation_triples: int
    evidence: Evidence
    analogies: tuple[Analogy, ...]
    paths: SupportingPaths
    dimensions: Contributions | None

    @property
    def state_text(self) -> str:
        """Return the state with the split that holds the triple out."""
        return describe_state(self.state, self.splits[0] if self.splits else None)

    def as_json(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        return (
            f"Explanation({self.head} {self.relation} {self.tail}: {self.state_text}, "
            f"score {self.score:.3f}, rank {self.tail_rank.rank:,g} of "
            f"{self.tail_rank.candidates:,} tails, {len(self.analogies)} analogous facts, "
            f"{len(self.paths.patterns)} path patterns)"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("for" if each.supports else "against", each.text, "") for each in findings_of(self)
        ]
        rows += [
            ("analogous fact", f"{a.head} {self.relation} {a.tail}", f"cosine {a.similarity:.2f}")
            for a in self.analogies
        ]
        rows += [
            ("path", p.example_text(), describe_pattern(p, self.paths.base_rate))
            for p in self.paths.patterns
        ]
        if self.dimensions is not None:
            rows += [
                (
                    f"dimension {d.dimension}",
                    d.map.description if d.map else "",
                    f"{d.contribution:+.3f}",
                )
                for d in self.dimensions.largest
            ]
        title = (
            f"{self.head} {self.relation} {self.tail} ({self.state_text}): "
            f"score {self.score:.3f}, rank {self.tail_rank.rank:,g} of "
            f"{self.tail_rank.candidates:,} tails"
        )
        return html_table(("evidence", "what", "value"), rows, title)


class Explainer:
    """Explains triples of one trained model.

    Args:
        run: the model.
        steps: the steps of paths in its graph, if they are known already.
        calibration: the map to probabilities; without it there are none.
    """

    def __init__(
        self, run: Run, steps: Steps | None = None, calibration: Calibration | None = None
    ) -> None:
        self.run = run
        self.calibration = calibration
        self.steps = steps or Steps.of(run.graph.train, len(run.graph.relations))

    def explain(self, head: str, relation: str, tail: str, top: int = 5) -> Explanation:
        """Explain a triple given by names or labels, with `top` items per kind of evidence."""
        if top < 1:
            raise SettingsError(f"top must be at least 1, not {top}")
        graph = self.run.graph
        h, t = graph.entities.find(head), graph.entities.find(tail)
        r = graph.relations.find(relation)
        triple = TripleIds(h, r, t)
        splits = tuple(name for name, facts in graph.splits.items() if _contains(facts, triple))
        state = state_of(splits[0] if splits else None, refit=self.run.is_refit)
        tail_rank, head_rank = _ranks(self.run, triple)
        if self.calibration is not None and state != "in train":
            tail_rank, head_rank = _with_probabilities(
                self.run, triple, self.calibration, (tail_rank, head_rank)
            )
        cosines = cosine_similarities(self.run.model, [h, t])
        return Explanation(
            Named.of(graph.entities, h),
            Named.of(graph.relations, r),
            Named.of(graph.entities, t),
            _score(self.run, triple),
            _mean(tail_rank.probability, head_rank.probability),
            tail_rank,
            head_rank,
            splits,
            state,
            int((graph.train.relations == r).sum()),
            count_evidence(graph, triple, cosines),
            analogous_facts(self.run, triple, top, cosines),
            supporting_paths(graph, self.steps, triple, top),
            contributions(self.run, triple, top),
        )


def _mean(tail: float | None, head: float | None) -> float | None:
    return None if tail is None or head is None else (tail + head) / 2


def _contains(triples: Triples, triple: TripleIds) -> bool:
    same_ends = (triples.heads == triple.head) & (triples.tails == triple.tail)
    return bool((same_ends & (triples.relations == triple.relation)).any())


@torch.no_grad()
def _score(run: Run, triple: TripleIds) -> float:
    h, r, t = (torch.tensor([number]) for number in (triple.head, triple.relation, triple.tail))
    return float(run.model.score(h, r, t)[0])


def _ranks(run: Run, triple: TripleIds) -> tuple[FilteredRank, FilteredRank]:
    """Return the filtered ranks among all tails and among all heads."""
    relations = len(run.graph.relations)
    fact = Triples.of([(triple.head, triple.relation, triple.tail)])
    rivals = [
        facts.take(
            np.flatnonzero(
                (facts.relations == triple.relation)
                & ((facts.heads == triple.head) | (facts.tails == triple.tail))
            )
        )
        for facts in run.graph.splits.values()
    ]
    known = KnownAnswers.of(with_reciprocals(sum(rivals, start=fact), relations))
    ranks = rank_answers(run.model, *both_sides(fact, relations), known)
    hides_self = ~run.graph.allows_self_answers[fact.relations]
    ranks = ranks.without_self(np.tile(hides_self, 2))
    tail, head = zip(ranks.realistic.tolist(), ranks.candidates.tolist(), strict=True)
    return FilteredRank(*tail), FilteredRank(*head)


def _with_probabilities(
    run: Run,
    triple: TripleIds,
    calibration: Calibration,
    ranks: tuple[FilteredRank, FilteredRank],
) -> tuple[FilteredRank, FilteredRank]:
    """Add the calibrated probabilities of the tail and of the head to their ranks."""
    fact = Triples.of([(triple.head, triple.relation, triple.tail)])
    log_probs = answer_log_probs(run.model, *both_sides(fact, len(run.graph.relations)))
    tail, head = calibration(log_probs).tolist()
    return replace(ranks[0], probability=tail), replace(ranks[1], probability=head)


def contributions(run: Run, triple: TripleIds, top: int) -> Contributions | None:
    """Return the largest contributions to a score; None if it is not a sum over dimensions."""
    parts = terms(run.model, triple, run.settings.model.dim)
    if parts is None:
        return None
    each, bias = parts
    order = torch.topk(each.abs(), min(top, len(each))).indices.tolist()
    maps = _maps(run.model, triple.relation, order)
    return Contributions(
        tuple(
            Dimension(number, float(each[number]), mobius)
            for number, mobius in zip(order, maps, strict=True)
        ),
        len(each),
        float(each.clamp_min(0).sum()),
        float(each.clamp_max(0).sum()),
        bias,
    )


@torch.no_grad()
def terms(model: Model, triple: TripleIds, dim: int) -> tuple[Tensor, float] | None:
    """Return the contribution per dimension (D) and the bias; None if the score is no such sum."""
    if isinstance(model, ConvE):
        return None  # its network mixes all dimensions of the head
    query = model.query(torch.tensor([triple.head]), torch.tensor([triple.relation]))[0].double()
    tail = model.candidates()[triple.tail].double()
    similarity, bias = model.similarity, 0.0
    if isinstance(similarity, Biased):
        bias = float(query[-1] + tail[-1])
        similarity, query, tail = similarity.inner, query[:-1], tail[:-1]
    if len(query) != len(tail) or len(tail) % dim:
        return None  # MuRP, whose relation transforms the tail as well
    each = _per_dimension(similarity, query, tail, dim)
    total = similarity.score_pairs(query[None], tail[None])[0]
    # The similarity of a third-party model need not be a sum.
    return (each, bias) if torch.isclose(each.sum(), total, rtol=1e-5, atol=1e-5) else None


def _per_dimension(similarity: Similarity, query: Tensor, tail: Tensor, dim: int) -> Tensor:
    """Score each dimension by itself.

    Rows are [real | imaginary] or more parts, each with one number per dimension.
    """
    parts = [row.view(-1, dim).T for row in (query, tail)]
    each = similarity.score_pairs(parts[0], parts[1])
    if isinstance(similarity, EuclideanDistance):
        # The root is no sum, but ‖x‖ = Σ xᵢ²/‖x‖.
        shares: Tensor = each.square() / -torch.linalg.vector_norm(each).clamp_min(1e-300)
        return shares
    return each


def _maps(model: Model, relation: int, dimensions: list[int]) -> list[MobiusMap | None]:
    if not isinstance(model, FiveStarE) or model.denominator != "mobius":
        return [None] * len(dimensions)
    maps = relation_maps(model, model.relations.detach()[relation])[dimensions]
    classes = classify(maps, TOLERANCE).tolist()
    return [
        _mobius_map(MobiusClass(each), k)
        for each, k in zip(classes, multiplier(maps).tolist(), strict=True)
    ]


def _mobius_map(map_class: MobiusClass, k: complex) -> MobiusMap:
    scale, degrees = abs(k), math.degrees(math.atan2(k.imag, k.real))
    rotates, scales = f"rotates by {degrees:.0f}°".replace("-", "−"), f"scales by {scale:.2g}"
    description = {
        MobiusClass.DEGENERATE: "maps everything to one point",
        MobiusClass.IDENTITY: "identity",
        MobiusClass.PARABOLIC: "translates",
        MobiusClass.CIRCULAR: "half-turn",
        MobiusClass.ELLIPTIC: rotates,
        MobiusClass.HYPERBOLIC: scales,
        MobiusClass.LOXODROMIC: f"{rotates}, {scales}",
    }[map_class]
    is_finite = math.isfinite(scale) and math.isfinite(degrees)
    return MobiusMap(
        map_class.name.lower(),
        scale if is_finite else None,
        degrees if is_finite else None,
        description,
    )
