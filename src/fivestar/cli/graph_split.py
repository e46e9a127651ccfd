"""`fivestar graph split`: cut a graph into train, valid and test without leaks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fivestar.cli.source import Reading, Source, read_source, reads_a_source
from fivestar.cli.terminal import err, out, warn

EXAMPLE = "Example: fivestar graph split my_graph.tsv --valid 0.05 --test 0.05 --out my_graph"


@reads_a_source
def graph_split(
    source: Source = None,
    *,
    to: Annotated[Path, typer.Option("--out", help="The new folder for train, valid and test.")],
    valid: Annotated[float, typer.Option(help="Share of all triples for validation.")] = 0.05,
    test: Annotated[float, typer.Option(help="Share of all triples for the test.")] = 0.05,
    seed: Annotated[int, typer.Option(help="The same seed gives the same split.")] = 0,
    pairs: Annotated[
        Literal["together", "free"],
        typer.Option(
            help="Keep all facts between the same two entities in one split, so that none is given "
            "away by its mirror image in train; or let each go its own way."
        ),
    ] = "together",
    reading: Reading,
) -> None:
    """Cut all facts of a graph anew; every held-out entity and relation stands in train too."""
    graph = read_source(source, reading)
    from fivestar.graph.splitting import split_graph  # noqa: PLC0415  (slow to import)
    from fivestar.graph.writing import write_graph  # noqa: PLC0415

    for message in graph.report.warnings:
        warn(message, err)
    parts = split_graph(graph, valid=valid, test=test, seed=seed, pairs=pairs)
    write_graph(parts, to)
    facts = len(graph.facts)
    counts = ", ".join(f"{len(part):,} {name}" for name, part in parts.splits.items())
    out.print(f"{facts:,} distinct triples → {counts} in {to}", markup=False, soft_wrap=True)
    for name, share in (("valid", valid), ("test", test)):
        short = round(share * facts) - len(parts.split(name))
        if short > 0:
            warn(f"{name} is {short:,} triples short: no more could leave train", err)
