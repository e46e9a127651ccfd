"""Tables in files: safetensors, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fivestar.files import atomic_file

_KINDS = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
}


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None
) -> None:
    """Replace a file of tensors, or leave the one before as it was.

    The library's own functions either hold all of the file in memory or leave a stray file behind
    when killed, so the format is written here: the length of the header, the header, the numbers.
    """
    header: dict[str, Any] = {"__metadata__": dict(notes)} if notes else {}
    end = 0
    # The widest numbers first, so that each tensor stands at a multiple of its width.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())
    for name, tensor in ordered:
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _KINDS[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(path) as draft, draft.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for _, tensor in ordered:
            file.write(tensor.detach().cpu().contiguous().numpy().data)
