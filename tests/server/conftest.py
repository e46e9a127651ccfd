from __future__ import annotations

import httpx
import pytest
from tests.server.serving import serving

import fivestar
from fivestar.server.settings import ServerSettings


@pytest.fixture(scope="session")
def served_runs(tmp_path_factory):
    """A 5★E and a ComplEx of the demo graph."""
    place = tmp_path_factory.mktemp("served")
    graph = fivestar.read_graph()
    training = {"epochs": 8, "evaluate-every": 0}
    for name in ("fivestar", "complex"):
        settings = {"model": {"name": name, "dim": 16}, "training": training}
        fivestar.train(graph, settings, place / name)
    return [place / "fivestar", place / "complex"]


@pytest.fixture(scope="session")
def server(served_runs):
    """The address of a real server."""
    with serving(ServerSettings(runs=served_runs)) as address:
        yield address


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server, timeout=60) as opened:
        yield opened
