"""`fivestar convert`: a trained model as another that gives the same scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from fivestar.cli.terminal import out as screen
from fivestar.cli.terminal import ranking_progress

EXAMPLE = "Example: fivestar convert my_complex_run my_fivestar_run --to fivestar"


def convert(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out: Annotated[Path, typer.Argument(help="The new folder.")],
    *,
    to: Annotated[Literal["fivestar"], typer.Option(help="What it becomes.")] = "fivestar",
    score: Annotated[
        Literal["inner", "distance"] | None,
        typer.Option(
            help="Insist on this score of the 5★E. (default: the one that the model needs)",
            show_default=False,
        ),
    ] = None,
    denominator: Annotated[
        Literal["mobius", "phase", "none"],
        typer.Option(help="The form of the 5★E; all of them agree until it is trained further."),
    ] = "mobius",
) -> None:
    """Turn a trained DistMult, ComplEx, pRotatE (l2), RotatE or TransE into a 5★E run.

    Its scores are the same; fivestar train --from OUT trains it further.
    """
    from fivestar.evaluation.report import evaluate  # noqa: PLC0415  (slow to import)
    from fivestar.runs.conversion import to_fivestar  # noqa: PLC0415
    from fivestar.runs.run import load_run  # noqa: PLC0415

    before = load_run(run)
    after = to_fivestar(before, score, denominator)
    figures = {}
    if len(after.graph.valid):
        for name, each in (("before", before), ("after", after)):
            with ranking_progress() as progress:
                ranked = evaluate(each.model, each.graph, each.graph.valid, progress=progress)
            figures[name] = ranked.figures()
        after.metrics.setdefault("valid", figures["after"])
    after.save(out)
    _show(figures, after.metrics, out)


def _show(figures: dict[str, dict[str, Any]], metrics: dict[str, Any], folder: Path) -> None:
    if figures:
        keys = ("mrr", "hits@1", "hits@3", "hits@10")
        table = Table("validation", *keys)
        for name, values in figures.items():
            table.add_row(name, *(f"{values[key]:.4f}" for key in keys))
        screen.print(table)
    scale, shift = metrics["score_scale"], metrics["score_shift"]
    same = "the same scores" if (scale, shift) == (1, 0) else f"scores {scale:g} s + {shift:g}"
    screen.print(f"a 5★E with {same}; saved in {folder}", markup=False, soft_wrap=True)
