"""Run the commands of a user with a graph of five million entities, and keep what they print.

    python benchmarks/walkthrough.py --folder /data/generated

Each command runs in a process of its own, in this order; `--only` runs some of them again. Each is
a line of results/walkthrough.jsonl: its output, verbatim, its duration, its peak memory (mapped
files included) and the cores that other processes used meanwhile. `experiments/scale/table.py`
writes them into docs/scale.md.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from scale import other_cpu_seconds

from fivestar.experiments.records import append_record

RESULTS = Path(__file__).parents[1] / "results" / "walkthrough.jsonl"
_PORT = 8765
_PATIENCE = 600
COMMANDS = {
    "generate": "graph generate --entities 5000000 --relations 100 --triples 25000000 "
    "--out graph-5000000-5",
    "train": "train graph-5000000-5 --out run --optimizer row-adagrad --max-minutes 10 "
    "--validation-queries 2000",
    "evaluate": "evaluate run --sampled 2000",
    "ask": "ask run e102 inverse_1 _ --top 5",
    "similar": "similar run e102 --top 5",
    "complete": "complete run --relation symmetric_5 --top 100 --max-queries 500 --out new.tsv",
    "serve": f"serve run --port {_PORT}",
}
PATH, REQUEST = "/api/predict/tails", {"head": "e102", "relation": "inverse_1", "top": 3}


def run(name: str, folder: Path) -> dict[str, Any]:
    """Run a command and return what it printed, and what it took."""
    command = f"fivestar {COMMANDS[name]}"
    words = [sys.executable, "-m", "fivestar", *shlex.split(COMMANDS[name])]
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    before, start = other_cpu_seconds(), time.perf_counter()
    process = subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    more: dict[str, Any] = {}
    if name == "serve":
        more = _request(start)
        process.send_signal(signal.SIGTERM)
    assert process.stdout is not None  # noqa: S101  (it is a pipe)
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    own = usage.ru_utime + usage.ru_stime
    return {
        "name": name,
        "command": command,
        "output": output,
        "returncode": process.returncode,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(own, 2),
        "peak_bytes": 1024 * usage.ru_maxrss,
        "other_cores": round((other_cpu_seconds() - before) / seconds, 2),
        **more,
    }


def _request(start: float) -> dict[str, Any]:
    """Wait until the server answers; return the time of start-up and of the first answers."""
    while time.perf_counter() - start < _PATIENCE:
        with contextlib.suppress(OSError):
            if _answer("GET", "/ready")[0] == 200:
                break
        time.sleep(0.1)
    ready = time.perf_counter()
    seconds, text = [], ""
    for _ in range(2):
        asked = time.perf_counter()
        text = _answer("POST", PATH, json.dumps(REQUEST))[1]
        seconds.append(round(time.perf_counter() - asked, 3))
    return {
        "ready_seconds": round(ready - start, 2),
        "path": PATH,
        "request": json.dumps(REQUEST),
        "answer": text,
        "request_seconds": seconds,
    }


def _answer(method: str, path: str, body: str | None = None) -> tuple[int, str]:
    """Return the status and the body of a response."""
    connection = http.client.HTTPConnection("127.0.0.1", _PORT, timeout=_PATIENCE)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read().decode()


def main() -> None:
    """Run all commands, or some."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("generated"))
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        line = append_record(RESULTS, run(name, given.folder))
        print(f"$ {line['command']}\n{line['output']}\n{line['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
