"""The history of a run as TensorBoard shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fivestar.errors import SettingsError

FOLDER = "tensorboard"


def tensorboard_writer(run: Path) -> Callable[[dict[str, Any]], None]:
    """A callback for each epoch that writes into the run's folder."""
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise SettingsError(
            "TensorBoard is not installed; pip install 'fivestar-kge[tensorboard]'"
        ) from error
    writer = None

    def write(line: dict[str, Any]) -> None:
        nonlocal writer
        # Made late: the folder of the run does not exist before training begins.
        writer = writer or SummaryWriter(run / FOLDER)
        for name, value in line.items():
            if name != "epoch":
                writer.add_scalar(name, value, line["epoch"])
        writer.flush()

    return write
