"""Run the commands of a user with a graph of five million entities, and keep what they print.

    python benchmarks/walkthrough.py --folder /data/generated

Each command runs in a process of its own, in this order; `--only` runs some of them again, and
`--entities` makes another graph. Each is a line of results/walkthrough.jsonl: its output, verbatim,
its duration, its peak memory (mapped files included) and the cores that other processes used
meanwhile. While the server runs, it is asked by the commands of `ASKED`.
`experiments/scale/table.py` writes them into docs/scale.md.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scale import other_cpu_seconds

from fivestar.experiments.records import append_record, read_records

RESULTS = Path(__file__).parents[1] / "results" / "walkthrough.jsonl"
_PORT = 8765
_PATIENCE = 600
_ADDRESS = f"http://127.0.0.1:{_PORT}"
# {answer} is the first answer of `ask`, {graph}, {entities} and {triples} are those of the graph.
COMMANDS = {
    "generate": "graph generate --entities {entities} --relations 100 --triples {triples} "
    "--out {graph}",
    "train": "train {graph} --out run --dim 64 --num-candidates 256 --precision auto "
    "--optimizer row-adagrad --max-minutes 10 --validation-queries 2000",
    "evaluate": "evaluate run --sampled 2000",
    "ask": "ask run e102 inverse_1 _ --top 5",
    "misspelled": "ask run e1o2 inverse_1 _",
    "explain": "explain run e102 inverse_1 {answer} --top 3",
    "similar": "similar run e102 --top 5",
    "complete": "complete run --relation symmetric_5 --top 100 --max-queries 500 --out new.tsv",
    "serve": f"serve run --port {_PORT}",
}
ASKED = (
    f"curl -s '{_ADDRESS}/api/entities?q=e12&limit=3'",
    f"curl -s '{_ADDRESS}/api/entities?q=e1o2&limit=3'",
    f"fivestar ask {_ADDRESS} e102 inverse_1 _ --top 3",
)
# The first row of a table of answers.
_ANSWER = re.compile(r"│ 1 │ (\S+)")
PATH, REQUEST = "/api/predict/tails", {"head": "e102", "relation": "inverse_1", "top": 3}


def run(name: str, folder: Path, values: dict[str, str]) -> dict[str, Any]:
    """Run a command and return what it printed, and what it took."""
    command = f"fivestar {COMMANDS[name].format(**values)}"
    words, environment = _words(command), _environment()
    before, start = other_cpu_seconds(), time.perf_counter()
    process = subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    more: dict[str, Any] = {}
    if name == "serve":
        more = _request(start) | {"asked": [_ask(each) for each in ASKED]}
        process.send_signal(signal.SIGTERM)
    assert process.stdout is not None  # noqa: S101  (it is a pipe)
    with process.stdout:
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


def _words(command: str) -> list[str]:
    """Return the words of a command, `fivestar` with this Python."""
    first, *others = shlex.split(command)
    return [*([sys.executable, "-m", first] if first == "fivestar" else [first]), *others]


def _environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}


def _ask(command: str) -> dict[str, Any]:
    """Ask the server by a command."""
    start = time.perf_counter()
    done = subprocess.run(
        _words(command), env=_environment(), check=True, stdout=subprocess.PIPE, text=True
    )
    seconds = round(time.perf_counter() - start, 3)
    return {"command": command, "output": done.stdout, "seconds": seconds}


def first_answer(output: str) -> str:
    """Return the first answer that `ask` has printed."""
    found = _ANSWER.search(output)
    if found is None:
        raise SystemExit("`ask` has printed no answer to explain")
    return found[1]


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
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()


def walk(names: Sequence[str], folder: Path, entities: int, results: Path) -> None:
    """Run commands in this order, and append what they print to the results."""
    graph = f"graph-{entities}-5"
    values = {"graph": graph, "entities": str(entities), "triples": str(5 * entities)}
    for name in names:
        if "{answer}" in COMMANDS[name]:
            before = [line for line in read_records(results) if line["name"] == "ask"]
            values["answer"] = first_answer(before[-1]["output"] if before else "")
        line = append_record(results, run(name, folder, values))
        print(f"$ {line['command']}\n{line['output']}\n{line['seconds']} s", flush=True)


def main() -> None:
    """Run all commands, or some."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("generated"))
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    walk(given.only, given.folder, given.entities, given.results)


if __name__ == "__main__":
    main()
