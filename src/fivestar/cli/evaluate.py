"""`fivestar evaluate`: rank the held-out triples of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from fivestar.cli.terminal import out

EXAMPLE = "Example: fivestar evaluate my_run --split test --by relation"
_SHOWN = ("mrr", "hits@1", "hits@3", "hits@10", "mr", "count")


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    *,
    split: Annotated[
        Literal["train", "valid", "test"], typer.Option(help="Which triples to rank.")
    ] = "test",
    by: Annotated[
        Literal["relation", "category", "seen"] | None,
        typer.Option(
            help="Also apart: each relation, each kind (1-1, 1-N …), seen and unseen entities.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Rank heads and tails of a split among all entities, other known answers left out."""
    from fivestar.errors import SettingsError  # noqa: PLC0415
    from fivestar.evaluation import report  # noqa: PLC0415  (slow to import)
    from fivestar.runs.run import load_run  # noqa: PLC0415

    loaded = load_run(run)
    triples = loaded.graph.split(split)
    if not len(triples):
        raise SettingsError(f"{run}: its graph has no {split} triples")
    found = report.evaluate(loaded.model, loaded.graph, triples)
    figures = found.figures()
    if by is not None:
        groups = report.groups_of(loaded.graph, triples, by)
        figures[f"by_{by}"] = {name: found.of(rows) for name, rows in groups.items()}
    if as_json:
        typer.echo(json.dumps(figures, indent=2, ensure_ascii=False))
    else:
        _show(figures, by)


def _show(figures: dict[str, Any], by: str | None) -> None:
    table = Table("", *_SHOWN)
    rows = {"both sides": figures, "heads": figures["heads"], "tails": figures["tails"]}
    rows |= figures.get(f"by_{by}", {})
    for name, values in rows.items():
        if values:
            cells = (f"{values[key]:,.4g}" if key == "mr" else values[key] for key in _SHOWN)
            table.add_row(Text(name), *(c if isinstance(c, str) else _number(c) for c in cells))
    out.print(table)
    low, high = figures["mrr_95"]
    out.print(
        f"MRR {figures['mrr']:.4f} (95 % interval {low:.4f} to {high:.4f}); ties: "
        f"{figures['mrr_optimistic']:.4f} if won, {figures['mrr_pessimistic']:.4f} if lost; "
        f"adjusted mean rank index {figures['amri']:.4f}"
    )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
