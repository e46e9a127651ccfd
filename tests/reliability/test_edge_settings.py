"""Every setting at its edges: refused with a clear error, or a run that every command can open."""

from __future__ import annotations

import math
import sys
import tomllib

import pytest
import torch
from tests.graphs import people_graph

import fivestar
from fivestar.errors import FivestarError
from fivestar.models.options import options_of
from fivestar.models.registry import MODELS
from fivestar.runs.settings import TrainingSettings

NUMBERS = [0, -0.0, 1, -1, 2, 1e-320, 1e-30, 0.5, 1e30, 1e308, 2**31 - 1, 2**31, 2**63, 10**400]
ODD = [math.inf, -math.inf, math.nan, True, "", "x", "0", "1e3", "nan", [], {}, [1], "\u0000", "ä"]
SIZES = ["0", "1", "1KiB", "-1GiB", "1e3MB", "9" * 400 + "GB", "2 GiB", "GiB"]
# A training with these would take forever, or more memory than there is: they are only constructed.
LARGE = 64
COUNTS = {"epochs", "num_negatives", "average", "threads", "batch_size", "dim", "num_candidates"}
BASE = {"epochs": 1, "batch_size": 60, "evaluate_every": 1, "threads": 1}


def edges(name):
    values = [*NUMBERS, *ODD]
    return [*values, *SIZES] if name == "memory" else values


CASES = [
    (section, name, value)
    for section, names in (
        ("training", list(TrainingSettings.model_fields)),
        ("model", ["dim", "name", *options_of(MODELS["fivestar"])]),
    )
    for name in names
    for value in edges(name)
]


@pytest.fixture(scope="module")
def graph():
    return people_graph()


def test_there_are_many_cases():
    assert len(CASES) > 400


@pytest.mark.parametrize("part", range(8))
def test_a_setting_at_its_edge_is_refused_or_works(part, graph, tmp_path):
    trained = refused = 0
    for number, (section, name, value) in enumerate(CASES[part::8]):
        values = {"model": {"dim": 2}, "training": dict(BASE)}
        values[section] = {**values[section], name: value}
        try:
            settings = fivestar.make_settings(values)
        except FivestarError as error:
            refused += bool(str(error))
            continue
        assert fivestar.make_settings(tomllib.loads(settings.as_toml())) == settings
        chosen = getattr(settings.training, name, getattr(settings.model, name, None))
        if name in COUNTS and isinstance(chosen, int) and chosen > LARGE:
            continue
        folder = tmp_path / str(number)
        try:
            fivestar.train(graph, settings, folder, progress=False)
        except FivestarError:
            continue
        model = fivestar.load(folder)
        assert all(bool(torch.isfinite(table).all()) for table in model.model.parameters())
        assert model.predict_tails("p1", "knows", top=2) is not None
        trained += 1
    assert trained
    assert refused


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "10000", "-1", "", "x", "0x10"])
@pytest.mark.parametrize(
    "flag", ["--lr", "--epochs", "--threads", "--reg-weight", "--dim", "--memory"]
)
def test_flags_at_their_edges_never_give_a_traceback(flag, value, tmp_path, monkeypatch, capsys):
    from fivestar.cli.main import main  # noqa: PLC0415

    large = {("--epochs", "10000"), ("--dim", "10000")}
    if (flag, value) in large:
        pytest.skip("valid, and takes long")
    words = ["train", "--dim", "2", "--epochs", "1", "--threads", "1", flag, value]
    monkeypatch.setattr(sys, "argv", ["fivestar", *words, "--out", str(tmp_path / "run")])
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    shown = capsys.readouterr()
    assert code in (0, 1, 2), shown.err
    if code:
        assert "Traceback" not in shown.err
        assert not (tmp_path / "run").exists()
