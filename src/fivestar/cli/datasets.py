"""`fivestar datasets`: the published graphs that can be had by name."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Column, Table

from fivestar.cli.terminal import out, reading_progress
from fivestar.errors import SourceNotFound
from fivestar.spelling import closest_names

app = typer.Typer(
    help="List the published graphs, or fetch some of them.",
    epilog="Example: fivestar datasets",
    invoke_without_command=True,
)


@app.callback()
def listed(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """List the published graphs that can be had by name, and which are here."""
    if context.invoked_subcommand is not None:
        return
    from fivestar.graph.catalog import data_folder  # noqa: PLC0415  (slow to import)
    from fivestar.graph.datasets.entries import datasets  # noqa: PLC0415

    folder = data_folder()
    here = {name: (folder / name).is_dir() for name in datasets()}
    if as_json:
        found = [entry.as_json() | {"here": here[name]} for name, entry in datasets().items()]
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    table = Table(
        Column("name", no_wrap=True),
        "entities",
        "relations",
        "train / valid / test",
        "what it is",
        "here",
        box=SIMPLE,
    )
    for name, entry in datasets().items():
        counts = " / ".join(f"{split.lines:,}" for split in entry.splits.values())
        numbers = f"{entry.entities:,}", f"{entry.relations:,}", counts
        table.add_row(name, *numbers, entry.title, "yes" if here[name] else "")
    out.print(table)
    out.print(
        f"Their folder: {folder}. Any command takes them by name and fetches what is not here.",
        markup=False,
        soft_wrap=True,
    )


@app.command("get", epilog="Example: fivestar datasets get wn18rr nell-995-h100")
def get(
    names: Annotated[
        list[str] | None, typer.Argument(help="Their names.", show_default=False)
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    mirror: Annotated[
        str | None,
        typer.Option(
            help="An address with a folder for each of them, asked first.", show_default=False
        ),
    ] = None,
) -> None:
    """Fetch published graphs, and check every byte; those that are here are checked anew."""
    from fivestar.graph.catalog import data_folder  # noqa: PLC0415  (slow to import)
    from fivestar.graph.datasets.entries import datasets, find_dataset  # noqa: PLC0415
    from fivestar.graph.datasets.fetching import check, fetch  # noqa: PLC0415

    wanted = list(datasets()) if every else names or []
    if not wanted:
        raise SourceNotFound(f"name some of {', '.join(datasets())}, or take --all")
    chosen = []
    for name in wanted:
        if (found := find_dataset(name)) is None:
            near = closest_names(name, datasets())
            hint = f"did you mean {' or '.join(near)}?" if near else ", ".join(datasets())
            raise SourceNotFound(f"no published graph {name!r}; {hint}")
        chosen.append(found)
    for dataset in chosen:
        with reading_progress() as progress:
            place = fetch(dataset, data_folder(), mirror, progress)
        check(dataset, place)
        out.print(f"{dataset.name}: as published, in {place}", markup=False, soft_wrap=True)
        out.print(f"  licence: {dataset.licence}", markup=False, soft_wrap=True)
        out.print(f"  cite: {dataset.citation}", markup=False, soft_wrap=True)
