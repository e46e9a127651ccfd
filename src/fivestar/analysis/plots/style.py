"""How all pictures look: one type, few colours, told apart in black and white as well."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
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

Points = npt.NDArray[np.complex128]
P = ParamSpec("P")
T = TypeVar("T")

FORMATS = (".png", ".svg", ".pdf")
# Grows lighter from end to end, so that it reads as a scale of grey too.
SCALE = "viridis"
# Colours that the colour-blind tell apart, from dark to light, each with a mark of its own.
INK = ("#0b3c5d", "#d1495b", "#2e933c", "#8d6a9f", "#e0a100", "#7fb7d6")
MARKS = ("o", "^", "s", "D", "v", "P")
FAINT = "#b8bec6"
_DPI = 150
# All points are shown if that makes a picture no larger than by this.
_ROOM = 1.6

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
    "svg.hashsalt": "fivestar",  # the same picture has the same bytes
}


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw in our style, and leave that of the user as it was."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        matplotlib = require("matplotlib", "plots", "a plot")
        with matplotlib.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return inside


def panels(
    rows: int, columns: int, width: float = 2.3, height: float = 2.3
) -> tuple[Figure, npt.NDArray[Any]]:
    """A figure with rows and columns of axes, each of a size in inches."""
    figure_of = require("matplotlib.figure", "plots", "a plot")
    size = (width * columns, height * rows)
    # Laid out for the resolution it is saved with: another one would move the words about.
    figure = figure_of.Figure(figsize=size, dpi=_DPI, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    return figure, figure.subplots(rows, columns, squeeze=False)


def frame(axes: Axes, points: Iterable[Points], spread: float = 0.02) -> None:
    """Show where nearly all points are, with equal axes.

    A point near the pole of a map may lie anywhere; such are left out, and how many is said.
    """
    z = np.concatenate([np.ravel(some) for some in points])
    finite = z[np.isfinite(z)]
    both = np.stack([finite.real, finite.imag])
    low, high = np.quantile(both, [spread, 1 - spread], axis=1)
    middle, half = (low + high) / 2, float((high - low).max()) / 2 * 1.25 or 1.0
    farthest = float(np.abs(both - middle[:, None]).max()) * 1.05
    half = farthest if farthest < _ROOM * half else half
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_aspect("equal")
    outside = len(z) - int((np.abs(both - middle[:, None]) <= half).all(axis=0).sum())
    if outside:
        axes.text(
            0.98, 0.02, f"{outside} outside", transform=axes.transAxes, ha="right", fontsize=6
        )


def plain(axes: Axes) -> None:
    """Only what is drawn: no axes."""
    axes.set_axis_off()
    axes.set_aspect("equal")


def check_name(path: str | os.PathLike[str]) -> Path:
    """Where a picture can be written: before it is drawn, which may take minutes."""
    place = Path(path)
    if place.suffix.lower() not in FORMATS:
        raise OutputError(f"{place}: a picture is one of {', '.join(FORMATS)}; name it so")
    if not place.parent.is_dir():
        raise OutputError(f"{place}: there is no folder {place.parent}; make it first")
    return place


@styled
def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a picture; its suffix says in which format."""
    place = check_name(path)
    buffer = io.BytesIO()
    kind = place.suffix.lower()[1:]
    # No date inside: the same picture has the same bytes.
    dated = {"svg": "Date", "pdf": "CreationDate"}
    metadata = {dated[kind]: None} if kind in dated else None
    figure.savefig(buffer, format=kind, dpi=_DPI, metadata=metadata)
    write_atomic(place, buffer.getvalue())
