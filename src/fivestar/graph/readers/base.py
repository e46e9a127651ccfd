"""The interface of readers: any source in, columns of names out, every line counted."""

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
from fivestar.graph.triples import FactWeights

# Called with (units done, units in total) while a source is read; units of a file are bytes.
Progress = Callable[[int, int], None]
Columns = Sequence[str] | Sequence[int]
# File extensions by format.
Formats = Mapping[FormatName, tuple[str, ...]]

# Names of the splits in files and columns.
SPLIT_NAMES = {
    "train": ("train", "training"),
    "valid": ("valid", "dev", "val", "validation"),
    "test": ("test",),
}

# Further bad lines are only counted, so that a hostile file cannot fill the memory.
MAX_DESCRIBED_LINES = 1_000
_SHOWN_CHARACTERS = 120


@dataclass(frozen=True)
class TripleColumns:
    """A piece of a source: heads, relations and tails of one split, and their weights if given.

    Columns are large strings or dictionaries of them, the same in all pieces of a source. Sources
    without splits are all "train".
    """

    heads: pa.ChunkedArray
    relations: pa.ChunkedArray
    tails: pa.ChunkedArray
    split: str = "train"
    weights: FactWeights | None = field(default=None, kw_only=True)

    @classmethod
    def of(
        cls, columns: Sequence[pa.ChunkedArray], split: str, weights: FactWeights | None = None
    ) -> TripleColumns:
        """Return a piece of three columns."""
        heads, relations, tails = columns
        return cls(heads, relations, tails, split, weights=weights)

    @property
    def names(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]:
        """The three columns."""
        return self.heads, self.relations, self.tails


@dataclass
class Annotations:
    """Labels, descriptions and types of names in a source, by RDF term.

    Texts come with a rank; the lowest is preferred.
    """

    labels: dict[str, tuple[int, str]] = field(default_factory=dict)
    descriptions: dict[str, tuple[int, str]] = field(default_factory=dict)
    types: dict[tuple[str, str], None] = field(default_factory=dict)  # an ordered set

    def __bool__(self) -> bool:
        return bool(self.labels or self.descriptions or self.types)

    def add(self, other: Annotations) -> None:
        """Merge the annotations of another source; of equal ranks this one wins."""
        for mine, theirs in (
            (self.labels, other.labels),
            (self.descriptions, other.descriptions),
        ):
            for term, (rank, text) in theirs.items():
                if term not in mine or rank < mine[term][0]:
                    mine[term] = (rank, text)
        self.types |= other.types


def split_named(text: str) -> str | None:
    """Return the split of this name; None if there is no such.

    >>> split_named("Dev"), split_named("holdout")
    ('valid', None)
    """
    return next((s for s, names in SPLIT_NAMES.items() if text.casefold() in names), None)


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source, as in `read_graph`; `None` and "auto" are detected.

    `blank_scope` is a prefix of the labels of blank nodes, which are local to their file.
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
    weight: str | int | None = None

    def __post_init__(self) -> None:
        _require_one_of("header", self.header, ("auto", "yes", "no"))
        _require_one_of("on_bad_line", self.on_bad_line, ("error", "skip"))
        _require_one_of("literals", self.literals, ("drop", "keep"))
        _require_one_of("types", self.types, ("types", "triples"))
        if self.format is not None:
            _require_one_of("format", self.format, get_args(FormatName))
        if self.delimiter is not None and (not self.delimiter or set(self.delimiter) & set("\r\n")):
            raise SettingsError("delimiter must be at least one character and no line break")
        if self.quote is not None and self.quote and not _is_ascii_character(self.quote):
            raise SettingsError(f"quote must be one ASCII character or empty, not {self.quote!r}")
        if self.quote and self.quote == self.delimiter:
            raise SettingsError("quote and delimiter must differ")
        _check_columns(self.columns, self.header)
        _check_weight(self.weight, self.columns, self.header)


@dataclass(frozen=True)
class SkippedLine:
    """A line that was skipped: its number, the reason, and its beginning."""

    line: int
    reason: str
    text: str


@dataclass
class Tally:
    """Counts of the lines of one source by their use; they add up to `lines`.

    `literals` were dropped, `labels` (and descriptions) and `types` are in `annotations`,
    `other_graphs` are statements of graphs that were not selected, and `weights` give weights.
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
    weights: int = 0
    annotations: Annotations = field(default_factory=Annotations)
    skipped: list[SkippedLine] = field(default_factory=list)
    # The first line, if it was read as a triple but may be a header.
    first_triple: tuple[str, str, str] | None = None

    def reject(self, line: int, reason: str, text: str, options: ReadOptions) -> None:
        """Count a bad line, or raise `BadLine` if bad lines are errors."""
        shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
        shown = "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown
        )
        if options.on_bad_line == "error":
            raise BadLine(
                f"{self.source}, {self.unit} {line}: {reason}\n  | {shown}\n"
                f"Fix the {self.unit}, or pass on_bad_line='skip' to skip such {self.unit}s.",
                source=self.source,
                line=line,
            )
        self.bad += 1
        if len(self.skipped) < MAX_DESCRIBED_LINES:
            self.skipped.append(SkippedLine(line, reason, shown))


class Reader(Protocol):
    """A reader of one or more formats, listed in `readers.READERS`."""

    @property
    def formats(self) -> Formats:
        """The file formats it reads, with their file extensions."""
        ...

    def accepts(self, source: object) -> bool:
        """Return whether this reader can read a source."""
        ...

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the triples of a source in pieces, and count every line in the tally."""
        ...


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "field"), plural(2_000, "field")
    ('1 field', '2,000 fields')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _require_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def _is_ascii_character(text: str) -> bool:
    return len(text) == 1 and text.isascii()


def _check_columns(columns: Columns | None, header: HeaderChoice) -> None:
    if columns is None:
        return
    advice = "pass those of head, relation and tail, as in columns=(0, 1, 2)"
    if isinstance(columns, str) or len(columns) != 3 or len(set(columns)) != 3:
        raise SettingsError(f"columns must be three different columns: {advice}")
    types = {type(column) for column in columns}
    if types not in ({str}, {int}):
        raise SettingsError(f"columns must be three names or three numbers, not a mix: {advice}")
    if any(isinstance(column, int) and column < 0 for column in columns):
        raise SettingsError(f"column numbers start at 0: {advice}")
    if types == {str} and header == "no":
        raise SettingsError("columns by name need a header; pass numbers from 0 instead")


def _check_weight(weight: str | int | None, columns: Columns | None, header: HeaderChoice) -> None:
    if weight is None:
        return
    is_name = isinstance(weight, str) and bool(weight)
    is_number = isinstance(weight, int) and not isinstance(weight, bool) and weight >= 0
    if not is_name and not is_number:
        raise SettingsError(
            f"weight must be the name or the number (from 0) of a column, not {weight!r}"
        )
    if columns is not None and weight in columns:
        raise SettingsError(f"weight={weight!r} is a column of the triple; pass another one")
    if isinstance(weight, str) and header == "no":
        raise SettingsError("a weight by name needs a header; pass its number from 0 instead")
