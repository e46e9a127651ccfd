"""A model of another package, installed in a venv, works with the command alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import httpx
import pytest
from tests.graphs import people_graph
from tests.server.serving import started

import fivestar

PACKAGE = Path(__file__).with_name("outside_package")
DOCS = Path(__file__).parents[2] / "docs" / "add-a-model.md"
COMMAND = "from fivestar.cli.main import main; main()"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a venv with fivestar, its dependencies, and the package."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    here = Path(fivestar.__file__).parents[1]
    (site / "outer.pth").write_text(f"{here}\n{sysconfig.get_path('purelib')}\n")
    source = shutil.copytree(PACKAGE, folder / "package")  # a build leaves files behind
    executable = str(folder / "bin" / "python")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    pip = [sys.executable, "-m", "pip", "--python", executable, "install", *options, source]
    subprocess.run(pip, check=True, env=clean_environment())
    return executable


def clean_environment():
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def run(python, folder, *words):
    command = [python, "-c", COMMAND, *map(str, words)]
    return subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False
    )


def test_train_save_load_ask_and_serve_with_the_command_alone(python, tmp_path, monkeypatch):
    fivestar.write_graph(people_graph(), tmp_path / "people")
    shown = run(python, tmp_path, "models", "pairre").stdout
    assert "From the package fivestar-pairre 0.1.0" in shown
    assert "--radius FLOAT  Length of a head. (default: 5.0)" in shown
    flags = ["--model", "pairre", "--radius", "2", "--dim", "8", "--epochs", "20", "--threads", "1"]
    trained = run(python, tmp_path, "train", "people", *flags, "--out", "run")
    assert trained.returncode == 0, trained.stderr
    assert (
        'name = "pairre"\ndim = 8\nradius = 2.0\n' in (tmp_path / "run/settings.toml").read_text()
    )
    asked = run(python, tmp_path, "ask", "run", "p3", "lives_in", "_", "--top", "1")
    assert re.search(r"1 │ c\d", asked.stdout), asked.stdout + asked.stderr
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with started(str(tmp_path / "run"), python=python) as (_, address):
        body = {"head": "p3", "relation": "lives_in", "top": 2}
        answers = httpx.post(f"{address}/api/predict/tails", json=body, timeout=60).json()
        assert len(answers["answers"]) == 2


def test_a_wrong_value_of_its_option_is_refused(python, tmp_path):
    refused = run(python, tmp_path, "train", "--model", "pairre", "--radius", "-1")
    assert refused.returncode == 1
    assert "options of PairRE: radius: Input should be greater than 0 (not -1.0)" in refused.stderr


def test_the_guide_shows_the_package_that_is_tested():
    text = DOCS.read_text()
    code = (PACKAGE / "fivestar_pairre.py").read_text()
    assert len(code.splitlines()) <= 30
    assert code in text
    assert (PACKAGE / "pyproject.toml").read_text() in text
