"""What every reader is: anything in, columns of names out, every line accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, get_args

import pyarrow as pa

from fivestar.errors import BadLine, SettingsError
from fivestar.graph.choices import (
    BadLineChoice,
    FormatName,
    HeaderChoice,
    LiteralChoice,
    TypeChoice,
)

# Called with (units done, units in all) while a source is read; a file counts bytes on disk.
Progress = Callable[[int, int], None]
Columns = Sequence[str] | Sequence[int]
# Formats, each with the endings of file names that mean it.
Formats = Mapping[FormatName, tuple[str, ...]]

# How the splits of a graph are called.
SPLIT_NAMES = {
    "train": ("train", "training"),
    "valid": ("valid", "dev", "val", "validation"),
    "test": ("test",),
}

# More bad lines than these are counted but not described: a hostile file must not fill the memory.
DESCRIBED_BAD_LINES = 1_000
_SHOWN_CHARACTERS = 120


@dataclass(frozen=True)
class TripleColumns:
    """A piece of a source: equally many heads, relations and tails, all of one split.

    Columns are large strings, or dictionaries of them where a reader has them so; all pieces of a
    source alike. Sources that do not tell splits apart are all "train".
    """

    heads: pa.ChunkedArray
    relations: pa.ChunkedArray
    tails: pa.ChunkedArray
    split: str = "train"

    @classmethod
    def of(cls, columns: Sequence[pa.ChunkedArray], split: str) -> TripleColumns:
        """A piece of three columns."""
        heads, relations, tails = columns
        return cls(heads, relations, tails, split)

    @property
    def names(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]:
        """The three columns."""
        return self.heads, self.relations, self.tails


@dataclass
class Annotations:
    """What a source says about its names: texts for people and types, all by terms of RDF.

    Texts come with their rank: a lower one is nearer to what was asked for.
    """

    labels: dict[str, tuple[int, str]] = field(default_factory=dict)
    descriptions: dict[str, tuple[int, str]] = field(default_factory=dict)
    types: dict[tuple[str, str], None] = field(default_factory=dict)  # a set that keeps its order

    def __bool__(self) -> bool:
        return bool(self.labels or self.descriptions or self.types)

    def add(self, other: Annotations) -> None:
        """Take over what another source says; where both are as good, this one stays."""
        for mine, theirs in (
            (self.labels, other.labels),
            (self.descriptions, other.descriptions),
        ):
            for term, (rank, text) in theirs.items():
                if term not in mine or rank < mine[term][0]:
                    mine[term] = (rank, text)
        self.types |= other.types


def split_called(text: str) -> str | None:
    """The split that is called so, if any is.

    >>> split_called("Dev"), split_called("holdout")
    ('valid', None)
    """
    return next((s for s, names in SPLIT_NAMES.items() if text.casefold() in names), None)


@dataclass(frozen=True)
class ReadOptions:
    """How a source is to be read; `None` and "auto" mean: find out.

    `columns` names (or numbers, from 0) the head, relation and tail column, in this order.
    `quote` is the quote character, or "" for none; `None` quotes all but tab-separated files.
    `graphs` are the named graphs to read, "default" for the one without a name; `None` reads all.
    `blank_scope` goes before the labels of blank nodes, which mean nothing outside their file.
    """

    delimiter: str | None = None
    header: HeaderChoice = "auto"
    columns: Columns | None = None
    quote: str | None = None
    on_bad_line: BadLineChoice = "error"
    progress: Progress | None = None
    format: FormatName | None = None
    graphs: tuple[str, ...] | None = None
    literals: LiteralChoice = "drop"
    types: TypeChoice = "types"
    language: str = "en"
    blank_scope: str = ""

    def __post_init__(self) -> None:
        _one_of("header", self.header, ("auto", "yes", "no"))
        _one_of("on_bad_line", self.on_bad_line, ("error", "skip"))
        _one_of("literals", self.literals, ("drop", "keep"))
        _one_of("types", self.types, ("types", "triples"))
        if self.format is not None:
            _one_of("format", self.format, get_args(FormatName))
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
    """Where every line of one source went: the sum of the counts is `lines`.

    `literals` were dropped, `labels` (descriptions, too) and `types` are in `annotations`, and
    `other_graphs` were not asked for.
    """

    source: str
    unit: str = "line"
    lines: int = 0
    headers: int = 0
    blanks: int = 0
    bad: int = 0
    literals: int = 0
    labels: int = 0
    types: int = 0
    other_graphs: int = 0
    annotations: Annotations = field(default_factory=Annotations)
    skipped: list[SkippedLine] = field(default_factory=list)
    # The first line, where it was read as a triple although it may be a header.
    first_triple: tuple[str, str, str] | None = None

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
    def formats(self) -> Formats:
        """The formats it reads from files, each with the endings of file names that mean it."""
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
