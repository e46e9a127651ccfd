"""The bound on memory holds for a real process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = """
import json, resource, sys
from pathlib import Path
import fivestar, fivestar.training.loop
graph = fivestar.read_graph()
graph.facts
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
before = resident()
training = {"batch_size": 5000, "epochs": 1, "checkpoint_minutes": 1e-9, **json.loads(sys.argv[1])}
model = {"dim": 100, "name": sys.argv[3]}
fivestar.train(graph, {"model": model, "training": training}, sys.argv[2])
# Not ru_maxrss: that counts what the process that began this one had, too.
status = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
print(peak - before)
"""


SAMPLED = {"objective": "negative-sampling"}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("model", "training", "bound"),
    [
        ("fivestar", {"batch_size": 5000}, 140),
        slow("fivestar", {"batch_size": 5000, "refit": True}, 140),
        slow("murp", {"batch_size": 5000, "objective": "softmax"}, 200),
        slow("fivestar", {"batch_size": 5000, "reciprocals": False}, 160),
        slow(
            "transe",
            {"batch_size": 5000, **SAMPLED, "num_negatives": 500, "reciprocals": True},
            130,
        ),
        (
            "fivestar",
            {"batch_size": 5000, "objective": "negative-sampling", "num_negatives": 300},
            130,
        ),
        slow(
            "rotate",
            {"batch_size": 5000, **SAMPLED, "num_negatives": 300, "reciprocals": False},
            200,
        ),
        # These normalise over a batch, which is therefore never cut.
        slow("tucker", {"batch_size": 200}, 400),
        ("conve", {"batch_size": 200}, 400),
    ],
)
def test_the_working_set_stays_within_the_bound(tmp_path, model, training, bound):
    assert working_set(tmp_path / "bound", model, {**training, "memory": f"{bound}MiB"}) <= bound
    # Drawn tails are taken in parts that fit the cache, bound or not.
    if training["batch_size"] == 5000 and "num_negatives" not in training:
        free = working_set(tmp_path / "free", model, training)
        assert free > bound, "without a bound it takes no more: the test shows nothing"


def working_set(folder, model, training):
    command = [sys.executable, "-c", TRAIN, json.dumps(training), str(folder), model]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 2**20
