"""Compare servers in turns: two checkouts, a FastAPI application that says hello, a bare product.

Each arm is loaded for a few seconds, one after the other, for several rounds, so that other work of
the machine affects all of them alike; medians are reported. The load generator is wrk, one thread,
on the same cores: it takes about 30 µs per request, a client in Python several times that. CPU time
per request is that of the server's processes.

    git worktree add ../before COMMIT
    python benchmarks/serve_rounds.py RUN --before ../before --rounds 5 --seconds 5
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from serve import limit

# Queries per request of the batch endpoint.
BATCH = 200
HELLO = """
import uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/api/predict/{side}")
async def hello(side: str, body: dict):
    return {"hello": side}
@app.get("/ready")
async def ready():
    return {"status": "ready"}
uvicorn.run(app, port=%d, log_level="error", access_log=False)
"""
LUA = """
local requests = {}
function init(args)
  math.randomseed(1)
  for line in io.lines("%s") do
    local path, body = line:match("^(%%S+)\\t(.+)$")
    requests[#requests + 1] =
      wrk.format("POST", path, {["Content-Type"] = "application/json"}, body)
  end
end
function request() return requests[math.random(#requests)] end
"""


@dataclass
class Arm:
    """A server, what is sent to it, and what was measured."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    script: Path
    connections: int
    per_request: int = 1
    rows: list[tuple[float, float, float, float, int]] = field(default_factory=list)


def requests_of(run: Path, folder: Path) -> tuple[Path, Path]:
    """Write scripts for wrk: single queries of test triples, and batches of them."""
    import numpy as np

    import fivestar

    graph = fivestar.load(run).graph
    singles, queries = [], []
    for h, r, t in np.random.default_rng(0).permutation(graph.test.array)[:2000].tolist():
        head, tail = graph.entities.name_of(h), graph.entities.name_of(t)
        relation = graph.relations.name_of(r)
        singles.append(("tails", {"head": head, "relation": relation}))
        singles.append(("heads", {"tail": tail, "relation": relation}))
        queries += [[head, relation, "_"], ["_", relation, tail]]
    batches = [("batch", {"queries": queries[at : at + BATCH]}) for at in range(0, 4000, BATCH)]
    scripts = []
    for name, content in (("single", singles), ("batch", batches)):
        lines = [f"/api/predict/{side}\t{json.dumps(body)}\n" for side, body in content]
        (folder / f"{name}.tsv").write_text("".join(lines))
        scripts.append(folder / f"{name}.lua")
        scripts[-1].write_text(LUA % (folder / f"{name}.tsv"))
    return scripts[0], scripts[1]


@contextmanager
def started(
    words: list[str], port: int, checkout: Path | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block, with the sources of a checkout."""
    environment = {**os.environ}
    environment.pop("OMP_NUM_THREADS", None)
    if checkout is not None:
        environment["PYTHONPATH"] = str(checkout / "src")
    process = subprocess.Popen(
        [sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, cwd="/"
    )
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end and process.poll() is None:
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/ready") as found:
                if found.status == 200:
                    break
            time.sleep(0.1)
        else:
            sys.exit(f"no server on port {port}: {' '.join(words)}")
        yield process
    finally:
        process.terminate()
        process.wait()


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU time of a process and its children."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    total = 0
    for pid in (process.pid, *children):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def milliseconds(text: str) -> float:
    """Return a duration of wrk's report."""
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}[unit]


def measure(arm: Arm, seconds: int) -> None:
    """Load a server for some seconds."""
    before = cpu_seconds(arm.process)
    words = ["wrk", "-t1", f"-c{arm.connections}", f"-d{seconds}s", "--timeout", "30s", "--latency"]
    report = subprocess.run(
        [*words, "-s", str(arm.script), f"http://127.0.0.1:{arm.port}/"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    count = int(re.search(r"(\d+) requests in", report)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", report)[1])
    p50, p99 = (milliseconds(re.search(rf"\n\s+{share}%\s+(\S+)", report)[1]) for share in (50, 99))
    errors = re.search(r"Non-2xx or 3xx responses: (\d+)", report)
    cpu = (cpu_seconds(arm.process) - before) / max(1, count)
    factor = arm.per_request
    failed = int(errors[1]) if errors else 0
    arm.rows.append((rate * factor, p50, p99, 1e6 * cpu / factor, failed))


def main() -> None:
    """Measure in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--before", type=Path, help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    given = parser.parse_args()
    code = "from fivestar.cli.main import main; main()"
    here = Path(__file__).resolve().parents[1]
    arms: list[Arm] = []
    with ExitStack() as opened, tempfile.TemporaryDirectory() as folder:
        single, batch = requests_of(given.run, Path(folder))

        def add(name: str, checkout: Path, workers: int) -> None:
            port = 8200 + len(arms)
            serve = ["serve", str(given.run.resolve()), "--port", str(port)]
            words = ["-c", code, *serve, "--workers", str(workers)]
            process = opened.enter_context(started(words, port, checkout.resolve()))
            arms.append(Arm(name, port, process, single, given.connections))

        if given.before is not None:
            add("before", given.before, 1)
            add("before, 2 workers", given.before, 2)
        add("now", here, 1)
        now = arms[-1]
        add("now, 2 workers", here, 2)
        for name, arm in [
            ("now, batches", now),
            *([("before, batches", arms[0])] * bool(given.before)),
        ]:
            arms.append(Arm(name, arm.port, arm.process, batch, 2, BATCH))
        port = 8200 + len(arms)
        process = opened.enter_context(started(["-c", HELLO % port], port, None))
        arms.append(Arm("FastAPI, hello", port, process, single, given.connections))
        bounds = []
        for _ in range(given.rounds):
            bounds.append(limit(given.run, given.connections))
            for arm in arms:
                measure(arm, given.seconds)
        bound = statistics.median(bounds)
        print(f"bare product: {bound:,.0f} queries/s (median of {given.rounds})")
        print("| server | queries/s | ratio | of the product | p50 ms | p99 ms | CPU µs | errors |")
        print("|---|---|---|---|---|---|---|---|")
        base = statistics.median(row[0] for row in arms[0].rows)
        for arm in arms:
            rate, p50, p99, cpu, _ = (
                statistics.median(column) for column in zip(*arm.rows, strict=True)
            )
            errors = sum(row[-1] for row in arm.rows)
            print(
                f"| {arm.name} | {rate:,.0f} | {rate / base:.2f} | {rate / bound:.0%} | "
                f"{p50:.1f} | {p99:.1f} | {cpu:,.0f} | {errors} |"
            )


if __name__ == "__main__":
    main()
