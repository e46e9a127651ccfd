from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# One deadline for all would test the machine, not the code.
settings.register_profile(
    "fivestar",
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # The judgement on a commit is the same each time; on a developer's machine each run tries more.
    derandomize="CI" in os.environ,
)
settings.load_profile("fivestar")


@cache
def published() -> Path:
    """Return the user's folder of data sets, before a test changes it."""
    # Coverage is measured from after the import of this file on.
    from fivestar.graph.datasets import data_folder  # noqa: PLC0415

    return data_folder()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if (published() / "wn18rr").is_dir():
        return
    skip = pytest.mark.skip(reason=f"no benchmark datasets in {published()}")
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _own_data_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only tests of the benchmark datasets see the user's folder of data sets."""
    folder = published() if request.node.get_closest_marker("data") else tmp_path / "datasets"
    monkeypatch.setenv("FIVESTAR_DATA", os.fspath(folder))
    monkeypatch.setenv("FIVESTAR_CACHE", os.fspath(tmp_path / "runs-cache"))
    # A test that fetches something says so.
    monkeypatch.setenv("FIVESTAR_OFFLINE", "1")
