"""Give a graph without validation facts some, or say what a training without them loses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from fivestar.errors import SplitImpossible
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.splitting import hold_out_validation
from fivestar.graph.triples import Triples
from fivestar.runs.run import read_begun_run

_LOST = (
    "there is no early stopping, the last epoch is kept instead of the best one, and answers have "
    "no calibrated probabilities"
)


class WithValidation(NamedTuple):
    """A graph to train on, how many of its facts were held out, and what to warn of, or ""."""

    graph: KnowledgeGraph
    held_out: int = 0
    warning: str = ""


def with_validation(
    graph: KnowledgeGraph,
    valid: float | None = None,
    source: str | os.PathLike[str] | None = None,
) -> WithValidation:
    """Hold out validation facts where a graph has none.

    Args:
        graph: the graph to train on.
        valid: a share or a number of facts, 0 for none; by default as `hold_out_validation` does.
        source: the folder of the run that training begins from. What it was trained on is not held
            out, since a model would remember it.

    Raises:
        SettingsError: if the graph has validation facts of its own and `valid` is given.
        SplitImpossible: if `valid` is given and no fact can be held out.
    """
    if not len(graph.train):
        return WithValidation(graph)  # training refuses it
    trained = None if source is None else _trained_facts(Path(source), graph)
    if len(graph.valid) and valid is None:
        return WithValidation(graph, warning=_leak(graph, trained))
    if valid == 0 and not len(graph.valid):
        return WithValidation(graph, warning=f"training without validation: {_LOST}")
    try:
        parts = hold_out_validation(graph, valid, trained=trained)
    except SplitImpossible as error:
        if valid is not None:
            raise
        return WithValidation(graph, warning=f"{error}. In a training without validation {_LOST}")
    return WithValidation(parts, len(parts.valid))


def _trained_facts(run: Path, graph: KnowledgeGraph) -> Triples:
    """Return what a run was trained on, with the ids of another graph."""
    known, settings = read_begun_run(run)
    trained = known.train + known.valid if settings.training.refit else known.train
    return known.translated(trained, graph)


def _leak(graph: KnowledgeGraph, trained: Triples | None) -> str:
    """Return a warning if a run to begin from was trained on validation facts, or ""."""
    if trained is None:
        return ""
    known = graph.valid.are_in(trained) & ~graph.valid.are_in(graph.train)
    if not known.any():
        return ""
    return (
        f"{known.sum():,} of {len(known):,} validation facts were trained on by the run that this "
        "one begins from, so the validation metrics are too high"
    )
