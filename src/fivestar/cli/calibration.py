"""`fivestar calibration`: reliability of the predicted probabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.tables import print_table
from fivestar.cli.terminal import out as screen

EXAMPLE = "Example: fivestar calibration my_run --out reliability.png"


@with_local_runs
def calibration(
    run: RunFolder,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Plot a reliability diagram to this .png, .svg or .pdf file.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Evaluate how well predicted probabilities are calibrated on test.

    Over the ten best new answers to each test query.
    """
    from fivestar.analysis.plots.reliability import reliability_diagram  # noqa: PLC0415  (slow)
    from fivestar.analysis.plots.style import check_figure_path, save_figure  # noqa: PLC0415
    from fivestar.errors import SettingsError  # noqa: PLC0415

    if out is not None:
        check_figure_path(out)
    model = fivestar.load(run)
    if model.calibration is None:
        raise SettingsError(f"{run}: has no validation triples, so its scores are not calibrated")
    found = model.reliability()
    if as_json:
        listed = {name: each.as_json() for name, each in found.items()}
        typer.echo(json.dumps({"method": model.calibration.method, **listed}, indent=1))
    else:
        print_table(
            ("probability", "Brier score", "expected calibration error"),
            [
                (name, f"{each.brier:.4f}", f"{each.calibration_error:.4f}")
                for name, each in found.items()
            ],
        )
        screen.print(f"calibrated: {model.calibration.method}, fitted on validation")
        bins = [[f"{value:.1%}" for value in each] for each in found["calibrated"].bins]
        print_table(("mean probability", "fraction true", "share of answers"), bins)
    if out is not None:
        save_figure(reliability_diagram(found), out)
        screen.print(f"saved {out}", markup=False, soft_wrap=True)
