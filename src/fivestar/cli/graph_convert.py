"""`fivestar graph convert`: convert a graph to another format."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fivestar.cli.source import Reading, reads_a_source
from fivestar.cli.terminal import err, reading_progress, warn
from fivestar.cli.terminal import out as screen

if TYPE_CHECKING:
    from fivestar.graph.report import SplitReport

EXAMPLE = "Example: fivestar graph convert dump.ttl.gz my_graph.parquet"


@reads_a_source
def graph_convert(
    source: Annotated[
        str,
        typer.Argument(
            help="File of triples (text, RDF, Parquet …), folder with train/valid/test, or dataset "
            "name."
        ),
    ],
    out: Annotated[
        Path,
        typer.Argument(
            help="File ending in .tsv, .csv, .nt, .nq, .ttl (also compressed: .gz, .zst …), "
            ".parquet, .arrow or .feather, or a new folder.",
        ),
    ],
    *,
    to: Annotated[
        str | None,
        typer.Option(
            help="Format of the files in a folder: tsv, nt.gz, parquet … (default: tsv)",
            show_default=False,
        ),
    ] = None,
    merge: Annotated[bool, typer.Option("--all", help="Merge train, valid and test.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite OUT if it is an existing file.")
    ] = False,
    reading: Reading,
) -> None:
    """Convert a graph to another format, file to file in bounded memory."""
    from fivestar.graph.file_conversion import convert_graph  # noqa: PLC0415  (slow to import)

    with warnings.catch_warnings(record=True) as caught, reading_progress() as progress:
        warnings.simplefilter("always")
        done = convert_graph(
            source,
            out,
            to=to,
            splits="merge" if merge else "keep",
            existing="replace" if force else "refuse",
            options=reading.options(progress),
        )
    for each in caught:
        warn(str(each.message), err)
    counts = ", ".join(f"{count:,} {split}" for split, count in done.triples.items())
    screen.print(f"{counts} triples in {done.out}", markup=False, soft_wrap=True)
    for report in done.report.values():
        if left := _left_out(report):
            screen.print(f"{report.source}: {left}", markup=False, soft_wrap=True)


def _left_out(report: SplitReport) -> str:
    parts = (
        (report.bad_lines, "bad lines skipped"),
        (report.literals, "literals dropped"),
        (report.labels, "labels and descriptions"),
        (report.types, "types"),
        (report.other_graphs, "statements of other graphs skipped"),
        (report.weights, "statements about weights"),
    )
    return ", ".join(f"{count:,} {what}" for count, what in parts if count)
