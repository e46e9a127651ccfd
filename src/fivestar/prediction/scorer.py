"""Export the scoring function of a model as a program that runs without fivestar."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fivestar.extras import require
from fivestar.models.base import Model
from fivestar.models.distances import EuclideanDistance, L1Distance, SquaredDistance
from fivestar.models.similarity import Biased, InnerProduct, Similarity

Comparison = Callable[[Tensor, Tensor], Tensor]


def _distances(query: Tensor, candidates: Tensor, norm: float) -> Tensor:
    # Without a matrix product, which loses precision for close pairs.
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(query, candidates, p=norm, compute_mode=mode)


_PRODUCTS: dict[type[Similarity], Comparison] = {InnerProduct: lambda q, t: q @ t.T}
_KERNELS: dict[type[Similarity], Comparison] = {
    **_PRODUCTS,
    L1Distance: lambda q, t: -_distances(q, t, 1.0),
    EuclideanDistance: lambda q, t: -_distances(q, t, 2.0),
    SquaredDistance: lambda q, t: -_distances(q, t, 2.0).square(),
}


class Scorer(nn.Module):
    """(heads[B], relations[B]) → scores (B, N) of all entities as tails.

    Similarities that are not in `comparisons` are scored pair by pair, with a (B, N, D) tensor.
    """

    def __init__(self, model: Model, comparisons: Mapping[type[Similarity], Comparison]) -> None:
        super().__init__()
        self.model = model
        self.comparisons = comparisons

    def forward(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Return the scores (B, N) of all entities."""
        query = self.model.query(heads, relations)
        return self._scores(self.model.similarity, query, self.model.candidates())

    def _scores(self, similarity: Similarity, query: Tensor, candidates: Tensor) -> Tensor:
        if isinstance(similarity, Biased):
            inner = self._scores(similarity.inner, query[:, :-1], candidates[:, :-1])
            return inner + query[:, -1:] + candidates[:, -1]
        compare = self.comparisons.get(type(similarity))
        if compare is not None:
            return compare(query, candidates)
        return similarity.score_pairs(query[:, None], candidates[None])


def torch_program(model: Model) -> torch.export.ExportedProgram:
    """Return the scorer for `torch.export.save`; the batch size is dynamic."""
    return _program(Scorer(model, _KERNELS))


def write_onnx(model: Model, path: Path) -> None:
    """Write the scorer as ONNX, with the inputs `heads` and `relations`."""
    require("onnxscript", "onnx", "a model in ONNX")
    with _quietly():
        # ONNX has no kernel for distances: all but inner products are scored pair by pair.
        program: Any = torch.onnx.export(_program(Scorer(model, _PRODUCTS)), verbose=False)
        program.save(str(path))


def _program(scorer: Scorer) -> torch.export.ExportedProgram:
    # Two tensors: the same tensor twice would become one input.
    example = torch.tensor([0, 0]), torch.tensor([0, 0])
    batch = torch.export.Dim("batch")
    with torch.no_grad():
        return torch.export.export(
            scorer.eval(), example, dynamic_shapes={"heads": {0: batch}, "relations": {0: batch}}
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress deprecation notes of torch and onnxscript."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
