"""Warm start: train from the weights of another run, on the same graph or on a changed one.

Entities and relations are matched by name. New rows are initialized as in any training. The
optimizer state of the other rows (Adagrad's sums, Adam's means) is copied as well, or the first
steps would undo what was learned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.vocabulary import Vocabulary
from fivestar.models.base import Model
from fivestar.runs.run import CHECKPOINT, WEIGHTS, Run, load_run
from fivestar.runs.settings import Settings
from fivestar.training.checkpoint import load_optimizer_state

# Number of vanished names that are reported.
_MAX_NAMES = 5


@torch.no_grad()
def copy_weights(
    model: Model,
    optimizer: torch.optim.Optimizer,
    graph: KnowledgeGraph,
    settings: Settings,
    folder: Path,
) -> dict[str, Any]:
    """Copy the weights and optimizer state of a run into a new model.

    Processes that share the entity table copy the rows that they hold.

    Args:
        model: the model to train.
        optimizer: its optimizer.
        graph: its graph.
        settings: its settings.
        folder: the run to start from.

    Returns:
        The number of entities and relations that are kept, new and vanished, for the metrics.

    Raises:
        SettingsError: if the run has another model or other model settings.
    """
    source = load_run(folder)
    _check(settings, source.settings, folder)
    rows = _rows(graph, source, reciprocals=settings.training.reciprocals)
    rows["entities"] = rows["entities"][model.shard.start : model.shard.stop]
    # Mapped, so that a process reads only the rows that it needs.
    is_whole = source.model.shard.is_whole
    kept = source.model.state_dict() if is_whole else load_file(folder / WEIGHTS)
    for name, table in model.state_dict().items():
        _copy_rows(kept[name].to(table), table, rows.get(name))
    same_rule = settings.training.optimizer == source.settings.training.optimizer
    has_state = same_rule and (folder / CHECKPOINT).is_file()
    if has_state:
        states = load_optimizer_state(folder / CHECKPOINT)
        for number, (name, table) in enumerate(model.named_parameters()):
            for key, old in states.get(number, {}).items():
                state = optimizer.state[table]
                if old.ndim == 0:  # number of steps
                    state[key] = old
                    continue
                state[key] = state.get(key, torch.zeros_like(table))
                _copy_rows(old.to(table), state[key], rows.get(name))
    return {
        "graph": source.graph.name,
        "optimizer_memory": has_state,
        "entities": _count_names(graph.entities, source.graph.entities),
        "relations": _count_names(graph.relations, source.graph.relations),
    }


def _check(settings: Settings, before: Settings, folder: Path) -> None:
    wanted, had = settings.model.model_dump(), before.model.model_dump()
    wanted["reciprocals"] = settings.training.reciprocals
    had["reciprocals"] = before.training.reciprocals
    # The initialization has no effect in a warm start.
    other = [key for key in wanted if wanted[key] != had[key] and key != "init"]
    if other:
        key = other[0]
        raise SettingsError(
            f"{key} is {wanted[key]!r}, but {had[key]!r} in {folder}, which training is to start "
            "from; omit it, or convert that run first (fivestar convert)"
        )


def _rows(graph: KnowledgeGraph, source: Run, *, reciprocals: bool) -> dict[str, Tensor]:
    """Return for each row of the two tables its row in the source, or −1."""
    entity = graph.entities.ids_in(source.graph.entities)
    relation = graph.relations.ids_in(source.graph.relations)
    if reciprocals:
        turned = np.where(relation < 0, -1, relation + len(source.graph.relations))
        relation = np.concatenate([relation, turned])
    return {
        "entities": torch.tensor(entity, dtype=torch.int64),
        "relations": torch.tensor(relation, dtype=torch.int64),
    }


def _copy_rows(old: Tensor, new: Tensor, rows: Tensor | None) -> None:
    """Copy the rows that the source has, or all of a tensor without rows per name."""
    if rows is None:
        new.copy_(old)
        return
    rows = rows.to(new.device)
    known = rows >= 0
    new[known] = old[rows[known]]


def _count_names(now: Vocabulary, before: Vocabulary) -> dict[str, Any]:
    kept = int((now.ids_in(before) >= 0).sum())
    gone = np.flatnonzero(before.ids_in(now) < 0)
    return {
        "kept": kept,
        "new": len(now) - kept,
        "vanished": len(gone),
        "some_vanished": before.names_of(gone[:_MAX_NAMES]),
    }
