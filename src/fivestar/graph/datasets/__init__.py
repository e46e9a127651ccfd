"""Where a graph is: a path, a dataset by name, or the bundled demo graph."""

from __future__ import annotations

import os
from pathlib import Path

from fivestar.errors import SourceNotFound
from fivestar.graph.datasets.catalog import Progress, fetch, find_dataset, load_catalog
from fivestar.spelling import closest_names, did_you_mean

DEMO_NAME = "demo"
DEMO_FOLDER = Path(__file__).parents[1] / "demo"


def data_folder() -> Path:
    """Return the folder of datasets: `$FIVESTAR_DATA`, else in the user's cache folder."""
    if variable := os.environ.get("FIVESTAR_DATA"):
        return Path(variable).expanduser()
    from platformdirs import user_cache_path  # noqa: PLC0415  (30 ms to import)

    return user_cache_path("fivestar", appauthor=False) / "datasets"


def locate(source: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """Return the path of a graph, and download a dataset if necessary.

    Args:
        source: a path, or the name of a dataset. A path wins over a dataset of the same name.
        progress: called with (bytes done, bytes in total) during a download.

    Returns:
        A file or folder.

    Raises:
        SourceNotFound: if there is no such path or dataset.
        DownloadFailed: if the dataset cannot be downloaded.
    """
    text = os.fspath(source)
    if "\0" in text or not text.strip():
        raise SourceNotFound(f"{text!r} is not a path; pass a file, a folder or a dataset name")
    path = Path(text).expanduser()
    try:
        if path.exists():
            return path
        if path.name == text and (data_folder() / text).is_dir():
            return data_folder() / text
        if path.name == text and (dataset := find_dataset(text)) is not None:
            return fetch(dataset, data_folder(), progress=progress)
    except OSError as error:
        raise SourceNotFound(f"{text!r} cannot be looked up: {error.strerror}") from None
    if text == DEMO_NAME:
        return DEMO_FOLDER
    names = available_graphs()
    hint = did_you_mean(closest_names(text, names)) or (
        f"; datasets: {', '.join(names)} (others are looked up in $FIVESTAR_DATA = {data_folder()})"
    )
    raise SourceNotFound(f"no file, folder or dataset named {text!r}{hint}")


def available_graphs() -> list[str]:
    """Return the names of all datasets that are downloaded or can be, and of the demo graph."""
    folder = data_folder()
    downloaded = (
        [path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
        if folder.is_dir()
        else []
    )
    return sorted({*downloaded, *load_catalog(), DEMO_NAME})
