"""`fivestar datasets`: list and download benchmark datasets."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fivestar.cli.tables import number_column, print_table, prose_column
from fivestar.cli.terminal import out, reading_progress
from fivestar.errors import SourceNotFound
from fivestar.spelling import closest_names

_VERIFIED = {
    "sha256": "",
    "md5": " (MD5)",
    "counts": " (by its counts and the checksums of the first download: none are published)",
}

app = typer.Typer(
    help="List or download benchmark datasets.",
    epilog="Example: fivestar datasets",
    invoke_without_command=True,
)


@app.callback()
def listed(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the benchmark datasets and whether they are downloaded."""
    if context.invoked_subcommand is not None:
        return
    from fivestar.graph.datasets import data_folder  # noqa: PLC0415  (slow to import)
    from fivestar.graph.datasets.catalog import load_catalog  # noqa: PLC0415

    folder = data_folder()
    here = {name: (folder / name).is_dir() for name in load_catalog()}
    if as_json:
        found = [
            entry.as_json() | {"here": here[name], "verified_by": entry.verification}
            for name, entry in load_catalog().items()
        ]
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    rows = []
    for name, entry in load_catalog().items():
        facts = f"{sum(split.lines for split in entry.splits.values()):,}"
        numbers = f"{entry.entities:,}", f"{entry.relations:,}", facts
        state = "yes" if here[name] else "no"
        rows.append((name, *numbers, state, entry.verification, entry.title))
    counts = map(number_column, ("entities", "relations", "facts"))
    states = ("downloaded", "verified by", prose_column("description"))
    print_table(("name", *counts, *states), rows)
    out.print(
        f"Folder: {folder}. Every command takes a dataset by name and downloads it if necessary.",
        markup=False,
        soft_wrap=True,
    )


@app.command("get", epilog="Example: fivestar datasets get wn18rr nell-995-h100")
def get(
    names: Annotated[
        list[str] | None, typer.Argument(help="Dataset names.", show_default=False)
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All datasets (about 6.5 GB).")] = False,
    mirror: Annotated[
        str | None,
        typer.Option(
            help="URL of a mirror with one folder per dataset, tried first.", show_default=False
        ),
    ] = None,
) -> None:
    """Download datasets and verify them; verify those already downloaded."""
    from fivestar.graph.datasets import data_folder  # noqa: PLC0415  (slow to import)
    from fivestar.graph.datasets.catalog import (  # noqa: PLC0415
        fetch,
        find_dataset,
        load_catalog,
        verify,
    )

    wanted = list(load_catalog()) if every else names or []
    if not wanted:
        raise SourceNotFound(f"pass one or more of {', '.join(load_catalog())}, or --all")
    chosen = []
    for name in wanted:
        if (found := find_dataset(name)) is None:
            near = closest_names(name, load_catalog())
            hint = f"did you mean {' or '.join(near)}?" if near else ", ".join(load_catalog())
            raise SourceNotFound(f"no dataset {name!r}; {hint}")
        chosen.append(found)
    for dataset in chosen:
        with reading_progress() as progress:
            place = fetch(dataset, data_folder(), mirror, progress)
        verify(dataset, place)
        how = _VERIFIED[dataset.verification]
        out.print(f"{dataset.name}: verified{how}, in {place}", markup=False, soft_wrap=True)
        out.print(f"  license: {dataset.license}", markup=False, soft_wrap=True)
        out.print(f"  cite: {dataset.citation}", markup=False, soft_wrap=True)
        if dataset.note:
            out.print(f"  note: {dataset.note}", markup=False, soft_wrap=True)
