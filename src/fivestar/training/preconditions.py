"""Refuse settings that cannot be trained with this model on this graph."""

from __future__ import annotations

from pathlib import Path

from fivestar.errors import SettingsError
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.models.base import Model
from fivestar.runs.settings import Settings, TrainingSettings


def check_graph(graph: KnowledgeGraph, training: TrainingSettings, folder: Path | None) -> None:
    """Raise SettingsError if the graph or the missing folder does not go with the settings."""
    if not len(graph.train):
        raise SettingsError(f"{graph.name} has no training triples; give a graph with some")
    if training.snapshot_epochs and folder is None:
        raise SettingsError("snapshot-epochs needs a folder for the run; give out")
    if training.refit and not len(graph.valid):
        raise SettingsError(
            f"{graph.name} has no validation triples, so there is no best number of epochs to "
            "refit with; hold some out (valid), or train without refit"
        )


def check_batch_norm(model: Model, settings: Settings, rows: int, facts: int) -> None:
    """Raise SettingsError where a model with batch normalization cannot be trained as set.

    Args:
        model: the model.
        settings: all settings of the run.
        rows: how many queries fit into the memory at once.
        facts: how many facts are trained on.
    """
    name, training = settings.model.name, settings.training
    if not model.uses_batch_norm:
        return
    if not training.reciprocals:
        raise SettingsError(
            f"{name} normalises over a batch, so it cannot move every entity by "
            "itself to ask for heads: train it with reciprocals"
        )
    if rows < min(training.batch_size, facts):
        raise SettingsError(
            f"{name} normalises over a batch, so a batch cannot be done in "
            f"parts: give more memory or a batch of at most {rows}"
        )
    if training.relation_loss_weight:
        raise SettingsError(
            f"{name} normalises over a batch, and a second question changes that"
            ": train it with relation-weight 0"
        )
