"""`fivestar reproduce figure-…`: the paper's pictures of trained models, from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fivestar.cli import reproduce_tables as tables
from fivestar.cli.terminal import out as screen

# As in experiments/figures.py, which is slow to import; a test holds them together.
FIGURES = {
    "figure-grid": "Draw a grid moved by four relations of WN18.",
    "figure-flow-hypernym": "Draw the flows of hypernym and hyponym of WN18.",
    "figure-flow-has-part": "Draw the flows of has part and part of of WN18.",
    "figure-entities-hypernym": "Draw heads, moved heads and tails of hypernym of WN18.",
    "figure-entities-derivationally": "Draw the same of derivationally related form.",
    "figure-epochs": "Draw a grid moved by has part of WN18, by epoch.",
    "figure-shapes": "Draw lines and circles of NELL-995-h100, and what relations make of them.",
    "figure-clusters": "Draw entities of FB15k-237 of six types, placed by three models.",
}


def add_figure(app: typer.Typer, name: str, explained: str) -> None:
    """The command of a picture of trained models; all of them take the same options."""

    def command(
        *,
        minutes: tables.Minutes = 0,
        dim: Annotated[
            int | None,
            typer.Option(help="Another dimension than ours.", min=1, show_default=False),
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
        folders = train_all(jobs, runs, read_graph, WatchedJobs(), minutes)
        if folders is None:
            say("the time is over: the same command goes on")
            return
        save_figure(figure.draw(folders), out)
        screen.print(f"saved {out}", markup=False, soft_wrap=True)

    command.__doc__ = f"{explained}\n\n    The models are trained first, resumably."
    app.command(name, epilog=f"Example: fivestar reproduce {name} --out {name}.png")(command)
