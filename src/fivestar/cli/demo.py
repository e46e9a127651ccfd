"""`fivestar demo`: everything once, on the embedded graph, in well under two minutes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from fivestar.cli.ask import ask
from fivestar.cli.evaluate import evaluate
from fivestar.cli.terminal import out
from fivestar.cli.train import train

EXAMPLE = "Example: fivestar demo"
QUESTIONS = (
    ("Lyon", "in_country", "_"),
    ("_", "neighbour_of", "Germany"),
    ("Brazil", "has_time_zone", "_"),
)


def demo(
    *,
    epochs: Annotated[int, typer.Option(help="How long to train.", min=1)] = 100,
    keep: Annotated[
        Path | None,
        typer.Option("--out", help="Keep the run in this new folder.", show_default=False),
    ] = None,
) -> None:
    """Train 5★E on the embedded graph of countries and cities, test it, and ask it questions."""
    with TemporaryDirectory() as folder:
        run = keep or Path(folder) / "run"
        train(to=run, dim=100, epochs=epochs, reg=0.05, evaluate_every=20)
        out.print("\nTest triples, ranked among all entities:")
        evaluate(run)
        for head, relation, tail in QUESTIONS:
            ask(run, head, relation, tail, top=5)
    kept = "fivestar demo --out demo_run, then " if keep is None else ""
    name = keep or "demo_run"
    out.print(
        f"\nAsk more:  {kept}fivestar ask {name} Lyon in_country _", markup=False, soft_wrap=True
    )
