"""Count the evidence for and against a triple in train: similar entities, and other answers.

Both are counted on each side. If the ten heads most similar to the head have the same tail more
often than all heads do, that supports the triple. If the head has another tail already, and nearly
every head has exactly one, that speaks against it; whether similar tails have the head says nothing
then, and is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.prediction.paths import TripleIds
from fivestar.prediction.predictions import Named

Ids = npt.NDArray[np.integer]
NUM_SIMILAR = 10
# From this share on, having exactly one answer is the rule.
_RULE = 0.9


@dataclass(frozen=True)
class SimilarEntities:
    """How many of the entities most similar to one end of a triple have its other end.

    Attributes:
        count: number of the most similar other heads (or tails) of the relation in train, at most
            ten; 0 if nearly every tail (or head) has exactly one answer.
        support: number of these that have the tail (or head) of the triple.
        share: share of all other heads (or tails) that have it.
        supports: whether the most similar ones have it more often than all.
    """

    count: int
    support: int
    share: float
    supports: bool


_NOT_COUNTED = SimilarEntities(0, 0, 0.0, supports=False)


@dataclass(frozen=True)
class OtherAnswers:
    """The other tails of the head (or heads of the tail) in train.

    Attributes:
        count: number of other answers.
        example: one of them; None if there is none.
        single_share: share of the other heads (or tails) that have exactly one answer.
        is_against: whether there is another answer although nearly all have exactly one.
    """

    count: int
    example: Named | None
    single_share: float
    is_against: bool

    @property
    def is_single(self) -> bool:
        """Return whether nearly all have exactly one answer."""
        return self.single_share >= _RULE


@dataclass(frozen=True)
class Evidence:
    """What can be counted for and against a triple, on both of its sides.

    Attributes:
        similar_heads: heads most similar to the head, and whether they have the tail.
        similar_tails: tails most similar to the tail, and whether they have the head.
        other_tails: other tails of the head.
        other_heads: other heads of the tail.
    """

    similar_heads: SimilarEntities
    similar_tails: SimilarEntities
    other_tails: OtherAnswers
    other_heads: OtherAnswers


def count_evidence(graph: KnowledgeGraph, triple: TripleIds, cosines: Tensor) -> Evidence:
    """Count the evidence for and against a triple.

    Args:
        graph: the graph.
        triple: the triple; it is no evidence for itself.
        cosines: cosines (2, N) of its head and of its tail with all entities.
    """
    facts = graph.train.take(np.flatnonzero(graph.train.relations == triple.relation))
    head, tail = triple.head, triple.tail
    swapped = Triples(facts.tails, facts.relations, facts.heads)
    to_head, to_tail = cosines.cpu().numpy()
    other_tails = _other_answers(facts, head, tail, graph.entities)
    other_heads = _other_answers(swapped, tail, head, graph.entities)
    return Evidence(
        _NOT_COUNTED if other_heads.is_single else _similar(facts, head, tail, to_head),
        _NOT_COUNTED if other_tails.is_single else _similar(swapped, tail, head, to_tail),
        other_tails,
        other_heads,
    )


def _similar(
    facts: Triples, given: int, answer: int, cosines: npt.NDArray[np.floating]
) -> SimilarEntities:
    others = np.unique(facts.heads)
    others = others[others != given]
    if not len(others):
        return _NOT_COUNTED
    have = np.isin(others, facts.heads[facts.tails == answer])
    nearest = np.argsort(-cosines[others], kind="stable")[:NUM_SIMILAR]
    support, share = int(have[nearest].sum()), float(have.mean())
    return SimilarEntities(len(nearest), support, share, support > share * len(nearest))


def _other_answers(facts: Triples, given: int, answer: int, names: Vocabulary) -> OtherAnswers:
    own = facts.tails[(facts.heads == given) & (facts.tails != answer)]
    _, counts = np.unique(facts.heads[facts.heads != given], return_counts=True)
    single_share = float((counts == 1).mean()) if len(counts) else 0.0
    example = Named.of(names, int(own[0])) if len(own) else None
    return OtherAnswers(len(own), example, single_share, bool(len(own)) and single_share >= _RULE)


def are_second_answers(facts: Triples, heads: Ids, tails: Ids) -> npt.NDArray[np.bool_]:
    """Return a mask of the new triples of a relation that `OtherAnswers.is_against` speaks against.

    Args:
        facts: the facts of the relation in train.
        heads: ids (n,) of the heads of new triples.
        tails: ids (n,) of their tails.
    """
    return _have_another(facts.heads, heads) | _have_another(facts.tails, tails)


def _have_another(column: Ids, asked: Ids) -> npt.NDArray[np.bool_]:
    """Return whether entities have an answer, where nearly all others have exactly one."""
    given, counts = np.unique(column, return_counts=True)
    if len(given) < 2:
        return np.zeros(len(asked), bool)
    place = np.minimum(np.searchsorted(given, asked), len(given) - 1)
    own = np.where(given[place] == asked, counts[place], 0)
    single = (counts == 1).sum() - (own == 1)
    rule: npt.NDArray[np.bool_] = single >= _RULE * (len(given) - 1)
    return (own > 0) & rule
