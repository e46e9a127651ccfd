"""Triples in memory: tables of pandas, polars or pyarrow, and iterables."""

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
    plural,
    split_named,
)
from fivestar.graph.readers.dialect import choose_columns, header_columns
from fivestar.graph.readers.weights import item_weight, table_weight, weight_of, weights_of
from fivestar.graph.vocabulary import NAME_TYPE

_BATCH_SIZE = 100_000
_SPLIT_COLUMN = "split"


@dataclass(frozen=True)
class TablePlan:
    """The columns of a table: head, relation, tail, and optionally split and weight of each row."""

    triple: tuple[int, int, int]
    split: int | None = None
    weight: int | None = None

    @classmethod
    def of(cls, schema: pa.Schema, options: ReadOptions, source: str) -> TablePlan:
        """Return the plan for tables of a schema."""
        titles = [str(title) for title in schema.names]
        weight = table_weight(schema, options, source)
        triple = table_columns(titles, options, source, weight)
        for column in triple:
            _check_type(schema.field(column).type, titles[column], source)
        used = (*triple, weight)
        splits = [i for i, title in enumerate(titles) if title == _SPLIT_COLUMN and i not in used]
        is_split = len(splits) == 1 and _is_textual(schema.field(splits[0]).type)
        return cls(triple, splits[0] if is_split else None, weight)

    @property
    def columns(self) -> list[int]:
        """All columns that are read, in the order of the table."""
        others = [column for column in (self.split, self.weight) if column is not None]
        return sorted({*self.triple, *others})

    def narrowed(self) -> TablePlan:
        """Return the plan for tables of only these columns."""
        position = {column: i for i, column in enumerate(self.columns)}
        head, relation, tail = (position[column] for column in self.triple)
        split, weight = (
            None if column is None else position[column] for column in (self.split, self.weight)
        )
        return TablePlan((head, relation, tail), split, weight)

    def read(
        self, table: pa.Table | pa.RecordBatch, options: ReadOptions, tally: Tally
    ) -> Iterator[TripleColumns]:
        """Yield the triples of a table or batch; a row with an empty cell is bad."""
        columns = [_names(table.column(column)) for column in self.triple]
        first = tally.lines
        tally.lines += table.num_rows
        lengths = (pc.binary_length(column) for column in columns)
        shortest = pc.coalesce(pc.min_element_wise(*lengths, skip_nulls=False), 0)
        good = to_mask(pc.greater(shortest, 0))
        for row in np.flatnonzero(~good).tolist():
            text = ", ".join(str(column[row].as_py()) for column in columns)
            tally.reject(first + row, "has an empty head, relation or tail", text, options)
        weights = None
        if self.weight is not None:
            weights, wrong = weights_of(table.column(self.weight))
            for row, reason in wrong.items():
                if good[row]:
                    text = ", ".join(str(column[row].as_py()) for column in columns)
                    tally.reject(first + row, reason, text, options)
            good[list(wrong)] = False
        for split, rows in self._splits(table, good, first, options, tally):
            selected, own = columns, weights
            if not rows.all():
                indices = to_arrow(np.flatnonzero(rows))
                selected = [column.take(indices) for column in columns]
                own = None if weights is None else weights[rows]
            yield TripleColumns.of(selected, split, own)

    def _splits(
        self, table: pa.Table, good: Mask, first: int, options: ReadOptions, tally: Tally
    ) -> Iterator[tuple[str, Mask]]:
        """Yield the splits and masks of their good rows."""
        if self.split is None:
            yield "train", good
            return
        encoded = _names(table.column(self.split)).combine_chunks().dictionary_encode()
        names = [split_named(text) or "" for text in encoded.dictionary.to_pylist()]
        codes = from_arrow(pc.fill_null(encoded.indices, len(names)))
        splits = np.array([*names, ""])[codes]
        for row in np.flatnonzero(good & (splits == "")).tolist():
            text = table.column(self.split)[row].as_py()
            reason = f"is of the split {text!r}; use train, valid and test"
            tally.reject(first + row, reason, repr(text), options)
        for split in SPLIT_NAMES:
            rows = good & (splits == split)
            if rows.any():
                yield split, rows


class FrameReader:
    """Read tables with the Arrow protocol: pyarrow, pandas, polars, DuckDB."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Return whether it implements the Arrow protocol."""
        return isinstance(source, pa.Table | pa.RecordBatch) or hasattr(
            source, "__arrow_c_stream__"
        )

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the three columns of the table as names."""
        try:
            table = source if isinstance(source, pa.Table) else pa.table(source)
        except (pa.ArrowException, ValueError, TypeError) as error:
            reason = " ".join(str(part) for part in error.args) or type(error).__name__
            raise BadSource(
                f"{tally.source}: is not a table of names ({reason}); give its columns distinct "
                "titles and one type each, as with frame.astype(str)"
            ) from error
        yield from TablePlan.of(table.schema, options, tally.source).read(table, options, tally)


def table_columns(
    titles: Sequence[str], options: ReadOptions, source: str, weight: int | None = None
) -> tuple[int, int, int]:
    """Return the positions of head, relation and tail among named columns.

    Args:
        titles: the names of all columns.
        options: may give the columns.
        source: the name of the source, for errors.
        weight: the position of the weight column, if there is one.

    Raises:
        BadSource: if the columns are ambiguous.
    """
    columns, width = options.columns, len(titles)
    use_names = columns or header_columns(titles) or width != (3 if weight is None else 4)
    return choose_columns(titles if use_names else None, width, columns, source, weight)


class IterableReader:
    """Read iterables of (head, relation, tail), or of tuples with a weight, too."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Return whether it is iterable, and neither a string nor a mapping."""
        return isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping)

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the triples in batches, so that a generator is never in memory as a whole."""
        if not isinstance(source, Iterable):
            raise BadSource(f"{tally.source}: is not iterable")
        items, weight = iter(source), item_weight(options)
        while batch := list(islice(items, _BATCH_SIZE)):
            yield _columns_of(batch, weight, options, tally)


def _columns_of(
    items: list[object], weight: int | None, options: ReadOptions, tally: Tally
) -> TripleColumns:
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    weights = []
    for item in items:
        number = tally.lines
        tally.lines += 1
        try:
            triple, own = _fact(item, weight)
        except ValueError as reason:
            tally.reject(number, str(reason), repr(item), options)
            continue
        for column, name in zip(columns, triple, strict=True):
            column.append(name)
        weights.append(own)
    return TripleColumns(
        *(pa.chunked_array([column], NAME_TYPE) for column in columns),
        weights=None if weight is None else np.array(weights, np.float64),
    )


def _fact(item: object, weight: int | None) -> tuple[list[str], float]:
    """Return the names of a triple, and the weight at a position (1 if there is none)."""
    if isinstance(item, str | bytes) or not isinstance(item, Iterable):
        raise ValueError("is not a triple (head, relation, tail)")  # noqa: TRY004
    fields = list(item)
    width = 3 if weight is None else 4
    if len(fields) != width:
        raise ValueError(f"has {plural(len(fields), 'field')} where {width} are expected")
    own = 1.0 if weight is None else weight_of(fields.pop(weight))
    roles = ("head", "relation", "tail")
    return [name_of(field, role) for field, role in zip(fields, roles, strict=True)], own


def name_of(field: object, role: str) -> str:
    """Return a value as a name.

    Raises:
        ValueError: if it is neither a string nor an integer, or empty; with the reason.
    """
    if isinstance(field, bool) or not isinstance(field, str | int):
        type_name = type(field).__name__
        raise ValueError(f"has a {role} of type {type_name}; use a string")  # noqa: TRY004
    name = str(field)
    if not name:
        raise ValueError(f"has an empty {role}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"has a {role} that cannot be written as UTF-8") from None
    return name


def _is_textual(data_type: pa.DataType) -> bool:
    inner = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(inner) for test in tests)


def _check_type(data_type: pa.DataType, title: str, source: str) -> None:
    inner = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    if not (_is_textual(data_type) or pa.types.is_integer(inner) or pa.types.is_null(inner)):
        raise BadSource(
            f"{source}: column {title!r} is of type {inner}, not names; convert it to strings"
        )


def _names(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(NAME_TYPE)
