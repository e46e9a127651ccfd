"""What every reader is: strings in, columns of strings out, every line accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

from fivestar.errors import BadLine, SettingsError

# Called with (units done, units in all) while a source is read; a file counts bytes on disk.
Progress = Callable[[int, int], None]
Columns = Sequence[str] | Sequence[int]
HeaderChoice = Literal["auto", "yes", "no"]
BadLineChoice = Literal["error", "skip"]

# More bad lines than these are counted but not described: a hostile file must not fill the memory.
DESCRIBED_BAD_LINES = 1_000
_SHOWN_CHARACTERS = 120


class TripleColumns(NamedTuple):
    """A piece of a source: equally many heads, relations and tails."""

    heads: pa.ChunkedArray
    relations: pa.ChunkedArray
    tails: pa.ChunkedArray


@dataclass(frozen=True)
class ReadOptions:
    """How a source is to be read; `None` and "auto" mean: find out.

    `columns` names (or numbers, from 0) the head, relation and tail column, in this order.
    `quote` is the quote character, or "" for none; `None` quotes all but tab-separated files.
    """

    delimiter: str | None = None
    header: HeaderChoice = "auto"
    columns: Columns | None = None
    quote: str | None = None
    on_bad_line: BadLineChoice = "error"
    progress: Progress | None = None

    def __post_init__(self) -> None:
        _one_of("header", self.header, ("auto", "yes", "no"))
        _one_of("on_bad_line", self.on_bad_line, ("error", "skip"))
        if self.delimiter is not None and (not self.delimiter or set(self.delimiter) & set("\r\n")):
            raise SettingsError("delimiter must be at least one character and no line break")
        if self.quote is not None and self.quote and not _is_ascii_character(self.quote):
            raise SettingsError(f"quote must be one ASCII character or empty, not {self.quote!r}")
        if self.quote and self.quote == self.delimiter:
            raise SettingsError("quote and delimiter must differ")
        _check_columns(self.columns, self.header)


@dataclass(frozen=True)
class SkippedLine:
    """A line that could not be read: where it is, why, and how it begins."""

    line: int
    reason: str
    text: str


@dataclass
class Tally:
    """Where every line of one source went: the sum of the counts is `lines`."""

    source: str
    unit: str = "line"
    lines: int = 0
    headers: int = 0
    blanks: int = 0
    bad: int = 0
    skipped: list[SkippedLine] = field(default_factory=list)
    # The first line, where it was read as a triple although it may be a header.
    first_triple: tuple[str, str, str] | None = None

    @property
    def triples(self) -> int:
        """Lines that hold a triple, repeated ones included."""
        return self.lines - self.headers - self.blanks - self.bad

    def reject(self, line: int, reason: str, text: str, options: ReadOptions) -> None:
        """Count a bad line, or stop there if bad lines are errors."""
        shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
        shown = "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown
        )
        if options.on_bad_line == "error":
            raise BadLine(
                f"{self.source}, {self.unit} {line}: {reason}\n  | {shown}\n"
                f"Mend the {self.unit}, or leave such {self.unit}s out with --on-bad-line skip "
                "(on_bad_line='skip').",
                source=self.source,
                line=line,
            )
        self.bad += 1
        if len(self.skipped) < DESCRIBED_BAD_LINES:
            self.skipped.append(SkippedLine(line, reason, shown))


class Reader(Protocol):
    """One format. A new format is one module with one of these, listed in `readers.READERS`."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of file names that mean this format, as in a folder of splits."""
        ...

    def accepts(self, source: object) -> bool:
        """Can this reader read that source?"""
        ...

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """The triples of the source in pieces, every line of it counted in the tally."""
        ...


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def _is_ascii_character(text: str) -> bool:
    return len(text) == 1 and text.isascii()


def _check_columns(columns: Columns | None, header: HeaderChoice) -> None:
    if columns is None:
        return
    advice = "name or number the head, relation and tail column, as in --columns 0,1,2"
    if isinstance(columns, str) or len(columns) != 3 or len(set(columns)) != 3:
        raise SettingsError(f"columns must be three different columns: {advice}")
    kinds = {type(column) for column in columns}
    if kinds not in ({str}, {int}):
        raise SettingsError(f"columns must be three names or three numbers, not a mix: {advice}")
    if any(isinstance(column, int) and column < 0 for column in columns):
        raise SettingsError(f"column numbers count from 0, so none is negative: {advice}")
    if kinds == {str} and header == "no":
        raise SettingsError("columns by name need a header; number them from 0 instead")
