"""`fivestar graph generate`: write a graph of any size with planted patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fivestar.cli.terminal import counting_progress
from fivestar.cli.terminal import out as screen

EXAMPLE = (
    "Example: fivestar graph generate --entities 1e6 --relations 500 --triples 1e7 --out generated"
)


def _count(text: str) -> int:
    """Return a whole number, which may be written as 1e6."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if number != number // 1 or not 0 <= number < 1e18:
        raise typer.BadParameter(f"{text!r} is not a whole number; write it as in 1000000 or 1e6")
    return int(number)


def graph_generate(
    *,
    to: Annotated[Path, typer.Option("--out", help="New folder for train, valid and test.")],
    entities: Annotated[
        int, typer.Option(parser=_count, metavar="N", help="Number of entities, as in 1e6.")
    ] = 10_000,
    relations: Annotated[
        int, typer.Option(parser=_count, metavar="N", help="Number of relations.")
    ] = 20,
    triples: Annotated[
        int,
        typer.Option(parser=_count, metavar="N", help="Number of triples, up to a few percent."),
    ] = 100_000,
    noise: Annotated[
        float, typer.Option(help="Share of unpredictable tails among the facts not implied.")
    ] = 0.1,
    held_out: Annotated[float, typer.Option(help="Share of the triples in valid, and in test.")] = (
        0.01
    ),
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    file_format: Annotated[
        str, typer.Option("--to", help="Format of the files: parquet, tsv, nt.gz …")
    ] = "parquet",
) -> None:
    """Generate a graph: power-law degrees, and relations with planted patterns.

    Relations are symmetric, inverse, composed, hierarchical, or form paths beside loops; their
    names say which. A graph is written in bounded memory and depends on nothing but its options.
    """
    from fivestar.graph.generation import GeneratedGraph, generate_graph  # noqa: PLC0415

    graph = GeneratedGraph(entities, relations, triples, noise, held_out, seed)
    with counting_progress("generating") as progress:
        counts = generate_graph(graph, to, to=file_format, progress=progress)
    parts = ", ".join(f"{count:,} {split}" for split, count in counts.items() if count)
    screen.print(f"{parts} triples in {to}", markup=False, soft_wrap=True)
