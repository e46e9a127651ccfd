"""The paper's figures of trained models, trained and plotted, on small graphs."""

from __future__ import annotations

import pytest
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.cli.reproduce_figures import FIGURES as COMMANDS
from fivestar.errors import OutputError, SettingsError
from fivestar.experiments.figures import FIGURES, TYPES
from fivestar.files import file_lock
from fivestar.graph.writing import write_graph

RELATIONS = ("_has_part", "_part_of", "_hypernym", "_hyponym", "_derivationally_related_form")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def place(tmp_path, monkeypatch):
    facts = [
        (f"e{i}", r, f"e{(i * 7 + n) % 60}") for i in range(60) for n, r in enumerate(RELATIONS)
    ]
    graph = fivestar.split_graph(fivestar.read_graph(facts), valid=0.05, test=0.05)
    write_graph(graph, tmp_path / "datasets" / "wn18")
    write_graph(people_graph(), tmp_path / "datasets" / "nell-995-h100")
    write_graph(people_graph(), tmp_path / "datasets" / "fb15k-237")
    types = [f"p{i}\t{TYPES[i % len(TYPES)]}\n" for i in range(60)]
    (tmp_path / "datasets" / "fb15k-237" / "entity_types.tsv").write_text("".join(types))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_are_the_figures():
    assert list(COMMANDS) == list(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_each_is_trained_and_plotted(place, name):
    result = run("reproduce", name, "--dim", 4, "--threads", 1, "--out", "a.svg", "--runs", "my")
    assert result.exit_code == 0, result.output
    assert "run 1 of" in result.stderr
    assert b"<svg" in (place / "a.svg").read_bytes()
    folders = [path for path in (place / "my").glob("*/*") if path.is_dir()]
    assert len(folders) == len(FIGURES[name].models)
    assert all("-d4-" in folder.name for folder in folders)
    again = run("reproduce", name, "--dim", 4, "--threads", 1, "--out", "b.svg", "--runs", "my")
    assert "run 1 of" not in again.stderr
    assert (place / "b.svg").is_file()


def test_it_can_be_stopped_and_is_not_trained_twice_at_once(place):
    command = ["reproduce", "figure-grid", "--dim", 4, "--out", "a.svg"]
    stopped = run(*command, "--minutes", 1e-9)
    assert "run the same command again" in stopped.stderr
    assert not (place / "a.svg").exists()
    (folder,) = (path for path in (place / "runs" / "wn18").iterdir() if path.is_dir())
    with file_lock(folder.with_name(f".{folder.name}.lock")):
        assert "another process" in str(run(*command).exception)
        assert isinstance(run(*command).exception, OutputError)
    assert run(*command).exit_code == 0
    assert (place / "a.svg").is_file()


def test_an_unknown_figure_format_is_refused_before_anything_is_trained(place):
    with pytest.raises((OutputError, SettingsError)):
        raise run("reproduce", "figure-grid", "--out", "a.bmp").exception
    assert not (place / "runs").exists()
