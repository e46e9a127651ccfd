"""New entities without training again: their embeddings are fitted to their facts alone."""

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
from fivestar.training.new_rows import first_guess, fit_new_rows

Fact = tuple[str, str, str]
# How long and how fast rows are fitted; experiments/answers/fold_in.py compares others.
EPOCHS, RATE = 20, 0.03
# New names that are compared with all known ones.
_LOOKED_AT = 20


@dataclass(frozen=True)
class Folded:
    """The run with the new entities, and who they are."""

    run: Run
    new: list[str]


def fold_in(
    run: Run,
    facts: Iterable[Fact],
    epochs: int = EPOCHS,
    lr: float = RATE,
    progress: Progress | None = None,
) -> Folded:
    """The run with all entities of these facts that it did not know.

    Every fact must tell something of a new entity; nothing that was trained changes. `progress` is
    called with (epochs done, epochs in all).
    """
    graph, new, triples = _extended(run.graph, list(facts))
    settings = run.settings
    model = build_model(graph, settings)
    old = run.model.state_dict()
    count = len(run.graph.entities)
    with torch.no_grad():
        for name, table in model.state_dict().items():
            into = table[: len(old[name])] if table.ndim else table
            into.copy_(old[name])
    rows = torch.arange(count, len(graph.entities), device=model.entities.device)
    relations = len(graph.relations)
    first_guess(model, triples, run.graph.train, rows, relations)
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
    folded = {**run.metrics, "folded_in": {"entities": len(new), "facts": len(triples)}}
    return Folded(Run(graph, settings, model, folded, run.history), new)


def doubtful(new: list[str], known: Vocabulary) -> dict[str, list[str]]:
    """Which new names may be misspellings, and of what; of many, the first are looked at."""
    names = list(known)  # comparing with each takes a while
    return {name: near for name in new[:_LOOKED_AT] if (near := closest_names(name, names))}


def _extended(
    graph: KnowledgeGraph, facts: list[Fact]
) -> tuple[KnowledgeGraph, list[str], Triples]:
    """The graph with new entities and their facts; the new names; the facts by id."""
    if not facts:
        raise GraphError("there are no facts to learn a new entity from")
    numbers: dict[str, int] = {}
    rows = []
    for head, relation, tail in facts:
        ids = [graph.entities.lookup(name) for name in (head, tail)]
        if None not in ids:
            raise GraphError(
                f"({head}, {relation}, {tail}): both entities are known already, and what is "
                "known is not changed here; train with --from to learn new facts of theirs"
            )
        r = graph.relations.find(relation)
        h, t = (
            numbers.setdefault(name, len(graph.entities) + len(numbers)) if i is None else i
            for i, name in zip(ids, (head, tail), strict=True)
        )
        rows.append((h, r, t))
    new = list(numbers)
    triples = Triples.of(rows).distinct()
    larger = replace(graph, entities=_with(graph.entities, new), train=graph.train + triples)
    return larger, new, triples


def _with(names: Vocabulary, new: list[str]) -> Vocabulary:
    more = pa.array(new, NAME_TYPE)
    nothing = pa.nulls(len(new), NAME_TYPE)

    def longer(column: pa.Array | None, by: pa.Array) -> pa.Array | None:
        return None if column is None else pa.concat_arrays([column, by])

    return Vocabulary(
        names.kind,
        longer(names.names, more),
        longer(names.labels, nothing),
        longer(names.descriptions, nothing),
    )
