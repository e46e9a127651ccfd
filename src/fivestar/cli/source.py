"""The argument and options by which every command names a graph."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fivestar.cli.terminal import reading_progress
from fivestar.errors import GraphWarning

if TYPE_CHECKING:
    from fivestar.graph.knowledge_graph import KnowledgeGraph

_HOW = "How to read SOURCE"
_SPOKEN_DELIMITERS = {
    "tab": "\t",
    "\\t": "\t",
    "space": " ",
    "comma": ",",
    "semicolon": ";",
    "bar": "|",
}

Source = Annotated[
    str | None,
    typer.Argument(
        help="A file of triples, a folder with train/valid/test, or the name of a data set in "
        "$FIVESTAR_DATA. Without it: the embedded graph of countries and cities.",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="What separates the fields: a character, or tab, space, comma … Found out by default.",
        show_default=False,
        rich_help_panel=_HOW,
    ),
]
Header = Annotated[
    Literal["auto", "yes", "no"],
    typer.Option(help="Whether files begin with a header.", rich_help_panel=_HOW),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="The head, relation and tail column, by number from 0 or by name: 0,1,2 or s,p,o.",
        show_default=False,
        rich_help_panel=_HOW,
    ),
]
Quote = Annotated[
    str | None,
    typer.Option(
        help="The quote character, '' for none. By default \", and none in tab-separated files.",
        show_default=False,
        rich_help_panel=_HOW,
    ),
]
OnBadLine = Annotated[
    Literal["error", "skip"],
    typer.Option(help="Stop at a line that cannot be read, or leave it out.", rich_help_panel=_HOW),
]


def read_source(
    source: str | None,
    *,
    delimiter: str | None,
    header: Literal["auto", "yes", "no"],
    columns: str | None,
    quote: str | None,
    on_bad_line: Literal["error", "skip"],
) -> KnowledgeGraph:
    """The graph that the command line names; its warnings are left in its report."""
    from fivestar.graph.reading import read_graph  # noqa: PLC0415  (slow to import)

    with warnings.catch_warnings(), reading_progress() as progress:
        warnings.simplefilter("ignore", GraphWarning)
        return read_graph(
            source,
            delimiter=_SPOKEN_DELIMITERS.get(delimiter or "", delimiter),
            header=header,
            columns=_parsed(columns),
            quote=quote,
            on_bad_line=on_bad_line,
            progress=progress,
        )


def _parsed(columns: str | None) -> list[str] | list[int] | None:
    if columns is None:
        return None
    parts = [part.strip() for part in columns.split(",")]
    return [int(part) for part in parts] if all(p.isdecimal() for p in parts) else parts
