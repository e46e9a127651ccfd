"""Why a model gives a fact its score: ranks, analogous facts, paths in the graph, dimensions."""

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
from fivestar.prediction.analogies import Analogy, analogous_facts
from fivestar.prediction.contributions import Contributions, contributions
from fivestar.prediction.named import Named
from fivestar.prediction.path_evidence import PathEvidence, path_evidence
from fivestar.prediction.paths import Asked
from fivestar.runs.run import Run


@dataclass(frozen=True)
class RankAmong:
    """A realistic rank (ties in the mean) and the number of candidates.

    Not among the candidates: other known answers, and the query's own entity where predictions
    leave it out (`KnowledgeGraph.allows_self_answers`).
    """

    rank: float
    candidates: int


@dataclass(frozen=True)
class Explanation:
    """Everything that speaks for or against a fact.

    `splits` names those that hold the fact, none if it is new. `dimensions` is None if the score is
    no sum over dimensions.
    """

    head: Named
    relation: Named
    tail: Named
    score: float
    among_tails: RankAmong
    among_heads: RankAmong
    splits: tuple[str, ...]
    facts_of_relation: int
    analogies: tuple[Analogy, ...]
    paths: PathEvidence
    dimensions: Contributions | None

    def as_json(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self)


class Explainer:
    """Explains facts of one run; what all explanations need is prepared once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.steps = Steps.of(run.graph.train, len(run.graph.relations))

    def explain(self, head: str, relation: str, tail: str, top: int = 5) -> Explanation:
        """Explain a fact by names or labels, with so many analogies, paths and dimensions."""
        if top < 1:
            raise SettingsError(f"top must be at least 1, not {top}")
        graph = self.run.graph
        h, t = graph.entities.find(head), graph.entities.find(tail)
        r = graph.relations.find(relation)
        asked = Asked(h, r, t)
        among_tails, among_heads = _ranks(self.run, asked)
        return Explanation(
            Named.of(graph.entities, h),
            Named.of(graph.relations, r),
            Named.of(graph.entities, t),
            _score(self.run, asked),
            among_tails,
            among_heads,
            tuple(name for name, facts in graph.splits.items() if _holds(facts, asked)),
            int((graph.train.relations == r).sum()),
            analogous_facts(self.run, asked, top),
            path_evidence(graph, self.steps, asked, top),
            contributions(self.run, asked, top),
        )


def explain(run: Run, head: str, relation: str, tail: str, top: int = 5) -> Explanation:
    """Explain one fact, known or not; for many facts of a run, keep an `Explainer`."""
    return Explainer(run).explain(head, relation, tail, top)


def _holds(facts: Triples, asked: Asked) -> bool:
    same_ends = (facts.heads == asked.head) & (facts.tails == asked.tail)
    return bool((same_ends & (facts.relations == asked.relation)).any())


@torch.no_grad()
def _score(run: Run, asked: Asked) -> float:
    h, r, t = (torch.tensor([number]) for number in (asked.head, asked.relation, asked.tail))
    return float(run.model.score(h, r, t)[0])


def _ranks(run: Run, asked: Asked) -> tuple[RankAmong, RankAmong]:
    """The ranks among all tails and among all heads."""
    relations = len(run.graph.relations)
    fact = Triples.of([(asked.head, asked.relation, asked.tail)])
    rivals = [
        facts.take(
            np.flatnonzero(
                (facts.relations == asked.relation)
                & ((facts.heads == asked.head) | (facts.tails == asked.tail))
            )
        )
        for facts in run.graph.splits.values()
    ]
    known = KnownAnswers.of(with_reciprocals(sum(rivals, start=fact), relations))
    ranks = rank_answers(run.model, *both_sides(fact, relations), known)
    hides_self = ~run.graph.allows_self_answers[fact.relations]
    ranks = ranks.without_self(np.tile(hides_self, 2))
    tail, head = zip(ranks.realistic.tolist(), ranks.candidates.tolist(), strict=True)
    return RankAmong(*tail), RankAmong(*head)
