"""`fivestar calibration`: how true the probabilities of answers are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from fivestar.cli.terminal import out as screen

EXAMPLE = "Example: fivestar calibration my_run --out reliability.png"


def calibration(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="Draw the reliability: a .png, .svg or .pdf.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Judge the probabilities of answers by the test facts.

    Of the ten best answers to each test question, known ones left out.
    """
    from fivestar.analysis.plots.reliability import reliability_diagram  # noqa: PLC0415  (slow)
    from fivestar.analysis.plots.style import check_name, save  # noqa: PLC0415
    from fivestar.errors import SettingsError  # noqa: PLC0415
    from fivestar.evaluation.calibration import calibration_report  # noqa: PLC0415
    from fivestar.prediction.predictor import Predictor  # noqa: PLC0415
    from fivestar.runs.run import load_run  # noqa: PLC0415

    if out is not None:
        check_name(out)
    predictor = Predictor(load_run(run))
    if predictor.calibration is None:
        raise SettingsError(f"{run} has no validation facts, so its answers have no probabilities")
    found = calibration_report(predictor.model, predictor.graph, predictor.calibration)
    if as_json:
        listed = {name: each.as_json() for name, each in found.items()}
        typer.echo(json.dumps({"method": predictor.calibration.method, **listed}, indent=1))
    else:
        table = Table("probability", "Brier score", "calibration error", box=SIMPLE)
        for name, each in found.items():
            table.add_row(name, f"{each.brier:.4f}", f"{each.calibration_error:.4f}")
        screen.print(table)
        screen.print(f"calibrated: {predictor.calibration.method}, learned on validation")
        table = Table("calibrated", "true", "of all answers", box=SIMPLE)
        for likely, true, share in found["calibrated"].bins:
            table.add_row(f"{likely:.1%}", f"{true:.1%}", f"{share:.1%}")
        screen.print(table)
    if out is not None:
        save(reliability_diagram(found), out)
        screen.print(f"drawn in {out}", markup=False, soft_wrap=True)
