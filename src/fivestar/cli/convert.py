"""`fivestar convert`: convert a trained model to 5★E with the same scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.tables import print_table
from fivestar.cli.terminal import out as screen
from fivestar.cli.terminal import ranking_progress

EXAMPLE = "Example: fivestar convert my_complex_run my_fivestar_run --to fivestar"


@with_local_runs
def convert(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(help="New folder to write to.")],
    *,
    to: Annotated[Literal["fivestar"], typer.Option(help="Target model.")] = "fivestar",
    score: Annotated[
        Literal["inner", "distance"] | None,
        typer.Option(
            help="Score function of the 5★E. (default: the one that fits the model)",
            show_default=False,
        ),
    ] = None,
    denominator: Annotated[
        Literal["mobius", "phase", "none"],
        typer.Option(help="Form of the 5★E; all forms agree until it is trained further."),
    ] = "mobius",
) -> None:
    """Convert a trained DistMult, ComplEx, pRotatE (l2), RotatE or TransE to 5★E.

    The scores stay the same. Continue training with fivestar train --from OUT.
    """
    before = fivestar.load(run)
    after = before.to_fivestar(score, denominator)
    validation: dict[str, dict[str, Any]] = {}
    if len(after.graph.valid):
        for name, each in (("before", before), ("after", after)):
            with ranking_progress() as progress:
                validation[name] = each.evaluate("valid", progress=progress)
        after.metrics.setdefault("valid", validation["after"])
    after.save(out)
    _show(validation, after.metrics, out)


def _show(validation: dict[str, dict[str, Any]], metrics: dict[str, Any], folder: Path) -> None:
    if validation:
        keys = ("mrr", "hits@1", "hits@3", "hits@10")
        rows = [
            (name, *(f"{values[key]:.4f}" for key in keys)) for name, values in validation.items()
        ]
        print_table(("validation", *keys), rows)
    scale, shift = metrics["score_scale"], metrics["score_shift"]
    same = "the same scores" if (scale, shift) == (1, 0) else f"scores {scale:g} s + {shift:g}"
    screen.print(f"5★E with {same}; saved {folder}", markup=False, soft_wrap=True)
