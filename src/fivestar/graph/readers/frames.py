"""Triples that are in memory already: tables of pandas, polars or pyarrow, and plain iterables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import BadSource
from fivestar.graph.readers.base import ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.dialect import choose_columns, counted, header_columns
from fivestar.graph.vocabulary import NAME_TYPE

_ITEMS_AT_ONCE = 100_000


class FrameReader:
    """Reads any table that speaks the Arrow protocol: pyarrow, pandas, polars, DuckDB."""

    suffixes = ()

    def accepts(self, source: object) -> bool:
        """Does it speak the Arrow protocol?"""
        return isinstance(source, pa.Table | pa.RecordBatch) or hasattr(
            source, "__arrow_c_stream__"
        )

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """The three columns of the table as names; a row with an empty cell is a bad row."""
        table = source if isinstance(source, pa.Table) else pa.table(source)
        titles = [str(title) for title in table.column_names]
        known = (
            titles if options.columns or header_columns(titles) or table.num_columns != 3 else None
        )
        places = choose_columns(known, table.num_columns, options.columns, tally.source)
        columns = [_names(table.column(place), titles[place], tally.source) for place in places]
        tally.lines += table.num_rows
        bad = pc.equal(
            pc.coalesce(
                pc.min_element_wise(
                    *(pc.binary_length(column) for column in columns), skip_nulls=False
                ),
                0,
            ),
            0,
        )
        for row in pc.indices_nonzero(bad).to_pylist():
            shown = ", ".join(str(column[row].as_py()) for column in columns)
            tally.reject(row, "has an empty head, relation or tail", shown, options)
        if tally.bad:
            columns = [column.filter(pc.invert(bad)) for column in columns]
        yield TripleColumns(*columns)


class IterableReader:
    """Reads any iterable of (head, relation, tail)."""

    suffixes = ()

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
        _name(field, role) for field, role in zip(fields, ("head", "relation", "tail"), strict=True)
    ]


def _name(field: object, role: str) -> str:
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


def _names(column: pa.ChunkedArray, title: str, source: str) -> pa.ChunkedArray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    textual = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(test(kind) for test in (*textual, pa.types.is_integer, pa.types.is_null)):
        raise BadSource(
            f"{source}: column {title!r} holds {kind}, which is no name; convert it to strings"
        )
    return column.cast(NAME_TYPE)
