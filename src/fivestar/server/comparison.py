"""Two served runs on the same held-out facts, as JSON."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import BaseModel

from fivestar.errors import GraphError
from fivestar.prediction.comparison import Comparison, compare_runs
from fivestar.server.problems import Problem
from fivestar.server.schemas import Named
from fivestar.server.service import Json, ServedModel, named

# At most this many facts are ranked, and this many multiply-adds spent per run on it.
_MAX_TRIPLES = 2000
_MAX_WORK = 1e11
# Listed queries and relations.
_MAX_QUERIES = 100
_MAX_RELATIONS = 200


class RelationComparison(BaseModel):
    """The metrics of both runs on the queries of one relation."""

    relation: Named
    num_queries: int
    metrics: list[dict[str, float]]


class QueryComparison(BaseModel):
    """A query and the realistic filtered rank of its true answer in both runs.

    `side` is the missing side: `tails` is (head, relation, ?), `heads` is (?, relation, tail).
    `difference` is that of the reciprocal ranks, first run minus second.
    """

    head: Named
    relation: Named
    tail: Named
    side: Literal["tails", "heads"]
    ranks: tuple[float, float]
    difference: float


class MrrDifference(BaseModel):
    """MRR of the first run minus that of the second, its 95 % interval and two-sided p-value."""

    mrr: float
    low: float
    high: float
    p: float


class CompareResponse(BaseModel):
    """Two runs on facts that neither was trained on.

    `num_triples` facts of `num_held_out` are ranked, each with a query for its tail and one for its
    head. `queries` are those with the largest difference of reciprocal ranks, at most 100;
    `relations` those with the most queries, at most 200.
    """

    run: str
    other: str
    split: Literal["test", "valid"]
    num_held_out: int
    num_triples: int
    num_relations: int
    metrics: list[dict[str, float]]
    difference: MrrDifference
    relations: list[RelationComparison]
    queries: list[QueryComparison]


def compare(served: ServedModel, other: ServedModel) -> Json:
    """Compare two runs.

    Raises:
        Problem: 409 if no fact is held out by both.
    """
    work = max(each.cost.tail + each.cost.head for each in (served, other))
    limit = max(1, min(_MAX_TRIPLES, int(_MAX_WORK / work)))
    try:
        comparison = compare_runs(served.model, other.model, limit)
    except GraphError as error:
        raise Problem(409, str(error), "nothing-held-out") from error
    relations = np.unique(comparison.triples.relations)
    return {
        "other": other.name,
        "split": comparison.split,
        "num_held_out": comparison.num_held_out,
        "num_triples": len(comparison.triples),
        "num_relations": len(relations),
        "metrics": comparison.metrics(),
        "difference": comparison.difference()._asdict(),
        "relations": _relations(served, comparison),
        "queries": _queries(served, comparison),
    }


def _relations(served: ServedModel, comparison: Comparison) -> list[Json]:
    ids, counts = np.unique(comparison.triples.relations, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MAX_RELATIONS]
    return [
        {
            "relation": named(served.graph.relations, int(ids[at])),
            "num_queries": 2 * int(counts[at]),
            "metrics": comparison.metrics(comparison.triples.relations == ids[at]),
        }
        for at in order
    ]


def _queries(served: ServedModel, comparison: Comparison) -> list[Json]:
    rows = comparison.triples.array.tolist()
    return [
        {
            **served.named_query((rows[query.row][0], rows[query.row][1], rows[query.row][2])),
            "side": query.side,
            "ranks": query.ranks,
            "difference": query.difference,
        }
        for query in comparison.disagreements(_MAX_QUERIES)
    ]
