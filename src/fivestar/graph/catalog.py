"""Where a graph is: a path on disk, a name in the folder of data sets, or the embedded graph."""

from __future__ import annotations

import os
from pathlib import Path

from fivestar.errors import SourceNotFound
from fivestar.graph.datasets.entries import datasets, find_dataset
from fivestar.graph.datasets.fetching import Progress, fetch
from fivestar.spelling import closest_names

DEMO_NAME = "demo"
DEMO_FOLDER = Path(__file__).with_name("demo")


def data_folder() -> Path:
    """The folder of data sets: `$FIVESTAR_DATA`, else `~/.cache/fivestar/datasets`."""
    given = os.environ.get("FIVESTAR_DATA")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "fivestar" / "datasets"


def locate(source: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """The path of a graph. A path on disk wins over the name of a data set.

    A published graph that is not here yet is fetched.
    """
    text = os.fspath(source)
    if "\0" in text or not text.strip():
        raise SourceNotFound(f"{text!r} is no path; give a file, a folder or the name of a graph")
    path = Path(text).expanduser()
    try:
        if path.exists():
            return path
        if path.name == text and (data_folder() / text).is_dir():
            return data_folder() / text
        if path.name == text and (published := find_dataset(text)) is not None:
            return fetch(published, data_folder(), progress=progress)
    except OSError as error:
        raise SourceNotFound(f"{text!r} cannot be looked up: {error.strerror}") from None
    if text == DEMO_NAME:
        return DEMO_FOLDER
    known = available()
    near = closest_names(text, known)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else _choices(known)
    raise SourceNotFound(f"no file, folder or graph named {text!r}; {hint}")


def available() -> list[str]:
    """The names of the graphs that are here or can be fetched."""
    folder = data_folder()
    found = (
        [path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
        if folder.is_dir()
        else []
    )
    return sorted({*found, *datasets(), DEMO_NAME})


def _choices(known: list[str]) -> str:
    names = ", ".join(known)
    return f"graphs by name: {names} (others are looked for in $FIVESTAR_DATA = {data_folder()})"
