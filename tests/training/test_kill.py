"""kill -9 at random moments, again and again: the run ends with the same bits."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

KILLS = 20
COMMAND = [sys.executable, "-c", "from fivestar.cli.main import main; main()", "train"]
# Checkpoints every half second, so that many kills fall within an epoch or a write.
SETTINGS = ["--dim", "32", "--epochs", "150", "--batch", "100", "--evaluate-every", "25"]
SETTINGS += ["--threads", "1", "--checkpoint-minutes", "0.008", "--snapshot-epochs", "0,100"]


@pytest.mark.slow
@pytest.mark.parametrize("refit", ["--no-refit", "--refit"])
def test_twenty_kills_at_random_moments(tmp_path, refit):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*COMMAND, *SETTINGS, refit, "--out", str(whole)], check=True)
    resume = [*COMMAND, "--resume", str(killed)]
    rng = random.Random(0)  # noqa: S311
    for kill in range(1, KILLS + 1):
        begin = [*COMMAND, *SETTINGS, refit, "--out", str(killed)]
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
    assert not [path for path in killed.rglob(".*") if path.is_file()], "a draft was left behind"
