"""The argument and options by which every command reads a graph."""

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

_READING = "Advanced: reading SOURCE"
_NAMED_DELIMITERS = {
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
        help="File of triples (text, RDF, Parquet …), folder with train/valid/test, or dataset "
        "name. (default: the bundled demo graph of countries and cities)",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="Field delimiter: a character, or tab, space, comma … (default: detected)",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Header = Annotated[
    HeaderChoice,
    typer.Option(help="Whether the first line is a header.", rich_help_panel=_READING),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Head, relation and tail columns, by index or name: 0,1,2 or s,p,o.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Quote = Annotated[
    str | None,
    typer.Option(
        help="Quote character, '' for none. (default: \", none in tab-separated files)",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
OnBadLine = Annotated[
    BadLineChoice,
    typer.Option(help="Fail on a malformed line, or skip it.", rich_help_panel=_READING),
]
Format = Annotated[
    FormatName | None,
    typer.Option(
        "--format",
        help="File format, if the suffix does not tell.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Graphs = Annotated[
    list[str] | None,
    typer.Option(
        "--graph",
        help="RDF: named graph, or default (repeatable). (default: all)",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Literals = Annotated[
    LiteralChoice,
    typer.Option(help="RDF: drop literals, or make them entities.", rich_help_panel=_READING),
]
Types = Annotated[
    TypeChoice,
    typer.Option(
        "--types",
        help="RDF: read rdf:type as entity types, or as a relation.",
        rich_help_panel=_READING,
    ),
]
Language = Annotated[
    str, typer.Option(help="RDF: preferred language of labels.", rich_help_panel=_READING)
]


WeightColumn = Annotated[
    str | None,
    typer.Option(
        help="Column with the weights of facts, by index or name; RDF: IRI of the property.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]


@dataclass(frozen=True)
class Reading:
    """The options for reading SOURCE."""

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
    weight_column: WeightColumn = None

    def options(self, progress: ProgressCallback | None) -> ReadOptions:
        """Return them as options of the library."""
        from fivestar.graph.readers.base import ReadOptions  # noqa: PLC0415  (slow to import)

        return ReadOptions(
            delimiter=_NAMED_DELIMITERS.get(self.delimiter or "", self.delimiter),
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
            weight=_number_or_name(self.weight_column),
        )


def reads_a_source(command: Callable[..., None]) -> Callable[..., None]:
    """Add all options of `Reading` to a command, which receives them as `reading`."""
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
    """Return the graph named on the command line; its warnings are in its report."""
    from fivestar.graph.reading import read_with  # noqa: PLC0415  (slow to import)

    with warnings.catch_warnings(), reading_progress() as progress:
        warnings.simplefilter("ignore", GraphWarning)
        return read_with(reading.options(progress), source)


def _number_or_name(column: str | None) -> str | int | None:
    return int(column) if column is not None and column.isdecimal() else column


def _parsed(columns: str | None) -> list[str] | list[int] | None:
    if columns is None:
        return None
    parts = [part.strip() for part in columns.split(",")]
    return [int(part) for part in parts] if all(p.isdecimal() for p in parts) else parts
