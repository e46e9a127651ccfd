"""The notebooks run, and print what is stored in them.

With UPDATE_DOCS=1 their outputs are stored. A cell with the tag `varies` is run, but what it prints
depends on the machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from scripts.run_docs import matches

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def printed(cell):
    """Return the text of a cell's outputs."""
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.get("outputs", [])
        if "image/png" not in output.get("data", {})
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:RuntimeWarning")
def test_a_notebook_prints_what_it_stores(path):
    stored = nbformat.read(path, as_version=4)
    executed = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(path.parent)}}
    NotebookClient(executed, timeout=300, kernel_name="python3", resources=place).execute()
    if os.environ.get("UPDATE_DOCS"):
        executed.metadata.pop("language_info", None)
        for cell in executed.cells:
            cell.metadata.pop("execution", None)
        nbformat.write(executed, path)
        return
    for old, new in zip(stored.cells, executed.cells, strict=True):
        if old.cell_type == "code" and "varies" not in old.metadata.get("tags", []):
            assert matches(printed(old).splitlines(), printed(new), 0.1), old.source


def test_there_are_notebooks_to_run():
    assert {path.stem for path in NOTEBOOKS} == {"geometry", "tour"}
