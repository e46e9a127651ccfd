"""Numbers, masks and texts to Arrow and back.

`pa.array` and `pa.scalar` would do, but import pandas wherever that is installed, which takes
longer than reading a small graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]


def to_arrow(numbers: npt.NDArray[Any]) -> pa.Array:
    """A numpy array as an Arrow array that shares its memory.

    >>> to_arrow(np.array([3, 1])).to_pylist()
    [3, 1]
    """
    numbers = np.ascontiguousarray(numbers)
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def from_arrow(numbers: pa.Array) -> npt.NDArray[Any]:
    """An Arrow array of numbers, none missing, as a numpy array that shares its memory.

    `to_numpy` would do, but imports pandas as well.

    >>> from_arrow(to_arrow(np.array([3, 1, 4])).slice(1)).tolist()
    [1, 4]
    """
    kind = numbers.type.to_pandas_dtype()
    content = numbers.buffers()[1]
    if not len(numbers) or content is None:
        return np.empty(0, kind)
    start = numbers.offset * np.dtype(kind).itemsize
    return np.frombuffer(content, kind, count=len(numbers), offset=start)


def to_mask(found: pa.Array | pa.ChunkedArray) -> Mask:
    """Yes and no, none missing, as a numpy array.

    >>> to_mask(pa.array([True, False])).tolist()
    [True, False]
    """
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    return from_arrow(found.cast("uint8")).astype(bool)


def to_texts(texts: Sequence[str | None]) -> pa.Array:
    """Texts, some of which may be missing, as an array of large strings.

    >>> to_texts(["a", None, "é"]).to_pylist()
    ['a', None, 'é']
    """
    encoded = [b"" if text is None else text.encode() for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    present = None
    if any(text is None for text in texts):
        bits = np.array([text is not None for text in texts])
        present = pa.py_buffer(np.packbits(bits, bitorder="little"))
    buffers = [present, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def to_text(text: str) -> pa.Scalar:
    """One text as a large string."""
    return to_texts([text])[0]
