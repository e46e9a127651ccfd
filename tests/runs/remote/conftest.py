from __future__ import annotations

import pytest
from tests.graphs import people_graph

import fivestar


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Two small runs, the second with a snapshot: they are not changed."""
    folder = tmp_path_factory.mktemp("remote")
    options = {"dim": 4, "threads": 1, "epochs": 2, "model": "complex"}
    fivestar.train(people_graph(), out=folder / "one", seed=1, **options)
    fivestar.train(people_graph(), out=folder / "two", seed=2, snapshot_epochs=[1], **options)
    return folder / "one", folder / "two"


@pytest.fixture
def run(runs):
    return runs[0]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and the network allowed."""
    monkeypatch.setenv("FIVESTAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FIVESTAR_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return tmp_path / "cache"
