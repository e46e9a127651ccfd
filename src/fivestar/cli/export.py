"""`fivestar export`: a trained run in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.terminal import out as screen
from fivestar.errors import SettingsError

EXAMPLE = "Example: fivestar export my_run --to parquet --out my_vectors"

Format = Literal[
    "parquet", "numpy", "word2vec", "projector", "vectors", "torch", "onnx", "huggingface"
]


@with_local_runs
def export(
    run: RunFolder,
    *,
    out: Annotated[Path, typer.Option(help="New folder to write to.", show_default=False)],
    to: Annotated[
        Format | None, typer.Option(help="Format (see above).", show_default=False)
    ] = None,
    hf: Annotated[bool, typer.Option("--hf", help="Short for --to huggingface.")] = False,
) -> None:
    """Export a trained run for other tools.

    parquet, numpy, word2vec, projector: entity and relation embeddings. vectors: an index for
    maximum inner product search. torch, onnx: a program that scores all tails of (head, relation).
    huggingface: a copy of the run, ready to upload.
    """
    from fivestar.prediction.export import export_huggingface  # noqa: PLC0415  (slow to import)

    wanted = _wanted(to, hf=hf)
    if wanted == "huggingface":
        export_huggingface(run, out)
    else:
        fivestar.load(run).export(wanted, out)
    files = ", ".join(sorted(path.name for path in out.iterdir()))
    screen.print(f"saved {out}: {files}", markup=False, soft_wrap=True)


def _wanted(to: Format | None, *, hf: bool) -> Format:
    if hf and to not in {None, "huggingface"}:
        raise SettingsError(f"--hf means --to huggingface: omit --hf or --to {to}")
    if not hf and to is None:
        raise SettingsError("choose a format: --to parquet, numpy, word2vec, projector, …")
    return to or "huggingface"
