"""The interface of writers: pieces of triples in, one file out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from fivestar.graph.arrow import to_arrow
from fivestar.graph.readers.base import Annotations, TripleColumns


@dataclass(frozen=True)
class WriteOptions:
    """How to write what can be written in two ways.

    Attributes:
        splits: "include" the split of each triple if the format can, or "omit" it.
        blanks: write blank nodes as "nodes", or as IRIs like other "names". They are local to their
            file, so they must be names if a graph is several files.
        literals: write literals as "literals", or as IRIs like other "names".
        weights: "include" the weight of each triple, or "omit" it.
    """

    splits: Literal["include", "omit"] = "omit"
    blanks: Literal["nodes", "names"] = "nodes"
    literals: Literal["literals", "names"] = "names"
    weights: Literal["include", "omit"] = "omit"


class Sink(Protocol):
    """An open output file."""

    def write(self, piece: TripleColumns) -> None:
        """Write triples."""
        ...

    def write_annotations(self, annotations: Annotations) -> None:
        """Write labels, descriptions and types, if the format can represent them."""
        ...

    def close(self) -> None:
        """Write the end of the file."""
        ...


def weight_column(piece: TripleColumns) -> pa.Array:
    """Return the weights of a piece; 1 each if it has none."""
    weights = np.ones(len(piece.heads)) if piece.weights is None else piece.weights
    return to_arrow(weights)


def concatenated(lines: pa.Array) -> memoryview | bytes:
    """Return the concatenation of large strings, without a copy."""
    _, offsets, content = lines.buffers()
    if content is None or not len(lines):
        return b""
    bounds = pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, offsets], offset=lines.offset)
    return memoryview(content)[bounds[0].as_py() : bounds[len(lines)].as_py()]
