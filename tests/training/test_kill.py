"""kill -9 at random moments, again and again: the run ends with the same bits."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time

import pytest

KILLS = 20
COMMAND = [sys.executable, "-c", "from fivestar.cli.main import main; main()", "train"]
# Checkpoints every half second, so that many kills fall within an epoch or a write.
SETTINGS = ["--dim", "32", "--epochs", "150", "--batch-size", "100", "--evaluate-every", "25"]
SETTINGS += ["--threads", "1", "--checkpoint-minutes", "0.008", "--snapshot-epochs", "0,100"]


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*COMMAND, *SETTINGS, "--out", str(whole)], check=True)
    resume = [*COMMAND, "--resume", str(killed)]
    rng = random.Random(0)  # noqa: S311
    for kill in range(1, KILLS + 1):
        begin = [*COMMAND, *SETTINGS, "--out", str(killed)]
        process = subprocess.Popen(resume if killed.exists() else begin)
        # Importing torch takes seconds; a few more are training.
        time.sleep(rng.uniform(2.0, 6.0))
        assert process.poll() is None, f"training ended before kill {kill}: make it longer"
        process.kill()
        process.wait()
    subprocess.run(resume, check=True)
    for name in (
        "model.safetensors",
        "settings.toml",
        "snapshots/epoch-0.safetensors",
        "snapshots/epoch-100.safetensors",
    ):
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name
    assert not list(killed.rglob("*.partial")), "a draft was left behind"


@pytest.mark.slow
def test_kills_before_and_within_a_refit(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    settings = [*SETTINGS, "--epochs", "60", "--refit"]
    subprocess.run([*COMMAND, *settings, "--out", str(whole)], check=True)
    lines = (whole / "history.jsonl").read_text().splitlines()
    first = sum('"refit"' not in line for line in lines)
    command = [*COMMAND, *settings, "--out", str(killed)]
    for epochs in (1, first // 2, first, first + 1, first + 3):
        process = subprocess.Popen(command)
        while _epochs(killed) < epochs:
            assert process.poll() is None, f"training ended before epoch {epochs}"
            time.sleep(0.01)
        process.kill()
        process.wait()
        command = [*COMMAND, "--resume", str(killed)]
    assert '"refit"' in (killed / "history.jsonl").read_text()
    subprocess.run(command, check=True)
    for name in ("model.safetensors", "settings.toml"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name
    metrics = [json.loads((run / "metrics.json").read_text()) for run in (whole, killed)]
    for key in ("valid", "calibration", "best_epoch"):
        assert metrics[0][key] == metrics[1][key]


def _epochs(run):
    history = run / "history.jsonl"
    return len(history.read_text().splitlines()) if history.exists() else 0
