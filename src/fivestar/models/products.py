"""Products of matrices in single precision, by the faster of the two libraries within torch.

On x86 torch multiplies float32 matrices by MKL, which does not use AVX-512 on AMD's processors.
There, oneDNN takes half the time (decision 26). Its operator is that of compiled models
(`torch._inductor`) and not documented, so it is only used if it exists and is correct.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# With fewer rows than this, MKL is as fast.
_MIN_ROWS = 16
_CPU_INFO = Path("/proc/cpuinfo")


def write_product(left: Tensor, right: Tensor, out: Tensor, scale: float = 1.0) -> None:
    """Write `scale` · left (B, K) · right (K, N) to `out` (B, N)."""
    if _is_for_onednn(left, right):
        torch.mul(_by_onednn(left, right), scale, out=out)
    else:
        torch.addmm(out, left, right, beta=0, alpha=scale, out=out)


def add_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Add left (B, K) · right (K, N) to `out` (B, N)."""
    if _is_for_onednn(left, right):
        out.add_(_by_onednn(left, right))
    else:
        out.addmm_(left, right)


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return left (B, K) · right (K, N)."""
    return _by_onednn(left, right) if _is_for_onednn(left, right) else left @ right


def trained_product(left: Tensor, right: Tensor) -> Tensor:
    """Return left (B, K) · right (K, N), differentiable."""
    # Without gradients too, the model may be traced for export, which knows torch's operators only.
    if torch.is_grad_enabled() and _is_for_onednn(left.detach(), right.detach()):
        found: Tensor = _TrainedProduct.apply(left, right)  # type: ignore[no-untyped-call]
        return found
    return left @ right


class _TrainedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        return product(left, right)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        left, right = ctx.saved_tensors
        return (
            product(grad, right.T) if ctx.needs_input_grad[0] else None,
            product(left.T, grad) if ctx.needs_input_grad[1] else None,
        )


def linear(rows: Tensor, weight: Tensor) -> Tensor:
    """Return rows (B, K) · weightᵀ (K, N) by oneDNN; `weight` is (N, K), or packed by oneDNN."""
    multiply = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001
    found: Tensor = multiply(rows, weight, None, "none", [], "")
    return found


def _by_onednn(left: Tensor, right: Tensor) -> Tensor:
    # Its kernels for other layouts than these are slower than MKL, by up to a thousand times.
    left = left if left.stride(1) == 1 or left.T.is_contiguous() else left.contiguous()
    weight = right.T if right.is_contiguous() or right.T.is_contiguous() else right.T.contiguous()
    return linear(left, weight)


def _is_for_onednn(left: Tensor, right: Tensor) -> bool:
    """Return whether to multiply these by oneDNN."""
    return (
        left.dtype == right.dtype == torch.float32
        and left.device.type == right.device.type == "cpu"
        and left.shape[0] >= _MIN_ROWS
        and min(*left.shape, *right.shape) > 0
        and not (torch.is_grad_enabled() and (left.requires_grad or right.requires_grad))
        and is_onednn_faster()
    )


@cache
def is_onednn_faster() -> bool:
    """Return whether this processor has AVX-512 that MKL does not use, and oneDNN works.

    The answer depends on the processor alone, so that a training is the same to the bit again.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not is_from_amd():
        return False
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    left = torch.arange(1.0, 49.0).view(16, 3).sin()
    right = torch.arange(1.0, 16.0).view(3, 5).cos()
    try:
        found = linear(left, right.T), linear(left.T, left.T)
    except (AttributeError, RuntimeError, TypeError):  # another version of torch
        return False
    expected = left @ right, left.T @ left
    return all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))


def is_from_amd() -> bool:
    """Return whether the processor is AMD's; False where that is unknown."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "AuthenticAMD" in text
