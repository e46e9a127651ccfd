"""Coarser numbers inside the matrix products of training; tables, sums and ranks stay float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fivestar.errors import SettingsError
from fivestar.models.similarity import Bfloat16InnerProduct, InnerProduct, Similarity


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
