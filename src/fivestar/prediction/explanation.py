"""Explain the score of a triple: ranks, analogous facts, supporting paths, dimensions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from fivestar.errors import SettingsError
from fivestar.evaluation.ranking import rank_answers
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.graph.steps import Steps
from fivestar.graph.triples import Triples
from fivestar.prediction.contributions import Contributions, contributions
from fivestar.prediction.neighbors import Analogy, analogous_facts
from fivestar.prediction.path_patterns import SupportingPaths, supporting_paths
from fivestar.prediction.paths import TripleIds
from fivestar.prediction.predictions import Named, html_table
from fivestar.runs.run import Run


@dataclass(frozen=True)
class FilteredRank:
    """A realistic filtered rank (ties get the mean) and the number of candidates.

    Other known answers are no candidates, nor is the query's own entity where predictions omit it
    (`KnowledgeGraph.allows_self_answers`).
    """

    rank: float
    candidates: int


@dataclass(frozen=True)
class Explanation:
    """The evidence for a triple.

    Attributes:
        head, relation, tail: the triple.
        score: score of the model.
        tail_rank: rank of the tail among all tails.
        head_rank: rank of the head among all heads.
        splits: splits that hold the triple; empty if it is new.
        relation_triples: number of training triples of the relation.
        analogies: most similar training triples of the relation.
        paths: most reliable paths between head and tail in train.
        dimensions: largest contributions; None if the score is not a sum over dimensions.
    """

    head: Named
    relation: Named
    tail: Named
    score: float
    tail_rank: FilteredRank
    head_rank: FilteredRank
    splits: tuple[str, ...]
    relation_triples: int
    analogies: tuple[Analogy, ...]
    paths: SupportingPaths
    dimensions: Contributions | None

    def as_json(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return asdict(self)

    def _repr_html_(self) -> str:
        rows = [
            ("analogous fact", f"{a.head} {self.relation} {a.tail}", f"cosine {a.similarity:.2f}")
            for a in self.analogies
        ]
        rows += [
            (
                "path",
                p.example_text(),
                "" if p.confidence is None else f"confidence {p.confidence:.1%}",
            )
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
            f"{self.head} {self.relation} {self.tail}: score {self.score:.3f}, "
            f"rank {self.tail_rank.rank:,g} of {self.tail_rank.candidates:,} tails"
        )
        return html_table(("evidence", "what", "value"), rows, title)


class Explainer:
    """Explains triples of one trained model; shared indices are built once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.steps = Steps.of(run.graph.train, len(run.graph.relations))

    def explain(self, head: str, relation: str, tail: str, top: int = 5) -> Explanation:
        """Explain a triple given by names or labels, with `top` items per kind of evidence."""
        if top < 1:
            raise SettingsError(f"top must be at least 1, not {top}")
        graph = self.run.graph
        h, t = graph.entities.find(head), graph.entities.find(tail)
        r = graph.relations.find(relation)
        triple = TripleIds(h, r, t)
        tail_rank, head_rank = _ranks(self.run, triple)
        return Explanation(
            Named.of(graph.entities, h),
            Named.of(graph.relations, r),
            Named.of(graph.entities, t),
            _score(self.run, triple),
            tail_rank,
            head_rank,
            tuple(name for name, triples in graph.splits.items() if _contains(triples, triple)),
            int((graph.train.relations == r).sum()),
            analogous_facts(self.run, triple, top),
            supporting_paths(graph, self.steps, triple, top),
            contributions(self.run, triple, top),
        )


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
