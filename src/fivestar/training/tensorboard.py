"""Write the history of a run for TensorBoard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fivestar.extras import require

FOLDER = "tensorboard"


def tensorboard_writer(run: Path) -> Callable[[dict[str, Any]], None]:
    """Return a callback that writes each epoch into the folder of a run."""
    require("tensorboard", "tensorboard", "its history")
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (torch's side of it)

    writer = None

    def write(line: dict[str, Any]) -> None:
        nonlocal writer
        # Created late: the folder of the run does not exist before training starts.
        writer = writer or SummaryWriter(run / FOLDER)
        prefix = "refit/" if line.get("refit") else ""
        for name, value in line.items():
            if name not in ("epoch", "refit"):
                writer.add_scalar(prefix + name, value, line["epoch"])
        writer.flush()

    return write
