"""Conversion of arrays, masks and strings to Arrow and back.

Unlike `pa.array` and `pa.scalar`, these functions do not import pandas if it is installed, which
takes longer than reading a small graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]


def to_arrow(numbers: npt.NDArray[Any]) -> pa.Array:
    """Return a numpy array as an Arrow array that shares its memory.

    >>> to_arrow(np.array([3, 1])).to_pylist()
    [3, 1]
    """
    numbers = np.ascontiguousarray(numbers)
    data_type = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(data_type, len(numbers), [None, pa.py_buffer(numbers)])


def from_arrow(numbers: pa.Array) -> npt.NDArray[Any]:
    """Return an Arrow array of numbers without nulls as a numpy array that shares its memory.

    Unlike `to_numpy`, this does not import pandas.

    >>> from_arrow(to_arrow(np.array([3, 1, 4])).slice(1)).tolist()
    [1, 4]
    """
    dtype = numbers.type.to_pandas_dtype()
    content = numbers.buffers()[1]
    if not len(numbers) or content is None:
        return np.empty(0, dtype)
    start = numbers.offset * np.dtype(dtype).itemsize
    return np.frombuffer(content, dtype, count=len(numbers), offset=start)


def to_mask(mask: pa.Array | pa.ChunkedArray) -> Mask:
    """Return booleans without nulls as a numpy array.

    >>> to_mask(pa.array([True, False])).tolist()
    [True, False]
    """
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    return from_arrow(mask.cast("uint8")).astype(bool)


def to_texts(texts: Sequence[str | None]) -> pa.Array:
    """Return strings, or None, as an array of large strings.

    >>> to_texts(["a", None, "é"]).to_pylist()
    ['a', None, 'é']
    """
    encoded = [b"" if text is None else text.encode() for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    validity = None
    if any(text is None for text in texts):
        bits = np.array([text is not None for text in texts])
        validity = pa.py_buffer(np.packbits(bits, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def to_text(text: str) -> pa.Scalar:
    """Return a string as a large string scalar."""
    return to_texts([text])[0]
