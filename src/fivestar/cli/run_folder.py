"""The default folder of a run: runs/GRAPH-MODEL-DATE."""

from __future__ import annotations

import re
from datetime import date
from itertools import count
from pathlib import Path

_LONGEST = 80


def new_run_folder(graph: str, model: str, day: date, parent: Path = Path("runs")) -> Path:
    """Return a folder that does not exist yet, named after graph, model and day.

    Characters that a shell or a file system may object to become dashes.

    >>> new_run_folder("my graph/v1", "complex", date(2026, 11, 17), Path("/nowhere")).as_posix()
    '/nowhere/my-graph-v1-complex-2026-11-17'
    """
    name = f"{_safe(graph) or 'graph'}-{_safe(model)}-{day.isoformat()}"
    numbered = (parent / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(folder for folder in numbered if not folder.exists())


def _safe(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)[:_LONGEST].strip("-._")
