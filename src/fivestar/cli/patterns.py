"""`fivestar patterns`: which patterns of relations a 5★E has learned, and which the graph has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.table import Column, Table
from rich.text import Text

from fivestar.cli.terminal import out

if TYPE_CHECKING:
    from fivestar.analysis.patterns import LearnedPatterns

EXAMPLE = "Example: fivestar patterns my_run"


def patterns(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    *,
    top: Annotated[int, typer.Option(help="How many findings to show.", min=1)] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Tell which relations are symmetric, inverse, composed or reflexive to the model.

    Beside what the graph itself says of them.
    """
    from fivestar.analysis.patterns import learned_patterns  # noqa: PLC0415  (slow to import)
    from fivestar.runs.run import load_run  # noqa: PLC0415

    found = learned_patterns(load_run(run))
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=1, ensure_ascii=False))
        return
    _show(found, top)


def _show(found: LearnedPatterns, top: int) -> None:
    control = found.control
    out.print(
        f"Control: the way back of a relation is {control.own:.2f} from its own reciprocal, "
        f"{control.others:.2f} from those of others (medians; its own is nearer in "
        f"{control.auc:.1%} of all cases). Nearer than usual by {control.threshold:.2f} counts as "
        "learned.",
        markup=False,
    )
    table = Table(
        "pattern",
        Column("relations", overflow="fold"),
        "distance",
        "nearer by",
        "p",
        "learned",
        "true",
        box=SIMPLE,
    )
    told = [finding for finding in found.findings if finding.learned or finding.true]
    told.sort(key=lambda finding: (finding.p_value, finding.distance))
    for one in told[:top]:
        marks = ("yes" if one.learned else "no", "yes" if one.true else "no")
        separator = " then " if one.pattern == "composed" else ", "
        names = separator.join(one.relations[:2]) + "".join(f" = {x}" for x in one.relations[2:])
        nearer = "" if one.nearer is None else f"{one.nearer:.2f}"
        figures = f"{one.distance:.2f}", nearer, f"{one.p_value:.3f}"
        table.add_row(one.pattern, Text(names), *figures, *marks)
    out.print(table)
    if len(told) > top:
        out.print(f"… and {len(told) - top} more: --top or --json")
    table = Table("pattern", "learned", "true", "both", "precision", "recall", box=SIMPLE)
    for pattern, score in found.scores().items():
        shares = (
            "–" if score[key] is None else f"{score[key]:.2f}" for key in ("precision", "recall")
        )
        table.add_row(pattern, *(str(score[key]) for key in ("learned", "true", "both")), *shares)
    out.print(table)
    for note in found.untested:
        out.print(f"Not tested: {note}", markup=False)
