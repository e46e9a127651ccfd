"""The command line in several processes that share the entity table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fivestar.cli.main import app
from fivestar.cli.processes import begin
from fivestar.errors import SettingsError

TRAIN = ("train", "--dim", "6", "--epochs", "4", "--threads", "1", "--evaluate-every", "2")


def command(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "fivestar", *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_processes_train_the_same_run(tmp_path):
    assert CliRunner().invoke(app, [*TRAIN, "--out", str(tmp_path / "one")]).exit_code == 0
    done = command(*TRAIN, "--out", tmp_path / "two", "--processes", 2)
    assert done.returncode == 0, done.stderr
    # Only the first process prints.
    assert done.stdout.count("4 epochs in") == 1
    assert done.stderr.count("epoch 4/4  loss") == 1
    one, two = (
        json.loads((tmp_path / name / "metrics.json").read_text())["valid"]["mrr"]
        for name in ("one", "two")
    )
    assert two == pytest.approx(one, abs=1e-3)
    # The run is an ordinary one.
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "two"), "--json"])
    assert result.exit_code == 0, result.output


def test_commands_that_need_the_whole_table_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(sys, "argv", ["fivestar", "similar", "run", "Lyon"])
    with pytest.raises(SettingsError, match="fivestar similar runs in one process"):
        begin()


def test_a_budget_is_refused(tmp_path):
    done = command(*TRAIN, "--budget", "1m", "--processes", 2, "--out", tmp_path / "run")
    assert done.returncode != 0
    assert "--budget compares settings in one process" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="the processes are found in /proc")
def test_a_killed_process_ends_the_training_and_a_restart_resumes_it(tmp_path):
    run, launch = tmp_path / "run", [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = [*TRAIN, "--epochs", "200", "--checkpoint-every", "1", "--patience", "0"]
    options = ["--nproc-per-node", "2", "--max-restarts", "1", "-m", "fivestar", *words]
    with subprocess.Popen([*launch, *options, "--out", str(run)]) as job:
        while not list(run.glob("checkpoint-[1-9]*")):
            time.sleep(0.1)
            assert job.poll() is None
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        assert job.wait(300) == 0
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in history] == list(range(1, 201))
    assert (run / "manifest.json").exists()
