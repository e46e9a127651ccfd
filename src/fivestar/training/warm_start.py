"""Training that begins with what another run has learned, on the same graph or on a changed one.

Entities and relations are matched by name. What is new begins as in any training; the update rule's
memory of what is kept (Adagrad's sums, Adam's means) is kept as well, or its first steps would undo
what was learned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.vocabulary import Vocabulary
from fivestar.models.base import Model
from fivestar.runs.run import CHECKPOINT, Run, load_run
from fivestar.runs.settings import Settings
from fivestar.training.checkpoint import load_memory

# Names of what has vanished that are told.
_TOLD = 5


@torch.no_grad()
def inherit(
    model: Model,
    optimizer: torch.optim.Optimizer,
    graph: KnowledgeGraph,
    settings: Settings,
    folder: Path,
) -> dict[str, Any]:
    """Fill a model that is about to be trained from a run; what was kept, new and vanished."""
    source = load_run(folder)
    _check(settings, source.settings, folder)
    rows = _rows(graph, source, reciprocals=settings.training.reciprocals)
    kept = source.model.state_dict()
    for name, table in model.state_dict().items():
        _carry(kept[name].to(table), table, rows.get(name))
    same_rule = settings.training.optimizer == source.settings.training.optimizer
    remembers = same_rule and (folder / CHECKPOINT).is_file()
    if remembers:
        memory = load_memory(folder / CHECKPOINT)
        for number, (name, table) in enumerate(model.named_parameters()):
            for key, old in memory.get(number, {}).items():
                state = optimizer.state[table]
                if old.ndim == 0:  # how many steps there were
                    state[key] = old
                    continue
                state[key] = state.get(key, torch.zeros_like(table))
                _carry(old.to(table), state[key], rows.get(name))
    return {
        "graph": source.graph.name,
        "optimizer_memory": remembers,
        "entities": _told(graph.entities, source.graph.entities),
        "relations": _told(graph.relations, source.graph.relations),
    }


def _check(settings: Settings, before: Settings, folder: Path) -> None:
    wanted, had = settings.model.model_dump(), before.model.model_dump()
    wanted["reciprocals"] = settings.training.reciprocals
    had["reciprocals"] = before.training.reciprocals
    # Where training would have begun is of no interest any more.
    other = [key for key in wanted if wanted[key] != had[key] and key != "init"]
    if other:
        key = other[0]
        raise SettingsError(
            f"{key} is {wanted[key]!r}, but {had[key]!r} in {folder}, which training is to begin "
            "from; leave it out, or convert that run first (fivestar convert)"
        )


def _rows(graph: KnowledgeGraph, source: Run, *, reciprocals: bool) -> dict[str, Tensor]:
    """For each row of the two tables, the row in the source or −1."""
    entity = graph.entities.ids_in(source.graph.entities)
    relation = graph.relations.ids_in(source.graph.relations)
    if reciprocals:
        turned = np.where(relation < 0, -1, relation + len(source.graph.relations))
        relation = np.concatenate([relation, turned])
    return {
        "entities": torch.tensor(entity, dtype=torch.int64),
        "relations": torch.tensor(relation, dtype=torch.int64),
    }


def _carry(old: Tensor, new: Tensor, rows: Tensor | None) -> None:
    """Copy rows that have a number, or all of a tensor that has nothing to do with names."""
    if rows is None:
        new.copy_(old)
        return
    rows = rows.to(new.device)
    known = rows >= 0
    new[known] = old[rows[known]]


def _told(now: Vocabulary, before: Vocabulary) -> dict[str, Any]:
    kept = int((now.ids_in(before) >= 0).sum())
    gone = np.flatnonzero(before.ids_in(now) < 0)
    return {
        "kept": kept,
        "new": len(now) - kept,
        "vanished": len(gone),
        "some_vanished": before.names_of(gone[:_TOLD]),
    }
