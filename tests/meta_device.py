"""Run code with all tensors on the meta device, in place of a GPU.

A tensor on the meta device has a shape but no content, and an operation that mixes it with a
tensor on the CPU fails, as it would on a GPU. Where the code reads the content on the host, which
makes a GPU wait, a stand-in is returned and the function that reads is recorded.
"""

from __future__ import annotations

import sys
from collections import Counter

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# What a read returns instead of the content.
_SCALARS = {
    Tensor.__bool__: lambda _: True,
    Tensor.item: lambda tensor: tensor.dtype.is_floating_point and 1.0,
    Tensor.__int__: lambda _: 0,
    Tensor.__float__: lambda _: 1.0,
    Tensor.__index__: lambda _: 0,
}
_FACTORIES = {
    *(torch.arange, torch.empty, torch.full, torch.ones, torch.tensor, torch.zeros),
    *(torch.rand, torch.randint, torch.randn, torch.randperm),
}


class MetaDevice(TorchFunctionMode):
    """Within this context, `reads` counts the functions of ours that read on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        self.on_cpu: Counter[str] = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        first = args[0] if args and isinstance(args[0], Tensor) else None
        if first is not None and first.is_meta:
            if func in _SCALARS:
                self.reads[_caller()] += 1
                return _SCALARS[func](first)
            if func in (Tensor.cpu, Tensor.numpy, Tensor.tolist):
                self.reads[_caller()] += 1
                host = torch.ones(first.shape, dtype=first.dtype)
                return host if func is Tensor.cpu else func(host)
            if func in (torch.unique, torch.functional._return_output, Tensor.unique):
                self.reads[_caller()] += 1  # its size is known on the host
                return torch.empty_like(first).reshape(-1)
            if func in (Tensor.nonzero, torch.nonzero):
                self.reads[_caller()] += 1
                return first.new_empty(first.numel(), first.ndim, dtype=torch.int64)
            if func in (Tensor.__getitem__, Tensor.__setitem__):
                args = (first, self._without_masks(args[1]), *args[2:])
        if func in _FACTORIES and "device" not in kwargs and not _is_called_by_torch():
            self.on_cpu[_caller()] += 1
        return func(*args, **kwargs)

    def _without_masks(self, index):
        """Replace a mask, whose number of hits is known on the host, by all positions."""
        if isinstance(index, tuple):
            return tuple(map(self._without_masks, index))
        if isinstance(index, Tensor) and index.dtype == torch.bool:
            self.reads[_caller()] += 1
            return torch.arange(len(index), device=index.device)
        return index


def _caller() -> str:
    """Return the innermost function of the package on the stack."""
    frame = sys._getframe(2)
    while frame is not None:
        if "/fivestar/" in frame.f_code.co_filename and "/tests/" not in frame.f_code.co_filename:
            return frame.f_code.co_qualname
        frame = frame.f_back
    return "?"


def _is_called_by_torch() -> bool:
    """Return whether torch itself makes a tensor, such as an optimizer's number of steps."""
    return "/torch/" in sys._getframe(2).f_code.co_filename
