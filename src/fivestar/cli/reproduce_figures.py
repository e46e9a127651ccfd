"""`fivestar reproduce figure-…`: the paper's figures of trained models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fivestar.cli import reproduce_tables as tables
from fivestar.cli.terminal import out as screen
from fivestar.cli.terminal import resumable

# As in experiments/figures.py, which is slow to import; a test holds them together.
FIGURES = {
    "figure-grid": "Plot a grid and its image under four relations of WN18.",
    "figure-flow-hypernym": "Plot the flows of hypernym and hyponym of WN18.",
    "figure-flow-has-part": "Plot the flows of has-part and part-of of WN18.",
    "figure-entities-hypernym": "Plot heads, transformed heads and tails of hypernym of WN18.",
    "figure-entities-derivationally": "Plot the same for derivationally related form.",
    "figure-epochs": "Plot the image of a grid under has-part of WN18, by epoch.",
    "figure-shapes": "Plot lines and circles of NELL-995-h100 and their images under relations.",
    "figure-clusters": "Plot a map of FB15k-237 entities of six types in three models.",
}


def add_figure(app: typer.Typer, name: str, explained: str) -> None:
    """Add the command of a figure; all of them take the same options."""

    def command(
        *,
        minutes: tables.Minutes = 0,
        dim: Annotated[
            int | None,
            typer.Option(
                help="Embedding dimension. (default: as in the recipe)", min=1, show_default=False
            ),
        ] = None,
        threads: tables.Threads = 0,
        out: Annotated[
            Path, typer.Option(help="Output file: .png, .svg or .pdf.", show_default=False)
        ],
        runs: tables.Runs = Path("runs"),
    ) -> None:
        from fivestar.analysis.plots.style import check_figure_path, save_figure  # noqa: PLC0415  (slow)
        from fivestar.cli.long_work import WatchedJobs, say  # noqa: PLC0415
        from fivestar.experiments import figures  # noqa: PLC0415
        from fivestar.experiments.reproduction import train_all  # noqa: PLC0415
        from fivestar.graph.reading import read_graph  # noqa: PLC0415

        check_figure_path(out)
        figure = figures.FIGURES[name]
        model = {} if dim is None else {"dim": dim}
        jobs = figure.jobs({"model": model, "training": {"threads": threads}})
        with resumable(f"run the same command again to resume: its runs are in {runs}"):
            folders = train_all(jobs, runs, read_graph, WatchedJobs(), minutes)
        if folders is None:
            say("time is up; run the same command again to continue")
            return
        save_figure(figure.draw(folders), out)
        screen.print(f"saved {out}", markup=False, soft_wrap=True)

    command.__doc__ = f"{explained}\n\n    Trains the models first. Run again to resume."
    app.command(name, epilog=f"Example: fivestar reproduce {name} --out {name}.png")(command)
