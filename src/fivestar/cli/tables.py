"""Tables that fit the terminal: values in full, names as labels, shortened in the middle."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.box import HEAVY_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fivestar.cli.terminal import out

if TYPE_CHECKING:
    from fivestar.graph.vocabulary import Vocabulary
    from fivestar.prediction.predictions import Named

# The least width of names and of prose in a table with a frame and in one without. If there is
# less, the rows are listed one under the other.
_MIN_FRAMED = {"name": 20, "prose": 24}
_MIN_PLAIN = {"name": 10, "prose": 16}
# Share of the width for the end of a shortened IRI, which tells it from others.
_IRI_END = 0.7


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: its header.
        kind: a "value" is always shown in full on one line, a "name" is shortened in the middle
            where space is short, "prose" is wrapped.
        justify: the alignment.
    """

    title: str
    kind: Literal["value", "name", "prose"] = "value"
    justify: Literal["left", "right"] = "left"


def name_column(title: str) -> Column:
    """Return a column of names, which are shortened in the middle where space is short."""
    return Column(title, "name")


def prose_column(title: str) -> Column:
    """Return a column of text that is wrapped."""
    return Column(title, "prose")


def number_column(title: str) -> Column:
    """Return a column of values, aligned to the right."""
    return Column(title, justify="right")


def print_table(
    columns: Sequence[Column | str],
    rows: Iterable[Sequence[str | Named]],
    *,
    title: str = "",
    caption: str = "",
    console: Console = out,
) -> None:
    """Print a table that fits the console.

    Names are shown by label, with the id where two rows have the same label. If the values leave
    too little space for the names, the table loses its frame; if that is not enough, every row is
    a paragraph.

    Args:
        columns: the columns; a string is a column of values.
        rows: a cell per column.
        title: a line above the table.
        caption: a line below the table.
        console: where to print.
    """
    heads = [Column(each) if isinstance(each, str) else each for each in columns]
    texts = [_texts(cells) for cells in zip(*rows, strict=True)] or [[] for _ in heads]
    if title:
        console.print(Text(title), soft_wrap=True)
    framed = Table(box=HEAVY_HEAD), 3 * len(heads) + 1, _MIN_FRAMED
    plain = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False), 2 * len(heads) - 2, _MIN_PLAIN
    for table, overhead, minimum in (framed, plain):
        widths = _widths(heads, texts, console.width - overhead, minimum)
        if widths is not None:
            for head, width in zip(heads, widths, strict=True):
                shown = "\n".join(_wrapped_title(head.title, width))
                table.add_column(Text(shown), justify=head.justify, width=width, overflow="fold")
            fitted = [_fit(*each) for each in zip(heads, texts, widths, strict=True)]
            for cells in zip(*fitted, strict=True):
                table.add_row(*map(Text, cells))
            console.print(table)
            break
    else:
        _print_paragraphs(heads, texts, console)
    if caption:
        console.print(Text(caption), soft_wrap=True)


def named(vocabulary: Vocabulary, name: str) -> Named:
    """Return a name of a vocabulary with its label."""
    from fivestar.prediction.predictions import Named  # noqa: PLC0415  (slow to import)

    return Named.of(vocabulary, vocabulary.id_of(name))


def shorten(text: str, width: int) -> str:
    """Shorten a text in the middle; an IRI keeps more of its end.

    >>> shorten("the quick brown fox", 9)
    'the … fox'
    >>> shorten("https://example.org/property/P31", 16)
    'https…operty/P31'
    """
    if cell_len(text) <= width:
        return text
    end = round((width - 1) * (_IRI_END if "://" in text else 0.5))
    last = len(text)
    while last and cell_len(text[last - 1 :]) <= end:
        last -= 1
    first = 0
    while cell_len(text[: first + 1]) <= width - 1 - end:
        first += 1
    return f"{text[:first]}…{text[last:]}"


def short_name(text: str) -> str:
    """Return the last part of an IRI, or the text itself.

    >>> short_name("https://example.org/class#Person"), short_name("a/b")
    ('Person', 'a/b')
    """
    if "://" not in text:
        return text
    return re.split(r"[/#]", text.rstrip("/#"))[-1] or text


def _texts(cells: Sequence[str | Named]) -> list[str]:
    """Return the text of each cell: a label, with the id if another cell has the same label."""
    ids: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        if not isinstance(cell, str):
            ids[cell.label].add(cell.id)
    return [
        cell if isinstance(cell, str) else cell.label if len(ids[cell.label]) == 1 else str(cell)
        for cell in cells
    ]


def _widths(
    heads: Sequence[Column], texts: Sequence[Sequence[str]], space: int, minimum: dict[str, int]
) -> list[int] | None:
    """Return the width of each column, or None if the values do not fit."""
    natural, least = [], []
    for head, cells in zip(heads, texts, strict=True):
        widest = max((cell_len(line) for cell in cells for line in cell.split("\n")), default=0)
        word = max((cell_len(word) for word in head.title.split()), default=1)
        natural.append(max(widest, word))
        least.append(max(min(minimum.get(head.kind, widest), widest), word))
    if sum(least) > space:
        return None
    widths, left = list(least), space - sum(least)
    # The space that is left goes, cell by cell, to the column that is the most cut.
    while left and any(width < wanted for width, wanted in zip(widths, natural, strict=True)):
        cut = [
            (width / wanted if width < wanted else 2, number)
            for number, (width, wanted) in enumerate(zip(widths, natural, strict=True))
        ]
        widths[min(cut)[1]] += 1
        left -= 1
    # Headers with as few lines as there is space for.
    for lines in range(1, 5):
        wider = [
            max(width, _title_width(head.title, lines))
            for head, width in zip(heads, widths, strict=True)
        ]
        if sum(wider) - sum(widths) <= left:
            return wider
    return widths


def _title_width(title: str, lines: int) -> int:
    """Return the width in which a header has at most this many lines."""
    fitting = (width for width in range(len(title)) if len(_wrapped_title(title, width)) <= lines)
    return next(fitting, cell_len(title))


def _wrapped_title(title: str, width: int) -> list[str]:
    lines: list[str] = [""]
    for word in title.split():
        joined = f"{lines[-1]} {word}".strip()
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _fit(head: Column, cells: Sequence[str], width: int) -> list[str]:
    """Shorten names, except where that would make two of them equal: those are wrapped."""
    if head.kind != "name":
        return list(cells)
    full: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        full[shorten(cell, width)].add(cell)
    return [short if len(full[short := shorten(cell, width)]) == 1 else cell for cell in cells]


def _print_paragraphs(
    heads: Sequence[Column], texts: Sequence[Sequence[str]], console: Console
) -> None:
    """Print the names of each row on a line, and its values below."""
    for cells in zip(*texts, strict=True):
        pairs = list(zip(heads, cells, strict=True))
        names = [cell for head, cell in pairs if head.kind == "name"]
        prose = [f"{head.title} {cell}".strip() for head, cell in pairs if head.kind == "prose"]
        values = [
            f"{head.title} {cell}".strip() for head, cell in pairs if head.kind == "value" and cell
        ]
        console.print(Text("  ".join(names) or values.pop(0), style="bold"))
        for line in ("  ".join(values), *prose):
            if line:
                console.print(Padding(Text(line), (0, 0, 0, 2)))
