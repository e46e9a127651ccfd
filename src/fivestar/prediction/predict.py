"""Answer queries by id: top-k entities or relations, probabilities, splits, one whole triple.

These functions work on ids and arrays; `TrainedModel` puts names around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from fivestar.cancellation import check_cancelled
from fivestar.errors import SettingsError
from fivestar.evaluation.topk import AnswerFilter, Which, answer_log_probs, top_k
from fivestar.graph.choices import CandidateChoice
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.queries import Ids, Queries, Side
from fivestar.graph.relation_candidates import candidates_of
from fivestar.graph.triples import Triples
from fivestar.prediction.predictions import Prediction, Split, predictions_of

if TYPE_CHECKING:
    from fivestar.prediction.trained_model import TrainedModel

Keys = npt.NDArray[np.int64]


def predict_ids(
    trained: TrainedModel,
    queries: Ids,
    top: int,
    which: Which = "all",
    types: Sequence[str] = (),
    candidates: CandidateChoice = "all",
) -> list[list[Prediction]]:
    """Return the best answers to queries (n, 3) by id, with −1 for the missing slot.

    The entity of a query is not an answer to it, unless the graph holds that triple or self-loops
    are common in the relation (`KnowledgeGraph.allows_self_answers`).
    """
    graph = trained.graph
    answer_filter = AnswerFilter(
        trained.known_answers_to(queries),
        which,
        _entities_of_types(graph, types),
        graph.allows_self_answers,
        candidates_of(graph, candidates),
    )
    is_relation_query = queries[:, 1] < 0
    if types and is_relation_query.any():
        raise SettingsError("types restrict entities; a relation has none")
    if candidates != "all" and is_relation_query.any():
        raise SettingsError("candidates restrict entities; ask for a head or a tail, or omit them")
    rows: list[int] = np.flatnonzero(~is_relation_query).tolist()
    answers = dict(
        zip(rows, _predict_entities(trained, queries[rows], top, answer_filter), strict=True)
    )
    rows = np.flatnonzero(is_relation_query).tolist()
    answers |= zip(rows, _predict_relations(trained, queries[rows], top, which), strict=True)
    return [answers[row] for row in range(len(queries))]


def score_triple(trained: TrainedModel, head: int, relation: int, tail: int) -> Prediction:
    """Return score, probability and state of one triple, and the rank of its tail."""
    graph = trained.graph
    with torch.no_grad():
        scores = trained.model.score_tails(torch.tensor([head]), torch.tensor([relation]))[0]
    triple, loop = Triples.of([(head, relation, tail)]), Triples.of([(head, relation, head)])
    better = scores > scores[tail]
    if not graph.allows_self_answers[relation] and not loop.are_in(graph.facts)[0]:
        better[head] = False
    (found,) = predictions_of(
        graph.entities,
        np.array([tail]),
        np.array([int(better.sum()) + 1]),
        scores[[tail]].numpy(),
        triple_probabilities(trained, triple),
        _splits(trained, triple, triple.are_in(graph.facts)),
        refit=trained.is_refit,
    )
    return found


def triple_probabilities(trained: TrainedModel, triples: Triples) -> list[float | None]:
    """Return calibrated probabilities: the mean over the tail query and the head query."""
    h, r, t = triples.array.T.astype(np.int64)
    model, relations = trained.model, len(trained.graph.relations)
    tails = trained.calibrated(answer_log_probs(model, Queries.for_tails(h, r, relations), t))
    heads = trained.calibrated(answer_log_probs(model, Queries.for_heads(t, r, relations), h))
    return [
        None if one is None or other is None else (one + other) / 2
        for one, other in zip(tails, heads, strict=True)
    ]


def unseen_warnings(trained: TrainedModel, queries: Ids) -> list[str]:
    """Return a warning per entity or relation of the queries that no training triple has."""
    graph = trained.graph
    seen_entities, seen_relations = trained.seen_in_train
    unseen = [
        (vocabulary, number)
        for vocabulary, ids, seen in (
            (graph.entities, queries[:, [0, 2]], seen_entities),
            (graph.relations, queries[:, 1], seen_relations),
        )
        for number in sorted(set(ids[(ids >= 0) & ~seen[ids]].tolist()))
    ]
    has_vectors = trained.metrics.get("entity_vectors", {}).get("filled")
    worth = {
        graph.relations.kind: "are no better than chance",
        graph.entities.kind: "come from its given vector alone"
        if has_vectors
        else "are no better than chance",
    }
    return [
        f"{vocabulary.kind} {vocabulary.name_of(number)!r} has no triple in train, so its "
        f"predictions {worth[vocabulary.kind]}"
        for vocabulary, number in unseen
    ]


def held_out_keys(graph: KnowledgeGraph) -> dict[Split, Keys]:
    """Return sorted keys of the valid and test triples that no earlier split holds."""
    valid = graph.valid.take(~graph.valid.are_in(graph.train))
    test = graph.test.take(~graph.test.are_in(graph.train + graph.valid))
    return {"valid": np.sort(_keys(graph, valid)), "test": np.sort(_keys(graph, test))}


def _keys(graph: KnowledgeGraph, triples: Triples) -> Keys:
    h, r, t = triples.array.T.astype(np.int64)
    keys: Keys = (h * len(graph.relations) + r) * len(graph.entities) + t
    return keys


def _splits(
    trained: TrainedModel, triples: Triples, known: npt.NDArray[np.bool_]
) -> list[Split | None]:
    """Return the first split that holds each triple, given which of them any split holds."""
    splits: list[Split | None] = ["train" if is_known else None for is_known in known.tolist()]
    rows = np.flatnonzero(known)
    if not len(rows):
        return splits
    keys = _keys(trained.graph, triples.take(rows))
    for split, held_out in trained.held_out_keys.items():
        # Sorted, so that a binary search suffices: np.isin would sort again for each query.
        if len(held_out):
            position = np.minimum(np.searchsorted(held_out, keys), len(held_out) - 1)
            for row in rows[held_out[position] == keys].tolist():
                splits[row] = split
    return splits


def _predict_entities(
    trained: TrainedModel, queries: Ids, top: int, answer_filter: AnswerFilter
) -> Iterator[list[Prediction]]:
    graph = trained.graph
    heads, relations, tails = queries.T
    side = np.where(heads < 0, Side.HEAD, Side.TAIL).astype(np.int8)
    entity = np.where(heads < 0, tails, heads)
    best = top_k(
        trained.model,
        Queries(entity, relations, side, len(graph.relations)),
        top,
        answer_filter,
    )
    valid = best.ids >= 0
    row, _ = np.nonzero(valid)
    ids, known = best.ids[valid], best.known[valid]
    triples = Triples(
        *(
            column.astype(np.int32)
            for column in (
                np.where(heads[row] < 0, ids, heads[row]),
                relations[row],
                np.where(tails[row] < 0, ids, tails[row]),
            )
        )
    )
    answers = predictions_of(
        graph.entities,
        ids,
        np.broadcast_to(np.arange(1, best.ids.shape[1] + 1), best.ids.shape)[valid],
        best.scores[valid],
        trained.calibrated(best.log_probs[valid]),
        _splits(trained, triples, known),
        refit=trained.is_refit,
    )
    for count in valid.sum(axis=1).tolist():
        yield list(islice(answers, count))


def _predict_relations(
    trained: TrainedModel, queries: Ids, top: int, which: Which
) -> Iterator[list[Prediction]]:
    """Answer relation queries; only the probabilities of the answers themselves are computed."""
    if not len(queries):
        return
    graph, facts = trained.graph, trained.graph.facts
    relations = np.arange(len(graph.relations))
    parts = []
    for head, _, tail in queries.tolist():
        check_cancelled()
        with torch.no_grad():
            columns = (np.full_like(relations, head), relations, np.full_like(relations, tail))
            scores = trained.model.score(*map(torch.as_tensor, columns)).numpy()
        known = np.isin(relations, facts.relations[(facts.heads == head) & (facts.tails == tail)])
        allowed = {"all": np.ones(len(known), bool), "new": ~known, "known": known}[which]
        order = np.argsort(-scores, kind="stable")
        order = order[allowed[order]][:top]
        rows = np.stack([np.full_like(order, head), order, np.full_like(order, tail)], axis=1)
        parts.append((rows, scores[order], known[order], np.arange(1, len(order) + 1)))
    array, scores, known, ranks = (np.concatenate(column) for column in zip(*parts, strict=True))
    triples = Triples.of(array)
    answers = predictions_of(
        graph.relations,
        triples.relations,
        ranks,
        scores,
        triple_probabilities(trained, triples),
        _splits(trained, triples, known),
        refit=trained.is_refit,
    )
    for part in parts:
        yield list(islice(answers, len(part[0])))


def _entities_of_types(graph: KnowledgeGraph, types: Sequence[str]) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the entities that have one of the types; None for all entities."""
    if not types:
        return None
    entity_types = graph.required_types()
    type_ids = [entity_types.vocabulary.find(name) for name in types]
    mask = np.zeros(len(graph.entities), bool)
    mask[entity_types.entities[np.isin(entity_types.types, type_ids)]] = True
    return mask
