"""The common style of all plots; colors are distinguishable in grayscale as well."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from fivestar.errors import OutputError
from fivestar.extras import require
from fivestar.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ComplexPoints = npt.NDArray[np.complex128]
P = ParamSpec("P")
T = TypeVar("T")

FORMATS = (".png", ".svg", ".pdf")
# Perceptually uniform, so that it works in grayscale too.
COLORMAP = "viridis"
# The same for angles, whose ends meet.
CYCLIC_COLORMAP = "twilight"
# A palette for color-blind readers, from dark to light; each color has a marker.
COLORS = ("#0b3c5d", "#d1495b", "#2e933c", "#8d6a9f", "#e0a100", "#7fb7d6")
MARKERS = ("o", "^", "s", "D", "v", "P")
GRAY = "#b8bec6"
_DPI = 150
# All points are shown if that enlarges the view by at most this factor.
_MAX_ENLARGEMENT = 1.6
_MAX_TICK_STEPS = 4

_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "axes.edgecolor": "#666666",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.color": "#666666",
    "ytick.color": "#666666",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "fivestar",  # the same figure has the same bytes
}


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Decorate a plot function to use this style, without changing the user's."""

    @wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        matplotlib = require("matplotlib", "plots", "a plot")
        with matplotlib.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return wrapper


def panels(
    rows: int, columns: int, width: float = 2.3, height: float | Sequence[float] = 2.3
) -> tuple[Figure, npt.NDArray[Any]]:
    """Return a figure and its axes (rows, columns).

    Args:
        rows: the number of rows.
        columns: the number of columns.
        width: the width of a panel in inches.
        height: the height of a panel in inches, or one per row.

    Raises:
        MissingExtra: if matplotlib is not installed.
    """
    figure_module = require("matplotlib.figure", "plots", "a plot")
    heights = [height] * rows if isinstance(height, float | int) else list(height)
    size = (width * columns, sum(heights))
    # Use the resolution of the saved file: the layout of text depends on it.
    figure = figure_module.Figure(figsize=size, dpi=_DPI, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    return figure, figure.subplots(rows, columns, squeeze=False, height_ratios=heights)


def set_view(axes: Axes, points: Iterable[ComplexPoints], spread: float = 0.02) -> None:
    """Set equal axes that show nearly all points.

    Images of points near the pole of a map can be anywhere. Points outside of the view are counted
    in a corner.

    Args:
        axes: the axes to set.
        points: arrays of complex numbers.
        spread: the quantile on each side that may be outside.
    """
    z = np.concatenate([np.ravel(each) for each in points])
    finite = z[np.isfinite(z)]
    both = np.stack([finite.real, finite.imag])
    low, high = np.quantile(both, [spread, 1 - spread], axis=1)
    center, half = (low + high) / 2, float((high - low).max()) / 2 * 1.25 or 1.0
    farthest = float(np.abs(both - center[:, None]).max()) * 1.05
    half = farthest if farthest < _MAX_ENLARGEMENT * half else half
    axes.set_xlim(center[0] - half, center[0] + half)
    axes.set_ylim(center[1] - half, center[1] + half)
    axes.set_aspect("equal")
    set_few_ticks(axes)
    outside = len(z) - int((np.abs(both - center[:, None]) <= half).all(axis=0).sum())
    if outside:
        axes.text(
            0.98, 0.02, f"{outside} outside", transform=axes.transAxes, ha="right", fontsize=6
        )


def set_few_ticks(axes: Axes) -> None:
    """Place so few ticks that their labels cannot overlap, however many digits they have."""
    axes.locator_params(nbins=_MAX_TICK_STEPS, steps=[1, 2, 5, 10])


def hide_axes(axes: Axes) -> None:
    """Show only the content, with equal axes."""
    axes.set_axis_off()
    axes.set_aspect("equal")


def check_figure_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a figure that can be written; check it before a slow plot.

    Raises:
        OutputError: if the file extension is not one of `FORMATS`, or the folder does not exist.
    """
    file = Path(path)
    if file.suffix.lower() not in FORMATS:
        raise OutputError(f"{file}: a figure must be one of {', '.join(FORMATS)}; rename it")
    if not file.parent.is_dir():
        raise OutputError(f"{file}: there is no folder {file.parent}; make it first")
    return file


@styled
def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format of its file extension.

    Raises:
        OutputError: if it cannot be written.
    """
    file = check_figure_path(path)
    buffer = io.BytesIO()
    file_format = file.suffix.lower()[1:]
    # No date, so that the same figure has the same bytes.
    date_fields = {"svg": "Date", "pdf": "CreationDate"}
    metadata = {date_fields[file_format]: None} if file_format in date_fields else None
    figure.savefig(buffer, format=file_format, dpi=_DPI, metadata=metadata)
    write_atomic(file, buffer.getvalue())
