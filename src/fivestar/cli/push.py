"""`fivestar push`: publish a run on the Hugging Face Hub or in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import fivestar
from fivestar.cli.terminal import out

EXAMPLE = "Example: fivestar push my_run hf://my-name/my-model"


def push(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    address: Annotated[
        str,
        typer.Argument(
            help="hf://owner/name, hf://owner/name@branch, s3://bucket/path, gs://bucket/path or "
            "file:///path."
        ),
    ],
    *,
    private: Annotated[
        bool, typer.Option("--private", help="Create the repository of the Hub as a private one.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another run in an object store.")
    ] = False,
    card_license: Annotated[
        str | None,
        typer.Option(
            "--license",
            help="License to name in the model card, as the Hub writes it (cc-by-4.0, mit …).",
            show_default=False,
        ),
    ] = None,
    message: Annotated[
        str | None, typer.Option(help="Message of the commit on the Hub.", show_default=False)
    ] = None,
) -> None:
    """Publish a run on the Hugging Face Hub or in an object store."""
    existing = "replace" if force else "fail"
    done = fivestar.push(
        run,
        address,
        private=private,
        existing=existing,
        license=card_license,
        message=message,
    )
    from fivestar.runs.remote.cache import in_units  # noqa: PLC0415  (slow to import)

    what = f"{done.files} files, {in_units(done.bytes)}"
    commit = f" (commit {done.revision[:12]})" if done.revision else ""
    state = "pushed to" if done.is_new else "unchanged at"
    out.print(f"{what}, {state} {done.address}{commit}", markup=False, soft_wrap=True)
