"""`fivestar graph split`: split a graph into train, valid and test without leakage."""

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
    to: Annotated[Path, typer.Option("--out", help="New folder for train, valid and test.")],
    valid: Annotated[float, typer.Option(help="Share of the triples for valid.")] = 0.05,
    test: Annotated[float, typer.Option(help="Share of the triples for test.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    pairs: Annotated[
        Literal["together", "free"],
        typer.Option(
            help="Keep all facts between the same two entities in one split, so that inverse "
            "relations cannot leak, or split facts independently."
        ),
    ] = "together",
    reading: Reading,
) -> None:
    """Split a graph; every held-out entity and relation also occurs in train."""
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
