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
training = {"batch": 5000, "epochs": 1, "checkpoint_minutes": 1e-9, **json.loads(sys.argv[1])}
fivestar.train(graph, {"model": {"dim": 200}, "training": training}, sys.argv[2])
# Not ru_maxrss: that counts what the process that began this one had, too.
status = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
print(peak - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_the_working_set_stays_within_the_bound(tmp_path):
    used = {}
    for name, more in {"free": {}, "bound": {"memory": "160MiB"}}.items():
        command = [sys.executable, "-c", TRAIN, json.dumps(more), str(tmp_path / name)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        used[name] = int(done.stdout) / 2**20
    assert used["bound"] <= 160
    assert used["free"] > 160, "without a bound it takes no more: the test shows nothing"
