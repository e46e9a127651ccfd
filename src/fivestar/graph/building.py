"""Columns of names in, ids out: both vocabularies grow in the order in which names first appear.

Hashing millions of names is what reading costs. Names are folded twice: within groups of pieces
(heads and tails in parallel), and then the distinct names of all groups once more. That is cheaper
than looking each group up in a vocabulary that grows, and no name ever becomes a Python object.
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
from fivestar.graph.triples import Ids, Triples
from fivestar.graph.vocabulary import NAME_TYPE

# Bytes of names that are folded at once. Smaller groups hold less memory but repeat more names.
BYTES_AT_ONCE = 192 << 20
# Distinct names of groups that wait to be numbered; a file of any size stays below this.
BYTES_WAITING = 512 << 20
_MOST_NAMES = 2**31 - 1


@dataclass(frozen=True)
class _Folded:
    """One column of a group as codes into its own names, which stand in order of appearance."""

    names: pa.Array
    codes: Ids

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Folded:
        if pa.types.is_dictionary(column.type):
            return cls._of_folded(column)
        encoded = column.dictionary_encode()
        codes = np.concatenate([from_arrow(chunk.indices) for chunk in encoded.chunks])
        # Every chunk carries the dictionary as far as it was then known: the last has it all.
        return cls(encoded.chunk(encoded.num_chunks - 1).dictionary, codes)

    @classmethod
    def _of_folded(cls, column: pa.ChunkedArray) -> _Folded:
        """Of pieces that were folded before, each by itself: only distinct names are hashed."""
        pieces = [piece for piece in column.chunks if len(piece)]
        known = pa.chunked_array([piece.dictionary for piece in pieces], NAME_TYPE)
        encoded = known.dictionary_encode()
        codes = np.concatenate(
            [
                from_arrow(names.indices)[from_arrow(piece.indices)]
                for names, piece in zip(encoded.chunks, pieces, strict=True)
            ]
        )
        names = encoded.chunk(encoded.num_chunks - 1).dictionary
        # Written from the last row to the first, so that the first is what remains.
        first = np.full(len(names), len(codes))
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
        rank = np.empty(len(names), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return cls(names.take(to_arrow(order)), rank[codes])

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
        self.entities = pa.nulls(0, NAME_TYPE)
        self.relations = pa.nulls(0, NAME_TYPE)

    def encode(self, pieces: Iterable[TripleColumns]) -> Triples:
        """All pieces of one source as triples; names not seen before get the next ids."""
        done: list[tuple[Ids, Ids, Ids]] = []
        waiting: list[list[_Folded]] = []
        size = 0
        with ThreadPoolExecutor(2) as pool:
            for group in _groups(pieces):
                # The relations, which are few and quick, go with whoever is ready first.
                folded = list(pool.map(_Folded.of, (group[0], group[2], group[1])))
                group.clear()  # the names are held once from here on
                waiting.append(folded)
                size += sum(column.names.nbytes for column in folded)
                if size > BYTES_WAITING:
                    done += self._numbered(waiting)
                    waiting, size = [], 0
        done += self._numbered(waiting)
        if not done:
            return Triples.of([])
        heads, relations, tails = (np.concatenate(column) for column in zip(*done, strict=True))
        return Triples(heads, relations, tails)

    def _numbered(self, groups: list[list[_Folded]]) -> Iterator[tuple[Ids, Ids, Ids]]:
        """Heads, relations and tails of each group as ids."""
        ends = [[heads, tails] for heads, tails, _ in groups]
        self.entities, entity_ids = _grown(self.entities, ends)
        self.relations, relation_ids = _grown(self.relations, [[third] for _, _, third in groups])
        for group, (head_ids, tail_ids), (rel_ids,) in zip(
            groups, entity_ids, relation_ids, strict=True
        ):
            heads, tails, relations = group
            group.clear()
            yield head_ids[heads.codes], rel_ids[relations.codes], tail_ids[tails.codes]


def _groups(pieces: Iterable[TripleColumns]) -> Iterator[list[pa.ChunkedArray]]:
    """Pieces put together until they are worth folding."""
    group: list[TripleColumns] = []
    size = 0
    for piece in pieces:
        if not len(piece.heads):
            continue
        group.append(piece)
        size += sum(column.nbytes for column in piece.names)
        if size >= BYTES_AT_ONCE:
            yield _joined(group)
            size = 0
    if group:
        yield _joined(group)


def _joined(group: list[TripleColumns]) -> list[pa.ChunkedArray]:
    columns = [
        pa.chunked_array([chunk for column in same for chunk in column.chunks], same[0].type)
        for same in zip(*(piece.names for piece in group), strict=True)
    ]
    group.clear()
    return columns


def _grown(known: pa.Array, groups: list[list[_Folded]]) -> tuple[pa.Array, list[list[Ids]]]:
    """The vocabulary with what is new in these groups, and the ids of each column's names.

    New names are numbered as one meets them reading row by row, left to right.
    """
    columns = [column for group in groups for column in group]
    folded = pa.chunked_array([known, *(c.names for c in columns)], NAME_TYPE).dictionary_encode()
    chunks = [chunk for chunk in folded.chunks if len(chunk)]
    names = chunks[-1].dictionary if chunks else known
    if len(names) > _MOST_NAMES:
        raise GraphError(f"more than {_MOST_NAMES:,} names; split the graph")
    codes = [from_arrow(chunk.indices) for chunk in chunks[bool(len(known)) :]]
    order = np.argsort(_first_places(len(known), len(names), groups, codes), kind="stable")
    rank = np.empty(len(names), np.int32)
    rank[order] = np.arange(len(names), dtype=np.int32)
    ids = iter(rank[column] for column in codes)
    return names.take(to_arrow(order)), [[next(ids) for _ in group] for group in groups]


def _first_places(
    known: int, count: int, groups: list[list[_Folded]], codes: list[Ids]
) -> npt.NDArray[np.int64]:
    """Where each name is first met; known names keep their places before all others."""
    place = np.full(count, np.iinfo(np.int64).max)
    place[:known] = np.arange(known)
    start, columns = known, iter(codes)
    for group in groups:
        for offset, folded in enumerate(group):
            here = start + folded.first_rows() * len(group) + offset
            np.minimum.at(place, next(columns), here)
        start += len(group[0].codes) * len(group)
    return place
