"""Inductive fold-in: fit embeddings of new entities to their triples, without retraining."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import torch

from fivestar.errors import GraphError
from fivestar.evaluation.ranking import Progress
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import NAME_TYPE, Vocabulary
from fivestar.runs.run import Run, build_model
from fivestar.spelling import closest_names
from fivestar.training.fold_in import fit_new_rows, initialize_rows

Fact = tuple[str, str, str]
# Defaults, chosen by experiments/fold_in.py.
EPOCHS, LEARNING_RATE = 20, 0.03
# New names that are checked for misspellings.
_MAX_CHECKED = 20


@dataclass(frozen=True)
class FoldedIn:
    """The run with the new entities, and their names."""

    run: Run
    new: list[str]


def fold_in(
    run: Run,
    facts: Iterable[Fact],
    epochs: int = EPOCHS,
    lr: float = LEARNING_RATE,
    progress: Progress | None = None,
) -> FoldedIn:
    """Return the run extended by all entities of these triples that it lacks.

    Only the embeddings of the new entities are fitted; nothing that was trained changes.

    Args:
        run: a trained run.
        facts: triples by name; each must have at least one new entity.
        epochs: passes over the new triples.
        lr: learning rate.
        progress: called with (epochs done, epochs in all).

    Raises:
        GraphError: if there are no triples, or one has no new entity.
        UnknownName: if a relation is not in the graph.
    """
    graph, new, triples = _extended(run.graph, list(facts))
    settings = run.settings
    model = build_model(graph, settings)
    old = run.model.state_dict()
    count = len(run.graph.entities)
    with torch.no_grad():
        for name, table in model.state_dict().items():
            target = table[: len(old[name])] if table.ndim else table
            target.copy_(old[name])
    rows = torch.arange(count, len(graph.entities), device=model.entities.device)
    relations = len(graph.relations)
    initialize_rows(model, triples, run.graph.train, rows, relations)
    fit_new_rows(
        model,
        triples,
        run.graph.train,
        relations,
        rows,
        settings.training,
        epochs=epochs,
        lr=lr,
        progress=progress,
    )
    for parameter in model.parameters():
        parameter.grad = None
    metrics = {**run.metrics, "folded_in": {"entities": len(new), "facts": len(triples)}}
    return FoldedIn(Run(graph, settings, model, metrics, run.history), new)


def possible_misspellings(new: list[str], existing: Vocabulary) -> dict[str, list[str]]:
    """Return the new names that resemble existing ones, with those; only the first are checked."""
    names = list(existing)
    return {name: near for name in new[:_MAX_CHECKED] if (near := closest_names(name, names))}


def _extended(
    graph: KnowledgeGraph, facts: list[Fact]
) -> tuple[KnowledgeGraph, list[str], Triples]:
    """Return the graph with the new entities and triples, the new names, and the triples by id."""
    if not facts:
        raise GraphError("there are no triples to fit a new entity to")
    numbers: dict[str, int] = {}
    rows = []
    for head, relation, tail in facts:
        ids = [graph.entities.lookup(name) for name in (head, tail)]
        if None not in ids:
            raise GraphError(
                f"({head}, {relation}, {tail}): both entities are in the model already, and their "
                "embeddings are not changed; train with warm_start to learn new triples of theirs"
            )
        r = graph.relations.find(relation)
        h, t = (
            numbers.setdefault(name, len(graph.entities) + len(numbers)) if i is None else i
            for i, name in zip(ids, (head, tail), strict=True)
        )
        rows.append((h, r, t))
    new = list(numbers)
    triples = Triples.of(rows).distinct()
    extended = replace(
        graph, entities=_extended_vocabulary(graph.entities, new), train=graph.train + triples
    )
    return extended, new, triples


def _extended_vocabulary(names: Vocabulary, new: list[str]) -> Vocabulary:
    more = pa.array(new, NAME_TYPE)
    missing = pa.nulls(len(new), NAME_TYPE)

    def extend(column: pa.Array | None, by: pa.Array) -> pa.Array | None:
        return None if column is None else pa.concat_arrays([column, by])

    return Vocabulary(
        names.kind,
        extend(names.names, more),
        extend(names.labels, missing),
        extend(names.descriptions, missing),
    )
