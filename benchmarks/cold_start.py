"""Measure what a single `fivestar ask` takes, and what could make it faster.

    python benchmarks/cold_start.py RUN [RUN …] --rounds 7

In turns, each in a process of its own: the command as it is and its parts; PyTorch without the
largest part that a query does not need; a prototype that loads and scores with NumPy (5★E with its
default options, and ComplEx; it neither filters nor marks known answers, so it is a lower bound);
and a resident process: the prompt, and a server asked by `fivestar ask http://…` and by curl. CPU
seconds are those of the user and the system, which other jobs disturb least. Each run is a line of
results/cold_start.jsonl; `--table` prints them.

The prototype is a process of this file, so what imports torch is imported where it is used.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "cold_start.jsonl"
Words = list[str]
# Queries by which the prompt is measured, beside one.
_LINES = 101
_TOP = 10
# A private module that PyTorch imports for compiled and meta tensors.
_NOT_NEEDED = "torch._meta_registrations"
_STUB = """
import sys, types
class Stub(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: lambda function: function
sys.modules[{name!r}] = Stub({name!r})
"""
_COMMAND = "from fivestar.cli.main import main; main()"
_LIBRARIES = """
import ctypes, importlib.util, pathlib
folder = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"
ctypes.CDLL(str(folder / "libtorch_python.so"), mode=ctypes.RTLD_GLOBAL)
"""
NAMES = {
    "python": "Python alone",
    "command line": "`fivestar`, without a command's imports",
    "libraries": "the shared libraries of PyTorch",
    "torch": "`import torch`",
    "ask": "**`fivestar ask RUN`**",
    "stub": f"without `{_NOT_NEEDED}`",
    "numpy": "NumPy prototype",
    "prompt": "prompt, each further query",
    "client": "**`fivestar ask http://…`**",
    "curl": "curl",
}


def ways(run: Path, query: Words, address: str) -> dict[str, Words]:
    """Return the command of each way to answer a query, and of its parts."""
    python, ask = [sys.executable, "-c"], ["ask", str(run), *query]
    head, relation, _ = query
    body = json.dumps({"head": head, "relation": relation, "top": _TOP})
    url = f"{address}/api/predict/tails"
    return {
        "python": [*python, "pass"],
        "command line": [*python, "import fivestar.cli.main"],
        "libraries": [*python, _LIBRARIES],
        "torch": [*python, "import torch"],
        "ask": [*python, _COMMAND, *ask],
        "stub": [*python, _STUB.format(name=_NOT_NEEDED) + _COMMAND, *ask],
        "numpy": [sys.executable, __file__, "--numpy", str(run), *query],
        "client": [*python, _COMMAND, "ask", address, *query],
        "curl": ["curl", "-sf", url, "-H", "Content-Type: application/json", "-d", body],
    }


def cost(words: Words, text: str = "") -> dict[str, float]:
    """Run a command; return its wall and CPU seconds."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    process = subprocess.Popen(
        words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stdin is not None  # noqa: S101  (it is a pipe)
    process.stdin.write(text.encode())
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words} failed")
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
    }


def prompt_cost(run: Path, query: Words) -> dict[str, float]:
    """Return what a further query costs a process that has loaded the run."""
    words = [sys.executable, "-c", _COMMAND, "ask", str(run), "--json"]
    line = "\t".join(query) + "\n"
    one, many = cost(words, line), cost(words, _LINES * line)
    return {key: (many[key] - one[key]) / (_LINES - 1) for key in one}


@contextmanager
def server(run: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """Serve a run; yield the address, and what the server has taken until it was ready."""
    words = [sys.executable, "-c", _COMMAND, "serve", str(run), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None  # noqa: S101  (it is a pipe)
    try:
        found = next(filter(None, (re.search(r"http://\S+", line) for line in process.stdout)))
        address = found[0].rstrip("/")
        ready = ["curl", "-sf", f"{address}/ready"]
        while subprocess.run(ready, check=False, capture_output=True).returncode:
            time.sleep(0.05)
        yield address, _usage(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _usage(pid: int) -> dict[str, float]:
    """Return the CPU seconds and the resident memory of a process (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    resident = re.search(r"VmRSS:\s+(\d+)", status)
    return {
        "cpu_seconds": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        "bytes": 1024 * int(resident[1]) if resident else 0,
    }


def imports(rounds: int) -> dict[str, float]:
    """Return the seconds of the parts of `import torch`, and of what fivestar imports beyond it."""
    code = "import torch, sys; print('beyond', file=sys.stderr); import "
    code += "fivestar.prediction.trained_model"
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        words = [sys.executable, "-X", "importtime", "-c", code]
        text = subprocess.run(words, check=True, capture_output=True, text=True).stderr
        first, beyond = text.split("beyond\n")
        parts = {"torch": _cumulative(first, "torch"), "torch._C": _cumulative(first, "torch._C")}
        parts[_NOT_NEEDED] = _cumulative(first, _NOT_NEEDED)
        own = re.findall(r"time:\s+(\d+) \|\s+\d+ \|\s+fivestar\b", beyond)
        parts["modules of fivestar"] = sum(map(int, own)) / 1e6
        others = re.findall(r"time:\s+(\d+) \|\s+\d+ \|", beyond)
        parts["others"] = sum(map(int, others)) / 1e6 - parts["modules of fivestar"]
        for name, seconds in parts.items():
            found.setdefault(name, []).append(seconds)
    # The clock counts other jobs as well, so the fastest round says most.
    return {name: round(min(seconds), 3) for name, seconds in found.items()}


def _cumulative(text: str, module: str) -> float:
    found = re.search(rf"\| +(\d+) \| +{re.escape(module)}$", text, re.MULTILINE)
    return int(found[1]) / 1e6 if found else 0.0


def answer_with_numpy(run: Path, query: Words) -> None:
    """Load a run and answer (head, relation, _) with NumPy alone."""
    import numpy as np
    from safetensors.numpy import load

    from fivestar.graph.storage import load_graph
    from fivestar.runs.manifest import verified_files

    verified_files(run)
    graph = load_graph(run / "graph", verify=False)
    tables = load((run / "model.safetensors").read_bytes())
    head, relation = graph.entities.find(query[0]), graph.relations.find(query[1])
    h, entries = _complex(tables["entities"][head]), tables["relations"][relation]
    if len(entries) == 2 * len(h):  # ComplEx
        found = h * _complex(entries)
    else:
        a, b, c, d = map(_complex, np.split(entries, 4))
        bottom = c * h + d
        floor = 1e-6 * (abs(c) ** 2 + abs(d) ** 2) + 1e-18
        found = (a * h + b) * bottom.conj() / (abs(bottom) ** 2 + floor)
    row = np.concatenate([found.real, found.imag]).astype(np.float32)
    scores = tables["entities"] @ row
    best = np.argpartition(-scores, _TOP)[: _TOP + 1]
    best = best[np.argsort(-scores[best])]
    rows = [number for number in best.tolist() if number != head][:_TOP]
    names = graph.entities.labels_of(rows)
    print(json.dumps([[name, float(scores[n])] for name, n in zip(names, rows, strict=True)]))


def _complex(row: Any) -> Any:
    half = len(row) // 2
    return row[:half] + 1j * row[half:]


def check(words: dict[str, Words]) -> None:
    """Refuse to measure ways whose answers differ."""

    def output(line: Words) -> str:
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    expected = [answer["label"] for answer in json.loads(output([*words["ask"], "--json"]))]
    for name in ("stub", "client"):
        found = [answer["label"] for answer in json.loads(output([*words[name], "--json"]))]
        assert found == expected, name  # noqa: S101
    assert [name for name, _ in json.loads(output(words["numpy"]))] == expected  # noqa: S101


def measure(run: Path, rounds: int) -> dict[str, Any]:
    """Measure all ways to ask a run, in turns."""
    from fivestar.graph.storage import load_graph

    graph = load_graph(run / "graph")
    head, relation = graph.train.array[0, :2].tolist()
    query = [graph.entities.name_of(head), graph.relations.name_of(relation), "_"]
    found: dict[str, list[dict[str, float]]] = {}
    with server(run) as (address, ready):
        words = ways(run, query, address)
        check(words)
        for _ in range(rounds):
            for name, line in words.items():
                found.setdefault(name, []).append(cost(line))
            found.setdefault("prompt", []).append(prompt_cost(run, query))
    medians = {
        name: {key: round(statistics.median(each[key] for each in costs), 4) for key in costs[0]}
        for name, costs in found.items()
    }
    line = {"run": run.name, "entities": len(graph.entities), "rounds": rounds}
    return {**line, "ways": medians, "server": ready, "imports": imports(rounds)}


def table(lines: list[dict[str, Any]]) -> str:
    """Return the costs of each way, of the last line of each run."""
    from fivestar.experiments.results import markdown_table
    from fivestar.runs.units import format_bytes

    runs = {line["run"]: line for line in lines}
    rows = [["CPU time", *runs]]
    for way, text in NAMES.items():
        rows.append([text, *(_time(line["ways"][way]["cpu_seconds"]) for line in runs.values())])
    started = [line["server"] for line in runs.values()]
    times = [
        f"{_time(each['cpu_seconds'])}, {format_bytes(int(each['bytes']))}" for each in started
    ]
    return markdown_table([*rows, ["starting `fivestar serve`, once; its memory", *times]])


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds > 0.1 else f"{1000 * seconds:.0f} ms"


def main() -> None:
    """Measure the given runs, or answer with NumPy in this process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    parser.add_argument("--numpy", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.numpy:
        answer_with_numpy(Path(given.numpy[0]), given.numpy[1:])
        return
    from fivestar.experiments.records import append_record, read_records

    for run in [] if given.table else given.runs:
        append_record(RESULTS, measure(run, given.rounds))
    print(table(read_records(RESULTS)))


if __name__ == "__main__":
    main()
