"""`fivestar ask`: a question with one open slot, answered by name."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from fivestar.cli.terminal import out
from fivestar.errors import SettingsError

if TYPE_CHECKING:
    from fivestar.prediction.predictor import Prediction
    from fivestar.runs.run import Run

EXAMPLE = "Example: fivestar ask my_run Paris capital_of _"
_OPEN = ("_", "?")


def ask(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    head: Annotated[str, typer.Argument(help="A name, or _ for what is asked.")],
    relation: Annotated[str, typer.Argument(help="A name, or _ for what is asked.")],
    tail: Annotated[str, typer.Argument(help="A name, or _ for what is asked.")],
    *,
    top: Annotated[int, typer.Option(help="How many answers.", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
) -> None:
    """Answer a question with one open slot, written _ (or a quoted ?), the likeliest first."""
    from fivestar.runs.run import load_run  # noqa: PLC0415  (slow to import)

    found = _answers(load_run(run), head, relation, tail, top)
    if as_json:
        typer.echo(json.dumps([asdict(answer) for answer in found], indent=2, ensure_ascii=False))
        return
    table = Table("", "answer", "score", "", title=Text(f"{head}  {relation}  {tail}"))
    table.title_justify = "left"
    for answer in found:
        shown = answer.name if answer.label == answer.name else f"{answer.label} ({answer.name})"
        mark = "known" if answer.known else "new"
        table.add_row(str(answer.rank), Text(shown), f"{answer.score:.3f}", mark)
    out.print(table)


def _answers(run: Run, head: str, relation: str, tail: str, top: int) -> list[Prediction]:
    from fivestar.prediction import predictor  # noqa: PLC0415

    match [slot in _OPEN for slot in (head, relation, tail)]:
        case [False, False, True]:
            return predictor.predict_tails(run, head, relation, top)
        case [True, False, False]:
            return predictor.predict_heads(run, relation, tail, top)
        case [False, True, False]:
            return predictor.predict_relations(run, head, tail, top)
    raise SettingsError("exactly one of head, relation and tail must be open: write it as _")
