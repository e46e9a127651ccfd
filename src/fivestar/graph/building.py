"""Columns of names in, ids out: both vocabularies grow in the order in which names first appear."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import GraphError
from fivestar.graph.readers.base import TripleColumns
from fivestar.graph.triples import Ids, Triples
from fivestar.graph.vocabulary import NAME_TYPE

# Names are numbered this many bytes at a time: looking names up costs a pass over the whole
# vocabulary each time, holding them costs memory. Measured: 32 MiB is 1.4 times slower than 128,
# 256 is no faster and takes 150 MB more.
BYTES_AT_ONCE = 128 << 20
_MOST_NAMES = 2**31 - 1


@dataclass(frozen=True)
class _Coded:
    """One column as codes into its own distinct names, which stand in order of appearance."""

    names: pa.Array
    codes: Ids

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Coded:
        encoded = column.dictionary_encode()
        if not encoded.num_chunks:
            return cls(pa.array([], NAME_TYPE), np.empty(0, np.int32))
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        # Every chunk carries the dictionary as far as it was then known: the last has it all.
        return cls(encoded.chunk(encoded.num_chunks - 1).dictionary, codes)

    def first_rows(self) -> npt.NDArray[np.intp]:
        """Where each name first stands: a new name is one that raises the maximum of the codes."""
        highest = np.maximum.accumulate(self.codes)
        rises = np.empty(len(highest), bool)
        rises[:1] = True
        np.greater(highest[1:], highest[:-1], out=rises[1:])
        return np.flatnonzero(rises)


class Encoder:
    """Turns columns of names into triples of ids."""

    def __init__(self) -> None:
        self.entities = pa.array([], NAME_TYPE)
        self.relations = pa.array([], NAME_TYPE)

    def encode(self, pieces: Iterable[TripleColumns]) -> Triples:
        """All pieces of one source as triples; names not seen before get the next ids."""
        with ThreadPoolExecutor(3) as pool:
            coded = [self._encode_some(group, pool) for group in _groups(pieces)]
        if not coded:
            return Triples.of([])
        heads, relations, tails = (np.concatenate(column) for column in zip(*coded, strict=True))
        return Triples(heads, relations, tails)

    def _encode_some(
        self, columns: list[pa.ChunkedArray], pool: ThreadPoolExecutor
    ) -> tuple[Ids, Ids, Ids]:
        heads, relations, tails = pool.map(_Coded.of, columns)
        columns.clear()  # the names are held once from here on
        self.relations, (relation_ids,) = _grown(self.relations, [relations], pool)
        self.entities, (head_ids, tail_ids) = _grown(self.entities, [heads, tails], pool)
        return (
            head_ids[heads.codes],
            relation_ids[relations.codes],
            tail_ids[tails.codes],
        )


def _groups(pieces: Iterable[TripleColumns]) -> Iterable[list[pa.ChunkedArray]]:
    """Pieces put together until they are worth numbering."""
    group: list[TripleColumns] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += sum(column.nbytes for column in piece)
        if size >= BYTES_AT_ONCE:
            yield _joined(group)
            size = 0
    if group:
        yield _joined(group)


def _joined(group: list[TripleColumns]) -> list[pa.ChunkedArray]:
    columns = [
        pa.chunked_array([chunk for column in same for chunk in column.chunks], NAME_TYPE)
        for same in zip(*group, strict=True)
    ]
    group.clear()
    return columns


def _grown(
    known: pa.Array, columns: list[_Coded], pool: ThreadPoolExecutor
) -> tuple[pa.Array, list[Ids]]:
    """The vocabulary with what is new in these columns, and the id of each column's names.

    New names are numbered as one meets them reading row by row, left to right.
    """
    found = list(pool.map(lambda column: _lookup(column.names, known), columns))
    new = [np.flatnonzero(ids < 0) for ids in found]
    if len(columns) == 1:
        places: list[npt.NDArray[np.intp]] = new
    else:
        first_rows = pool.map(_Coded.first_rows, columns)
        places = [
            rows[unknown] * len(columns) + offset
            for offset, (rows, unknown) in enumerate(zip(first_rows, new, strict=True))
        ]
    order = np.argsort(np.concatenate(places), kind="stable")
    candidates = pa.concat_arrays(
        [column.names.take(pa.array(rows)) for column, rows in zip(columns, new, strict=True)]
    )
    coded = candidates.take(pa.array(order)).dictionary_encode()
    if len(known) + len(coded.dictionary) > _MOST_NAMES:
        raise GraphError(f"more than {_MOST_NAMES:,} names; split the graph")
    ids = np.empty(len(order), np.int32)
    ids[order] = coded.indices.to_numpy()
    ids += len(known)
    parts = np.split(ids, np.cumsum([len(rows) for rows in new])[:-1])
    for column_ids, rows, part in zip(found, new, parts, strict=True):
        column_ids[rows] = part
    return pa.concat_arrays([known, coded.dictionary]), found


def _lookup(names: pa.Array, known: pa.Array) -> Ids:
    """The id of each name, -1 for an unknown one."""
    if not len(known):
        return np.full(len(names), -1, np.int32)
    return np.array(pc.fill_null(pc.index_in(names, value_set=known), -1), dtype=np.int32)
