"""Dictionary encoding: columns of names in, ids out, in the order of first appearance.

The cost of reading is hashing millions of names. Names are encoded twice: within groups of pieces
(heads and tails in parallel), then the distinct names of all groups. That is cheaper than looking
up each group in a growing vocabulary, and no name ever becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fivestar.errors import GraphError
from fivestar.graph.arrow import from_arrow, to_arrow
from fivestar.graph.readers.base import TripleColumns
from fivestar.graph.triples import FactWeights, Ids, Triples
from fivestar.graph.vocabulary import NAME_TYPE

# Bytes of names per group. Smaller groups use less memory but repeat more names.
GROUP_BYTES = 192 << 20
# Maximum bytes of distinct names of groups that have no ids yet.
MAX_PENDING_BYTES = 512 << 20
_MAX_NAMES = 2**31 - 1


@dataclass(frozen=True)
class _EncodedColumn:
    """A column of a group as codes of its distinct names, in order of appearance."""

    names: pa.Array
    codes: Ids

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _EncodedColumn:
        if pa.types.is_dictionary(column.type):
            return cls._of_dictionaries(column)
        encoded = column.dictionary_encode()
        codes = np.concatenate([from_arrow(chunk.indices) for chunk in encoded.chunks])
        # The dictionary grows with each chunk: the last one is complete.
        return cls(encoded.chunk(encoded.num_chunks - 1).dictionary, codes)

    @classmethod
    def _of_dictionaries(cls, column: pa.ChunkedArray) -> _EncodedColumn:
        """Encode chunks that are dictionaries already: only distinct names are hashed."""
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        distinct = pa.chunked_array([chunk.dictionary for chunk in chunks], NAME_TYPE)
        encoded = distinct.dictionary_encode()
        codes = np.concatenate(
            [
                from_arrow(names.indices)[from_arrow(chunk.indices)]
                for names, chunk in zip(encoded.chunks, chunks, strict=True)
            ]
        )
        names = encoded.chunk(encoded.num_chunks - 1).dictionary
        # Assigned from the last row to the first, so that the first one remains.
        first = np.full(len(names), len(codes))
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
        rank = np.empty(len(names), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return cls(names.take(to_arrow(order)), rank[codes])

    def first_rows(self) -> npt.NDArray[np.intp]:
        """Return the first row of each name: where the maximum of the codes increases."""
        highest = np.maximum.accumulate(self.codes)
        increases = np.empty(len(highest), bool)
        increases[:1] = True
        np.greater(highest[1:], highest[:-1], out=increases[1:])
        return np.flatnonzero(increases)


class Encoder:
    """Encode columns of names as triples of ids."""

    def __init__(self) -> None:
        self.entities = pa.nulls(0, NAME_TYPE)
        self.relations = pa.nulls(0, NAME_TYPE)

    def encode(self, pieces: Iterable[TripleColumns]) -> Triples:
        """Return all pieces of a source as triples; new names get the next ids."""
        weights: list[FactWeights] = []
        pieces = _noting_weights(pieces, weights)
        done: list[tuple[Ids, Ids, Ids]] = []
        pending: list[list[_EncodedColumn]] = []
        size = 0
        with ThreadPoolExecutor(2) as pool:
            for group in _groups(pieces):
                # Relations are few and fast: the thread that is ready first encodes them.
                encoded = list(pool.map(_EncodedColumn.of, (group[0], group[2], group[1])))
                group.clear()  # free the names
                pending.append(encoded)
                size += sum(column.names.nbytes for column in encoded)
                if size > MAX_PENDING_BYTES:
                    done += self._assign_ids(pending)
                    pending, size = [], 0
        done += self._assign_ids(pending)
        if not done:
            return Triples.of([])
        heads, relations, tails = (np.concatenate(column) for column in zip(*done, strict=True))
        return Triples(
            heads, relations, tails, weights=np.concatenate(weights) if weights else None
        )

    def _assign_ids(self, groups: list[list[_EncodedColumn]]) -> Iterator[tuple[Ids, Ids, Ids]]:
        """Yield heads, relations and tails of each group as ids."""
        ends = [[heads, tails] for heads, tails, _ in groups]
        self.entities, entity_ids = _extend(self.entities, ends)
        self.relations, relation_ids = _extend(
            self.relations, [[relation] for _, _, relation in groups]
        )
        for group, (head_ids, tail_ids), (rel_ids,) in zip(
            groups, entity_ids, relation_ids, strict=True
        ):
            heads, tails, relations = group
            group.clear()
            yield head_ids[heads.codes], rel_ids[relations.codes], tail_ids[tails.codes]


def _noting_weights(
    pieces: Iterable[TripleColumns], weights: list[FactWeights]
) -> Iterator[TripleColumns]:
    """Yield the pieces; append the weights of each to a list."""
    for piece in pieces:
        if piece.weights is not None:
            weights.append(piece.weights)
        yield piece


def _groups(pieces: Iterable[TripleColumns]) -> Iterator[list[pa.ChunkedArray]]:
    """Yield the columns of pieces, grouped up to `GROUP_BYTES`."""
    group: list[TripleColumns] = []
    size = 0
    for piece in pieces:
        if not len(piece.heads):
            continue
        group.append(piece)
        size += sum(column.nbytes for column in piece.names)
        if size >= GROUP_BYTES:
            yield _concatenate(group)
            size = 0
    if group:
        yield _concatenate(group)


def _concatenate(group: list[TripleColumns]) -> list[pa.ChunkedArray]:
    columns = [
        pa.chunked_array([chunk for column in same for chunk in column.chunks], same[0].type)
        for same in zip(*(piece.names for piece in group), strict=True)
    ]
    group.clear()
    return columns


def _extend(
    names: pa.Array, groups: list[list[_EncodedColumn]]
) -> tuple[pa.Array, list[list[Ids]]]:
    """Return the vocabulary with the new names of groups, and the ids of each column's names.

    New names get ids in the order of appearance, row by row, from left to right.
    """
    columns = [column for group in groups for column in group]
    encoded = pa.chunked_array([names, *(c.names for c in columns)], NAME_TYPE).dictionary_encode()
    chunks = [chunk for chunk in encoded.chunks if len(chunk)]
    all_names = chunks[-1].dictionary if chunks else names
    if len(all_names) > _MAX_NAMES:
        raise GraphError(f"more than {_MAX_NAMES:,} names; split the graph")
    codes = [from_arrow(chunk.indices) for chunk in chunks[bool(len(names)) :]]
    order = np.argsort(_first_positions(len(names), len(all_names), groups, codes), kind="stable")
    rank = np.empty(len(all_names), np.int32)
    rank[order] = np.arange(len(all_names), dtype=np.int32)
    ids = iter(rank[column] for column in codes)
    return all_names.take(to_arrow(order)), [[next(ids) for _ in group] for group in groups]


def _first_positions(
    num_known: int, count: int, groups: list[list[_EncodedColumn]], codes: list[Ids]
) -> npt.NDArray[np.int64]:
    """Return the position of the first appearance of each name; known names come first."""
    positions = np.full(count, np.iinfo(np.int64).max)
    positions[:num_known] = np.arange(num_known)
    start, columns = num_known, iter(codes)
    for group in groups:
        for offset, column in enumerate(group):
            first = start + column.first_rows() * len(group) + offset
            np.minimum.at(positions, next(columns), first)
        start += len(group[0].codes) * len(group)
    return positions
