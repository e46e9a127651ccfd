"""Files of formats from outside are read by registered functions."""

from __future__ import annotations

import pytest

import fivestar
from fivestar.errors import BadSource, RegistrationError
from fivestar.graph.readers.registered import FILE_READERS


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    monkeypatch.setattr(FILE_READERS, "_registered", {})


def read_pipes(path):
    return [line.split("|") for line in path.read_text().splitlines()]


def test_a_registered_function_reads_files_and_splits(tmp_path):
    fivestar.register_reader("pipes")(read_pipes)
    for name in ("one", "train", "test"):
        (tmp_path / f"{name}.pipes").write_text("a|likes|b\nb|likes|c\n")
    graph = fivestar.read_graph(tmp_path / "one.pipes")
    assert (graph.name, list(graph.entities), len(graph.train)) == ("one", ["a", "b", "c"], 2)
    (tmp_path / "one.pipes").unlink()
    assert len(fivestar.read_graph(tmp_path).test) == 2


def test_a_function_that_fails_is_named_with_the_file(tmp_path):
    fivestar.register_reader("pipes", lambda path: 1 / 0)
    (tmp_path / "x.pipes").write_text("")
    with pytest.raises(BadSource, match=r"x\.pipes: .*failed \(ZeroDivisionError"):
        fivestar.read_graph(tmp_path / "x.pipes")
    fivestar.register_reader("paths", lambda path: path)
    (tmp_path / "x.paths").write_text("")
    with pytest.raises(BadSource, match="returned a path, not triples"):
        fivestar.read_graph(tmp_path / "x.paths")


def test_bad_registrations():
    with pytest.raises(RegistrationError, match=r"\.csv have a built-in reader"):
        fivestar.register_reader("csv", read_pipes)
    with pytest.raises(RegistrationError, match="must be a function of a path"):
        fivestar.register_reader("pipes", "read_pipes")
