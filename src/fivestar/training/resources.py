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
from fivestar.evaluation.ranking import (
    BASE_BYTES,
    FACT_BYTES,
    SCORE_BYTES,
    default_score_bytes,
    table_bytes,
)
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.models.base import Model
from fivestar.models.similarity import TILE, Bfloat16InnerProduct, InnerProduct, Similarity
from fivestar.plugins import OBJECTIVES
from fivestar.runs.settings import Settings, TrainingSettings
from fivestar.runs.units import format_bytes, parse_bytes
from fivestar.training.processes import num_launched


def check_graph(graph: KnowledgeGraph, training: TrainingSettings, folder: Path | None) -> None:
    """Raise SettingsError if the settings need triples or a folder that are missing."""
    if not len(graph.train):
        raise SettingsError(f"{graph.name} has no training triples")
    if not graph.train.weights_or_ones.any():
        raise SettingsError(
            f"the weights of all training triples of {graph.name} are 0, so there is nothing to "
            "learn; read it with other weights, or without"
        )
    if graph.negatives is not None and training.objective not in ("negative-sampling", "margin"):
        raise SettingsError(
            f"the negatives of {graph.name} have no effect with the objective "
            f"{training.objective}; train with negative-sampling or margin, or without negatives"
        )
    if training.snapshot_epochs and folder is None:
        raise SettingsError("snapshot_epochs needs a folder for the run: set out")
    _check_table(training)
    if training.refit and not len(graph.valid):
        raise SettingsError(
            f"{graph.name} has no validation triples, so there is no best number of epochs to "
            "refit with; hold some out (valid), or train without refit"
        )


def _check_table(training: TrainingSettings) -> None:
    """Refuse a table in partitions or on the disk that every step would use all of."""
    is_sampled = training.num_candidates or training.objective not in OBJECTIVES
    if training.partitions > 1 and not training.num_candidates:
        raise SettingsError(
            "partitions need sampled candidates, because a softmax over all entities uses all "
            "partitions: set num_candidates"
        )
    if training.table == "memory":
        return
    if not is_sampled:
        raise SettingsError(
            "table mmap needs sampled candidates or negatives, because a softmax over all entities "
            "reads the whole table in every step: set num_candidates"
        )
    if num_launched() > 1:
        raise SettingsError(
            "several processes share the entity table already: train with table memory, or with "
            "one process"
        )
    if training.device == "cuda":
        raise SettingsError("table mmap is for CPUs: use device cpu, or table memory")


def check_batch_norm(model: Model, settings: Settings, rows: int, facts: int) -> None:
    """Raise SettingsError if a model whose queries depend on their batch cannot be trained so.

    Args:
        model: the model.
        settings: settings of the run.
        rows: number of queries that fit into the memory at once.
        facts: number of training facts.
    """
    name, training = settings.model.name, settings.training
    if training.query_groups > 1 and (model.uses_batch_norm or model.is_stochastic):
        raise SettingsError(
            f"{name} uses batch normalization or dropout, for which a batch cannot be divided "
            "between query groups: train it with query_groups 1"
        )
    if not model.uses_batch_norm:
        return
    if not training.reciprocals:
        raise SettingsError(
            f"{name} uses batch normalization, which exhaustive head scoring does not support: "
            "train it with reciprocals"
        )
    if rows < min(training.batch_size, facts):
        raise SettingsError(
            f"{name} uses batch normalization, so a batch cannot be split to fit the memory: allow "
            f"more memory, or a batch_size of at most {rows}"
        )
    if training.relation_loss_weight:
        raise SettingsError(
            f"{name} uses batch normalization, which the auxiliary relation-prediction loss would "
            "disturb: train it with relation_loss_weight 0"
        )


def similarity_for(precision: str, similarity: Similarity, device: torch.device) -> Similarity:
    """Return the similarity to train with at a precision.

    Raises:
        SettingsError: if the device has no fast products of this precision, or the similarity
            needs more digits.
    """
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


def resolve_precision(settings: Settings, similarity: Similarity, device: torch.device) -> Settings:
    """Return the settings with the precision `auto` replaced by what the device has.

    A run saves the resolved one, so that it is resumed as it was begun, or not at all.
    """
    is_fast = _has_bf16(device) and isinstance(similarity, InnerProduct)
    precision = {"precision": "bf16" if is_fast else "float32"}
    training = settings.training.model_copy(update=precision)
    return settings.model_copy(update={"training": training})


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Let float32 products use TF32 within the context, if that is the precision."""
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


# Copies of the tables in the optimizer state.
_STATE_COPIES = {
    "adagrad": 1,
    "row-adagrad": 0,
    "adam": 2,
    "sgd": 0,
    "riemannian-sgd": 1,
    "riemannian-adagrad": 2,
}
# Copies of the rows that a step with sampled candidates touches: of the candidates and their
# gradients, of the sparse gradient, and those of the optimizer.
_TOUCHED_COPIES = 6
# Partitions in memory at once: those of a bucket, and one that is read or written meanwhile.
_RESIDENT_PARTITIONS = 3
# Measured: copies of its row that an answer needs, and a negative.
_ANSWER_COPIES = 16
_NEGATIVE_COPIES = 12
# Floats of negatives at once if there is no bound: more than fits the cache is slower.
_MAX_NEGATIVE_FLOATS = 1 << 20
_FLOAT = 4


class PartSizes(NamedTuple):
    """Rows of scores and answers (with their negatives) at once, and bytes of scores in ranking."""

    rows: int
    pairs: int
    score_bytes: int


def part_sizes(
    model: Model, facts: int, training: TrainingSettings, max_answers: int | None = None
) -> PartSizes:
    """Return the largest parts of a step that fit into `memory`, or whole batches without a limit.

    Args:
        model: the model.
        facts: number of facts of the graph, both sides counted.
        training: settings of the run.
        max_answers: upper bound of the answers of a batch; None: all entities.

    Raises:
        SettingsError: if not even one query fits.
    """
    pair, max_pairs = _pair(model, training)
    if training.memory is None:
        return PartSizes(training.batch_size, max_pairs, default_score_bytes(model))
    fixed = BASE_BYTES + FACT_BYTES * facts + _bytes_of_tables(model, training)
    row = 0
    if training.objective in OBJECTIVES:
        num_candidates = _num_candidates(model, training, max_answers)
        row = _FLOAT * (2 * num_candidates + model.scratch_per_query)
        touched = num_candidates + training.batch_size
        saved_rows = len(model.entities) - _TOUCHED_COPIES * touched
        if training.table == "mmap":
            fixed += _FLOAT * model.entities.shape[1] * _TOUCHED_COPIES * touched
        elif saved_rows > 0 and _has_sparse_grad(training):
            fixed -= _FLOAT * model.entities.shape[1] * saved_rows
        if not training.reciprocals:
            # All entities as transformed by a relation, and their gradient.
            fixed += _FLOAT * 2 * len(model.entities) * model.query_dim
            fixed += _FLOAT * TILE * model.scratch_per_query
    rest = parse_bytes(training.memory) - fixed
    if rest < row + pair:
        raise SettingsError(
            f"memory {training.memory} is too little: this model on this graph needs at least "
            f"{format_bytes(fixed + row + pair)}"
            + ("" if training.table == "memory" else "; with more partitions, less")
        )
    if not row:
        return PartSizes(training.batch_size, min(max_pairs, rest // pair), min(SCORE_BYTES, rest))
    pairs = min(max_pairs, max(1, rest // 4 // pair))
    rows = min(training.batch_size, max(1, (rest - pairs * pair) // row))
    return PartSizes(rows, pairs, min(SCORE_BYTES, rest // 4))


def _bytes_of_tables(model: Model, training: TrainingSettings) -> int:
    """Return the bytes of the weights, their gradients, the optimizer state, and the best weights.

    Of a mapped entity table and its state, only some partitions are in memory; the best weights are
    in a file, too, and the gradient has only the rows that a step touches.
    """
    # The weights, their gradients, the optimizer state, and the best weights so far.
    copies = 3 + _STATE_COPIES[training.optimizer]
    if training.average:
        copies += 2  # the average, and the weights while it is swapped in
    if training.table == "memory":
        return table_bytes(model) * copies
    entities = _FLOAT * model.entities.numel()
    resident = entities * (1 + _STATE_COPIES[training.optimizer])
    resident = min(resident, -(-resident * _RESIDENT_PARTITIONS // training.partitions))
    return (table_bytes(model) - entities) * copies + resident


def _num_candidates(model: Model, training: TrainingSettings, max_answers: int | None) -> int:
    """Return an upper bound of the candidates of a step."""
    num_entities = len(model.entities)
    if not training.num_candidates or max_answers is None:
        return num_entities
    return min(num_entities, training.num_candidates + max_answers)


def _has_sparse_grad(training: TrainingSettings) -> bool:
    """Return whether neither step nor optimizer holds a gradient of all entities."""
    return not training.label_smoothing and training.optimizer != "adam"


def _pair(model: Model, training: TrainingSettings) -> tuple[int, int]:
    """Return the bytes per answer with its negatives, and the largest number at once."""
    width = model.entities.shape[1]
    if training.objective in OBJECTIVES:
        return _FLOAT * _ANSWER_COPIES * width, 1 << 14
    per_triple = 1 + training.num_negatives
    max_triples = _MAX_NEGATIVE_FLOATS // (per_triple * width)
    if training.reciprocals:
        return _FLOAT * (per_triple * _NEGATIVE_COPIES * width + model.scratch_per_query), max(
            2, max_triples
        )
    return _FLOAT * per_triple * model.scratch_per_query, max(2, max_triples // 2)
