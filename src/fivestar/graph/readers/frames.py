"""Triples that are in memory already: tables of pandas, polars or pyarrow, and plain iterables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import BadSource
from fivestar.graph.arrow import Mask, from_arrow, to_arrow, to_mask
from fivestar.graph.readers.base import (
    SPLIT_NAMES,
    Formats,
    ReadOptions,
    Tally,
    TripleColumns,
    split_called,
)
from fivestar.graph.readers.dialect import choose_columns, counted, header_columns
from fivestar.graph.vocabulary import NAME_TYPE

_ITEMS_AT_ONCE = 100_000
_SPLIT_COLUMN = "split"


@dataclass(frozen=True)
class TablePlan:
    """Where in a table things stand: head, relation, tail, and perhaps the split of each row."""

    places: tuple[int, int, int]
    split: int | None = None

    @classmethod
    def of(cls, schema: pa.Schema, options: ReadOptions, source: str) -> TablePlan:
        """The plan for tables of a schema."""
        titles = [str(title) for title in schema.names]
        places = table_places(titles, options, source)
        for place in places:
            _check_kind(schema.field(place).type, titles[place], source)
        told = [i for i, title in enumerate(titles) if title == _SPLIT_COLUMN and i not in places]
        split = told[0] if len(told) == 1 and _is_textual(schema.field(told[0]).type) else None
        return cls(places, split)

    @property
    def columns(self) -> list[int]:
        """All columns that are looked at, in the order of the table."""
        return sorted({*self.places, *([] if self.split is None else [self.split])})

    def narrowed(self) -> TablePlan:
        """The plan for tables of these columns only."""
        at = {place: number for number, place in enumerate(self.columns)}
        head, relation, tail = (at[place] for place in self.places)
        return TablePlan((head, relation, tail), None if self.split is None else at[self.split])

    def read(
        self, table: pa.Table | pa.RecordBatch, options: ReadOptions, tally: Tally
    ) -> Iterator[TripleColumns]:
        """The triples of a table, or of a piece of one; a row with an empty cell is bad."""
        columns = [_names(table.column(place)) for place in self.places]
        first = tally.lines
        tally.lines += table.num_rows
        lengths = (pc.binary_length(column) for column in columns)
        shortest = pc.coalesce(pc.min_element_wise(*lengths, skip_nulls=False), 0)
        good = to_mask(pc.greater(shortest, 0))
        for row in np.flatnonzero(~good).tolist():
            shown = ", ".join(str(column[row].as_py()) for column in columns)
            tally.reject(first + row, "has an empty head, relation or tail", shown, options)
        for split, rows in self._splits(table, good, first, options, tally):
            kept = columns
            if not rows.all():
                places = to_arrow(np.flatnonzero(rows))
                kept = [column.take(places) for column in columns]
            yield TripleColumns.of(kept, split)

    def _splits(
        self, table: pa.Table, good: Mask, first: int, options: ReadOptions, tally: Tally
    ) -> Iterator[tuple[str, Mask]]:
        """Which good rows belong to which split."""
        if self.split is None:
            yield "train", good
            return
        coded = _names(table.column(self.split)).combine_chunks().dictionary_encode()
        called = [split_called(text) or "" for text in coded.dictionary.to_pylist()]
        codes = from_arrow(pc.fill_null(coded.indices, len(called)))
        splits = np.array([*called, ""])[codes]
        for row in np.flatnonzero(good & (splits == "")).tolist():
            text = table.column(self.split)[row].as_py()
            reason = f"is of the split {text!r}; use train, valid and test"
            tally.reject(first + row, reason, repr(text), options)
        for split in SPLIT_NAMES:
            rows = good & (splits == split)
            if rows.any():
                yield split, rows


class FrameReader:
    """Reads any table that speaks the Arrow protocol: pyarrow, pandas, polars, DuckDB."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Does it speak the Arrow protocol?"""
        return isinstance(source, pa.Table | pa.RecordBatch) or hasattr(
            source, "__arrow_c_stream__"
        )

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """The three columns of the table as names."""
        table = source if isinstance(source, pa.Table) else pa.table(source)
        yield from TablePlan.of(table.schema, options, tally.source).read(table, options, tally)


def table_places(titles: Sequence[str], options: ReadOptions, source: str) -> tuple[int, int, int]:
    """Which columns are head, relation and tail."""
    named = options.columns or header_columns(titles) or len(titles) != 3
    return choose_columns(titles if named else None, len(titles), options.columns, source)


class IterableReader:
    """Reads any iterable of (head, relation, tail)."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Is it iterable, and neither a string nor a mapping?"""
        return isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping)

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """The triples in pieces, so that a generator is never held in memory as a whole."""
        if not isinstance(source, Iterable):
            raise BadSource(f"{tally.source}: is not iterable")
        items = iter(source)
        while piece := list(islice(items, _ITEMS_AT_ONCE)):
            yield _columns_of(piece, options, tally)


def _columns_of(items: list[object], options: ReadOptions, tally: Tally) -> TripleColumns:
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    for item in items:
        number = tally.lines
        tally.lines += 1
        try:
            triple = _triple(item)
        except ValueError as reason:
            tally.reject(number, str(reason), repr(item), options)
            continue
        for column, name in zip(columns, triple, strict=True):
            column.append(name)
    return TripleColumns(*(pa.chunked_array([column], NAME_TYPE) for column in columns))


def _triple(item: object) -> list[str]:
    if isinstance(item, str | bytes) or not isinstance(item, Iterable):
        raise ValueError("is not a triple (head, relation, tail)")  # noqa: TRY004
    fields = list(item)
    if len(fields) != 3:
        raise ValueError(f"has {counted(len(fields), 'field')} where 3 are expected")
    return [
        name_of(field, role)
        for field, role in zip(fields, ("head", "relation", "tail"), strict=True)
    ]


def name_of(field: object, role: str) -> str:
    """Something as a name, or a `ValueError` that says why it is none."""
    if isinstance(field, bool) or not isinstance(field, str | int):
        kind = type(field).__name__
        raise ValueError(f"has a {role} that is {kind}; use a string")  # noqa: TRY004
    name = str(field)
    if not name:
        raise ValueError(f"has an empty {role}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"has a {role} that cannot be written as UTF-8") from None
    return name


def _is_textual(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _check_kind(kind: pa.DataType, title: str, source: str) -> None:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (_is_textual(kind) or pa.types.is_integer(inner) or pa.types.is_null(inner)):
        raise BadSource(
            f"{source}: column {title!r} holds {inner}, which is no name; convert it to strings"
        )


def _names(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(NAME_TYPE)
