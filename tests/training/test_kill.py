"""kill -9 at random moments, again and again: the run ends with the same bits."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-c", "from fivestar.cli.main import main; main()", "train"]
SETTINGS = ["--dim", "20", "--epochs", "60", "--evaluate-every", "20", "--threads", "1"]


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path):
    subprocess.run([*COMMAND, *SETTINGS, "--out", str(tmp_path / "whole")], check=True)
    begin = [*COMMAND, *SETTINGS, "--out", str(tmp_path / "killed")]
    resume = [*COMMAND, "--resume", str(tmp_path / "killed")]
    rng, kills = random.Random(0), 0  # noqa: S311
    while kills < 20:
        process = subprocess.Popen(resume if (tmp_path / "killed").exists() else begin)
        # Importing torch takes seconds; training the rest takes a few more.
        time.sleep(rng.uniform(1.5, 5.0))
        if process.poll() is not None:
            assert process.returncode == 0
            break
        process.kill()
        process.wait()
        kills += 1
    subprocess.run(resume, check=True)
    assert kills >= 5, "training ended before it could be killed: make it longer"
    for name in ("model.safetensors", "settings.toml"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()
