"""`fivestar.train`, `search` and `evaluate`: sources, flat settings, progress."""

from __future__ import annotations

import inspect
import io
import subprocess
import sys

import pandas as pd
import pytest
from rich.console import Console

import fivestar
from fivestar import errors
from fivestar.errors import FivestarError, SettingsError
from fivestar.prediction.progress import TrainingProgress, shows_progress
from fivestar.prediction.train import merge_settings

FACTS = [(f"p{i}", "knows", f"p{(i * 7 + 3) % 30}") for i in range(30)]
FACTS += [(f"p{i}", "lives_in", f"c{i % 4}") for i in range(30)]


def test_sources(tmp_path):
    path = tmp_path / "graph.tsv"
    path.write_text("".join("\t".join(fact) + "\n" for fact in FACTS))
    frame = pd.DataFrame(FACTS, columns=["head", "relation", "tail"])
    for source in (FACTS, frame, path, str(path), fivestar.read_graph(FACTS)):
        model = fivestar.train(source, dim=4, epochs=1)
        assert len(model.graph.facts) == len(FACTS)
        assert model.settings.model.dim == 4
        assert model.metrics["epochs"] == 1


def test_flat_arguments_are_settings():
    model = fivestar.train(FACTS, model="complex", dim=4, epochs=2, batch_size=16, lr=0.05)
    nested = {
        "model": {"name": "complex", "dim": 4},
        "training": {"epochs": 2, "batch-size": 16, "lr": 0.05},
    }
    assert model.settings == fivestar.train(FACTS, nested).settings
    overridden = fivestar.train(FACTS, nested, epochs=1)
    assert overridden.settings.training.epochs == 1
    assert overridden.settings.training.batch_size == 16
    resolved = fivestar.make_settings(nested)
    assert fivestar.train(FACTS, resolved, epochs=1).settings == overridden.settings
    options = fivestar.train(FACTS, dim=4, epochs=1, denominator="phase").settings.model.options
    assert options["denominator"] == "phase"


def test_unknown_settings_are_refused():
    with pytest.raises(SettingsError, match="epoch"):
        fivestar.train(FACTS, dim=4, epoch=1)
    with pytest.raises(SettingsError, match="dim"):
        fivestar.train(FACTS, dim=0)


def test_settings_are_not_changed_by_options():
    given = {"training": {"epochs": 3}}
    assert merge_settings(given, {"epochs": 1}) == {"training": {"epochs": 1}}
    assert given == {"training": {"epochs": 3}}


def test_progress_is_shown_where_it_can_be_seen():
    assert not shows_progress(progress=None)  # not a terminal here
    assert shows_progress(progress=True)
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    calls = []
    with TrainingProgress(2, enabled=True, console=console) as shown:
        epoch, step, stage = shown.wrap(calls.append, calls.append, lambda *at: calls.append(at))
        step(0.5)
        epoch({"epoch": 1, "loss": 1.25, "valid_mrr": 0.5})
        stage("validation", 0, 3)
    assert "valid MRR 0.500" in text.getvalue()
    assert calls == [0.5, {"epoch": 1, "loss": 1.25, "valid_mrr": 0.5}, ("validation", 0, 3)]
    with TrainingProgress(2, enabled=False) as hidden:
        assert hidden.wrap(None, None, None) == (None, None, None)


def test_search_finds_settings(tmp_path):
    pytest.importorskip("optuna")
    graph = fivestar.split_graph(fivestar.read_graph(FACTS), valid=0.2, test=0.1)
    out = tmp_path / "best.toml"
    result = fivestar.search(graph, trials=2, dim=4, epochs=2, evaluate_every=1, out=out)
    assert len(result.trials) == 2
    assert result.settings.model.dim == 4
    assert out.exists()
    assert repr(result).startswith("SearchResult(2 trials, best validation MRR")
    assert result._repr_html_().startswith("<table>")
    assert fivestar.train(graph, result.settings, epochs=1).metrics["epochs"] == 1


def test_resume_continues(tmp_path):
    whole = fivestar.train(FACTS, dim=4, epochs=4, out=tmp_path / "whole")

    def pause(line):
        if line["epoch"] == 2:
            raise errors.Paused("enough")

    with pytest.raises(errors.Paused):
        fivestar.train(FACTS, dim=4, epochs=4, out=tmp_path / "run", on_epoch=pause)
    resumed = fivestar.resume(tmp_path / "run")
    assert resumed.metrics["valid"] == whole.metrics["valid"]


def test_every_error_is_exported_and_drawn():
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, (FivestarError, Warning))
    }
    assert set(errors.__all__) == defined
    for name in defined:
        assert f" {name} " in errors.__doc__ or f"{name}\n" in errors.__doc__, name


def test_python_m_fivestar():
    command = [sys.executable, "-m", "fivestar", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"fivestar {fivestar.__version__}\n"


def test_settings_are_in_the_signature():
    for function in (fivestar.train, fivestar.search):
        names = list(inspect.signature(function).parameters)
        assert {"model", "dim", "epochs", "lr", "batch_size"} <= set(names)
        assert len(names) == len(set(names))
