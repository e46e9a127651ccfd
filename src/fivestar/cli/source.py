"""The argument and options by which every command names a graph."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from fivestar.cli.terminal import reading_progress
from fivestar.errors import GraphWarning
from fivestar.graph.choices import (
    BadLineChoice,
    FormatName,
    HeaderChoice,
    LiteralChoice,
    TypeChoice,
)

if TYPE_CHECKING:
    from fivestar.graph.knowledge_graph import KnowledgeGraph
    from fivestar.graph.readers.base import Progress as ProgressCallback
    from fivestar.graph.readers.base import ReadOptions

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
        help="A file of triples (text, RDF, Parquet …), a folder with train/valid/test, or the "
        "name of a data set in "
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
    HeaderChoice,
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
    BadLineChoice,
    typer.Option(help="Stop at a line that cannot be read, or leave it out.", rich_help_panel=_HOW),
]
Format = Annotated[
    FormatName | None,
    typer.Option(
        "--format",
        help="What files are, where their names do not tell.",
        show_default=False,
        rich_help_panel=_HOW,
    ),
]
Graphs = Annotated[
    list[str] | None,
    typer.Option(
        "--graph",
        help="RDF: read this named graph, or default; again for more. (default: all)",
        show_default=False,
        rich_help_panel=_HOW,
    ),
]
Literals = Annotated[
    LiteralChoice,
    typer.Option(
        help="RDF: leave literals out and count them, or make them entities.", rich_help_panel=_HOW
    ),
]
Types = Annotated[
    TypeChoice,
    typer.Option(
        "--types",
        help="RDF: rdf:type tells the types of entities, or is a relation as others are.",
        rich_help_panel=_HOW,
    ),
]
Language = Annotated[
    str, typer.Option(help="RDF: which labels are preferred.", rich_help_panel=_HOW)
]


@dataclass(frozen=True)
class Reading:
    """How SOURCE is to be read, as the options of a command say."""

    delimiter: Delimiter = None
    header: Header = "auto"
    columns: Columns = None
    quote: Quote = None
    on_bad_line: OnBadLine = "error"
    format_name: Format = None
    graphs: Graphs = None
    literals: Literals = "drop"
    types: Types = "types"
    language: Language = "en"

    def options(self, progress: ProgressCallback | None) -> ReadOptions:
        """The same in the words of the library."""
        from fivestar.graph.readers.base import ReadOptions  # noqa: PLC0415  (slow to import)

        return ReadOptions(
            delimiter=_SPOKEN_DELIMITERS.get(self.delimiter or "", self.delimiter),
            header=self.header,
            columns=_parsed(self.columns),
            quote=self.quote,
            on_bad_line=self.on_bad_line,
            progress=progress,
            format=self.format_name,
            graphs=tuple(self.graphs) if self.graphs else None,
            literals=self.literals,
            types=self.types,
            language=self.language,
        )


def reads_a_source(command: Callable[..., None]) -> Callable[..., None]:
    """A command with all options of `Reading`, which it gets as `reading`."""
    hints = get_type_hints(Reading, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=hints[field.name])
        for field in fields(Reading)
    ]
    own = inspect.signature(command, eval_str=True).parameters.values()
    named = [p for p in own if p.name != "reading" and p.kind is not p.VAR_KEYWORD]
    others = [p for p in own if p.kind is p.VAR_KEYWORD]

    def with_options(*arguments: Any, **given: Any) -> None:
        chosen = {field.name: given.pop(field.name, field.default) for field in fields(Reading)}
        command(*arguments, reading=Reading(**chosen), **given)

    parameters = [*named, *added, *others]
    with_options.__doc__ = command.__doc__
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def read_source(source: str | None, reading: Reading) -> KnowledgeGraph:
    """The graph that the command line names; its warnings are left in its report."""
    from fivestar.graph.reading import read_with  # noqa: PLC0415  (slow to import)

    with warnings.catch_warnings(), reading_progress() as progress:
        warnings.simplefilter("ignore", GraphWarning)
        return read_with(reading.options(progress), source)


def _parsed(columns: str | None) -> list[str] | list[int] | None:
    if columns is None:
        return None
    parts = [part.strip() for part in columns.split(",")]
    return [int(part) for part in parts] if all(p.isdecimal() for p in parts) else parts
