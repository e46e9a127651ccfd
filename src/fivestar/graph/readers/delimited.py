"""Text with one triple per line, of any size.

A block of lines is read in one of two ways. The slow way looks at each line in Python and knows
what is wrong with it. The fast way is pyarrow's parser; it is used only for plain blocks (no
quotes, no odd bytes, the same number of fields in each line, none empty), where both give the same
result, as tests check. So a bad line costs the time of its block, not of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from fivestar.errors import BadSource
from fivestar.graph.readers.base import Formats, ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.dialect import Dialect, LineError, detect_dialect
from fivestar.graph.readers.streams import (
    BYTE_ORDER_MARK,
    Block,
    line_blocks,
    open_bytes,
    refuse_binary,
)
from fivestar.graph.readers.weights import weight_of, weights_of
from fivestar.graph.vocabulary import NAME_TYPE

MAX_LINE_BYTES = 1 << 20
_SAMPLE_BYTES = 1 << 16
# pyarrow parses pieces of this size in parallel.
_PARSE_BYTES = 2 << 20


class DelimitedReader:
    """Read text files of triples with any delimiter and compression."""

    formats: ClassVar[Formats] = {"text": (".tsv", ".txt", ".csv", ".tab")}

    def accepts(self, source: object) -> bool:
        """Return whether it is a file; binary files are refused when they are read."""
        return isinstance(source, Path)

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the triples of a file in blocks."""
        with open_bytes(Path(str(source)), options.progress) as stream:
            dialect: Dialect | None = None
            for block in line_blocks(stream):
                if dialect is None:
                    block = _without_byte_order_mark(block)  # noqa: PLW2901
                    dialect = _dialect_of(block, options, tally.source)
                    if not block.overlong:
                        block = _after_header(block, dialect, tally)  # noqa: PLW2901
                if block.overlong:
                    reject_overlong(block, options, tally)
                    continue
                columns = _read_fast(block, dialect, tally)
                yield columns or _read_slowly(block, dialect, options, tally)
            if dialect is None:
                detect_dialect([], options, tally.source)


def _dialect_of(block: Block, options: ReadOptions, name: str) -> Dialect:
    sample = bytes(memoryview(block.buffer)[block.start : block.end][:_SAMPLE_BYTES])
    refuse_binary(sample, name)
    if b"\n" not in sample and b"\r" in sample[:-1]:
        raise BadSource(f"{name}: its lines end with CR; convert it: tr '\\r' '\\n' < FILE > NEW")
    lines = sample.split(b"\n")
    if len(lines) > 1 and len(sample) == _SAMPLE_BYTES:
        lines.pop()  # cut in the middle
    return detect_dialect([line.removesuffix(b"\r") for line in lines], options, name)


def _without_byte_order_mark(block: Block) -> Block:
    return block.without(len(BYTE_ORDER_MARK)) if block.starts_with(BYTE_ORDER_MARK) else block


def _after_header(block: Block, dialect: Dialect, tally: Tally) -> Block:
    """Return the block after its header; without one, remember its first line."""
    start = block.start
    blanks = 0
    while start < block.end:
        end = block.buffer.find(b"\n", start, block.end)
        end = block.end if end < 0 else end
        line = bytes(block.buffer[start:end])
        if not dialect.is_blank(line):
            break
        blanks += 1
        start = end + 1
    else:
        return block
    if not dialect.has_header:
        try:
            tally.first_triple = _fact(line.removesuffix(b"\r"), dialect)[0]
        except LineError:
            tally.first_triple = None
        return block
    tally.lines += blanks + 1
    tally.blanks += blanks
    tally.headers += 1
    return block.without(min(end + 1, block.end) - block.start)


def _read_fast(block: Block, dialect: Dialect, tally: Tally) -> TripleColumns | None:
    """Read a block with pyarrow; return None if it is not plain."""
    if not _is_plain(block, dialect):
        return None
    titles = [str(number) for number in range(dialect.width)]
    included = [titles[column] for column in dialect.columns]
    if dialect.weight is not None:
        included.append(titles[dialect.weight])
    try:
        table = csv.read_csv(
            pa.BufferReader(memoryview(block.buffer)[block.start : block.end]),
            csv.ReadOptions(column_names=titles, block_size=_PARSE_BYTES),
            csv.ParseOptions(delimiter=dialect.delimiter, quote_char=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(included, NAME_TYPE),
                include_columns=included,
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    columns = TripleColumns(*(table[title] for title in included[:3]))
    if any(pc.min(pc.binary_length(column)).as_py() == 0 for column in columns.names):
        return None
    if dialect.weight is not None:
        weights, wrong = weights_of(table[included[3]])
        if wrong:
            return None
        columns = replace(columns, weights=weights)
    lines = block.line_count()
    tally.lines += lines
    tally.blanks += lines - table.num_rows
    return columns


def _is_plain(block: Block, dialect: Dialect) -> bool:
    return (
        len(dialect.delimiter.encode()) == 1
        and block.end > block.start
        and not (dialect.quote and block.has(dialect.quote.encode()))
        and not block.has(b"\0")
        and (not block.has(b"\r") or block.count(b"\r") == block.count(b"\r\n"))
        # pyarrow drops this mark at the beginning of its input, but here it is part of a name.
        and not block.starts_with(BYTE_ORDER_MARK)
        and block.has_only_lines_below(MAX_LINE_BYTES)
    )


def _read_slowly(
    block: Block, dialect: Dialect, options: ReadOptions, tally: Tally
) -> TripleColumns:
    heads, relations, tails, weights = [], [], [], []
    for raw in block.lines():
        line = raw.removesuffix(b"\r")
        tally.lines += 1
        if dialect.is_blank(line):
            tally.blanks += 1
            continue
        try:
            (head, relation, tail), weight = _fact(line, dialect)
            weights.append(1.0 if dialect.weight is None else weight_of(weight))
        except ValueError as reason:
            shown = line[:1_000].decode("utf-8", "backslashreplace")
            tally.reject(tally.lines, str(reason), shown, options)
            continue
        heads.append(head)
        relations.append(relation)
        tails.append(tail)
    return TripleColumns(
        *(pa.chunked_array([names], NAME_TYPE) for names in (heads, relations, tails)),
        weights=None if dialect.weight is None else np.array(weights),
    )


def _fact(line: bytes, dialect: Dialect) -> tuple[tuple[str, str, str], str]:
    if len(line) > MAX_LINE_BYTES:
        raise LineError(TOO_LONG)
    return dialect.fact(line)


TOO_LONG = f"is longer than {MAX_LINE_BYTES >> 20} MiB; is this a file of triples?"


def reject_overlong(block: Block, options: ReadOptions, tally: Tally) -> None:
    """Count a line that is longer than a block as bad."""
    tally.lines += 1
    shown = bytes(memoryview(block.buffer)[block.start : block.end])
    tally.reject(tally.lines, TOO_LONG, shown.decode("utf-8", "backslashreplace"), options)
