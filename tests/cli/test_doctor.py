from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fivestar import environment
from fivestar.cli.main import app

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def names(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def test_it_names_every_dependency_and_extra():
    assert set(environment.DEPENDENCIES) == names(PROJECT["dependencies"])
    extras = PROJECT["optional-dependencies"]
    runtime = set(extras) - {"all", "dev", "docs", "demo-data"}
    assert set(environment.EXTRAS) == runtime
    # uvloop is faster, not needed.
    modules = {
        "faiss-cpu": "faiss",
        "scikit-learn": "sklearn",
        "mlflow-skinny": "mlflow",
        "huggingface-hub": "huggingface_hub",
        "opentelemetry-api": "opentelemetry",
        "opentelemetry-sdk": "opentelemetry",
        "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    }
    for name in runtime:
        wanted = {modules.get(found, found) for found in names(extras[name])} - {"uvloop"}
        assert set(environment.EXTRAS[name].modules) == wanted


def test_all_brings_what_the_command_line_uses():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = set(re.findall(r"[a-z0-9]+", everything.partition("[")[2]))
    unlisted = {"faiss", "gs", "mlflow", "onnx", "otel", "pykeen", "s3", "wandb"}
    assert named == set(environment.EXTRAS) - unlisted


def test_the_report(monkeypatch):
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    for text in ("fivestar:", "torch:", "threads of", "BLAS", "serve", "No problems found."):
        assert text in result.output
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)
    assert found["problems"] == []
    assert found["extras"]["pandas"]["installed"]
    assert found["page"]


def test_missing_extras_are_no_problem(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        environment, "find_spec", lambda name: None if name == "optuna" else real(name)
    )
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "pip install 'fivestar-kge[search]'" in result.output
    assert environment.describe_environment()["extras"]["search"]["missing"] == ["optuna"]


def test_a_broken_torch_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "Problem: torch cannot be imported" in result.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable_is_a_problem(tmp_path, monkeypatch):
    tmp_path.chmod(0o500)
    monkeypatch.setenv("FIVESTAR_DATA", str(tmp_path / "data"))
    assert "is not writable" in environment.describe_environment()["problems"][0]


def test_a_folder_in_a_file_is_a_problem(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FIVESTAR_DATA", str(tmp_path / "file" / "data"))
    assert "is not writable" in environment.describe_environment()["problems"][0]


def test_the_module_needs_no_torch_to_import():
    code = "import sys, fivestar.environment; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
