"""Check settings against graph, model and device, and bound the memory of a step.

The working set is what training adds to a process that has imported torch and read the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from fivestar.errors import SettingsError
from fivestar.evaluation.ranking import BASE_BYTES, FACT_BYTES, SCORE_BYTES, table_bytes
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.models.base import Model
from fivestar.models.similarity import TILE, Bfloat16InnerProduct, InnerProduct, Similarity
from fivestar.runs.settings import OVER_ALL, Settings, TrainingSettings
from fivestar.runs.units import format_bytes, parse_bytes


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


def similarity_at(precision: str, similarity: Similarity, device: torch.device) -> Similarity:
    """The comparison to train with; refused where the device would only be slower for it."""
    if precision == "tf32" and not _has_tf32(device):
        raise SettingsError(f"this {device.type} has no TF32; use precision float32")
    if precision != "bf16":
        return similarity
    if not _has_bf16(device):
        raise SettingsError(f"this {device.type} has no bfloat16 products; use precision float32")
    if not isinstance(similarity, InnerProduct):
        raise SettingsError(
            "bf16 has too few digits for the difference of close points; "
            "use precision float32 with a distance score"
        )
    return Bfloat16InnerProduct()


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Within it, float32 products may use TF32 if that is the precision."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _has_tf32(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001  (no public name)


# Copies of the tables that an update rule keeps.
_MOMENTS = {"adagrad": 1, "adam": 2, "sgd": 0, "riemannian-sgd": 1}
# Measured: numbers × width that a true tail takes, and a drawn one.
_PAIR_COPIES = 16
_DRAWN_COPIES = 12
# Numbers of drawn tails held at once if there is no bound: more than fits the cache is slower.
_DRAWN = 1 << 20
_FLOAT = 4


class Budget(NamedTuple):
    """Rows of scores, true tails (with those drawn for them), and bytes of scores in a ranking."""

    rows: int
    pairs: int
    score_bytes: int


def make_budget(model: Model, facts: int, training: TrainingSettings) -> Budget:
    """The largest parts that keep within `memory`, or whole batches if that is not set."""
    pair, most_pairs = _pair(model, training)
    if training.memory is None:
        return Budget(training.batch_size, most_pairs, SCORE_BYTES)
    # The weights, their gradients, what the update rule keeps, and the best weights so far.
    copies = 3 + _MOMENTS[training.optimizer]
    if training.average:
        copies += 2  # the average, and the weights while it stands in their place
    fixed = BASE_BYTES + FACT_BYTES * facts + table_bytes(model) * copies
    row = 0
    if training.objective in OVER_ALL:
        row = _FLOAT * (2 * len(model.entities) + model.scratch_per_query)
        if not training.reciprocals:
            # All entities as moved by a relation, and the gradient by them.
            fixed += _FLOAT * 2 * len(model.entities) * model.query_dim
            fixed += _FLOAT * TILE * model.scratch_per_query
    rest = parse_bytes(training.memory) - fixed
    if rest < row + pair:
        raise SettingsError(
            f"memory {training.memory} is too little: this model on this graph needs at least "
            f"{format_bytes(fixed + row + pair)}"
        )
    if not row:
        return Budget(training.batch_size, min(most_pairs, rest // pair), min(SCORE_BYTES, rest))
    pairs = min(most_pairs, max(1, rest // 4 // pair))
    rows = min(training.batch_size, max(1, (rest - pairs * pair) // row))
    return Budget(rows, pairs, min(SCORE_BYTES, rest // 4))


def _pair(model: Model, training: TrainingSettings) -> tuple[int, int]:
    """The bytes that a true tail takes with those drawn for it; how many at most are at once."""
    width = model.entities.shape[1]
    if training.objective in OVER_ALL:
        return _FLOAT * _PAIR_COPIES * width, 1 << 14
    drawn = 1 + training.num_negatives
    most = _DRAWN // (drawn * width)
    if training.reciprocals:
        return _FLOAT * (drawn * _DRAWN_COPIES * width + model.scratch_per_query), max(2, most)
    return _FLOAT * drawn * model.scratch_per_query, max(2, most // 2)
