"""Load-test the server: requests per second, latency, errors, memory, and misbehaving clients.

A server is started for each number of workers, and a number of connections send test queries, each
as soon as it has received its last answer. The limit is the bare matrix product of as many queries
as there are connections, on all cores, the best of sixteen half seconds before and after the load,
without ranking, names or network. Clients run on the same cores as the server.

    python benchmarks/serve.py RUN --workers 1,2,4 --connections 32 --seconds 120 [--rude 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import numpy as np
import uvloop

LIMIT = """
import sys, time, torch
from fivestar.runs.run import load_run
run, rows = load_run(sys.argv[1]), int(sys.argv[2])
model = run.model
with torch.no_grad():
    table = model.candidates()
    some = torch.arange(rows) % len(table)
    out = torch.empty(rows, len(table))
    def once():
        torch.mm(model.query(some, torch.zeros_like(some)), table.T, out=out)
    best = 0
    for _ in range(8):
        started, times = time.perf_counter(), 0
        while time.perf_counter() - started < 0.5:
            once()
            times += 1
        best = max(best, rows * times / (time.perf_counter() - started))
print(best)
"""


def limit(run: Path, rows: int) -> float:
    """Return the queries per second of the bare product."""
    words = [sys.executable, "-c", LIMIT, str(run), str(rows)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


@contextmanager
def serving(run: Path, workers: int) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    """Start a server and return it with its address and startup time."""
    code = "from fivestar.cli.main import main; main()"
    words = ["serve", str(run), "--port", "0", "--workers", str(workers)]
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True
    )
    try:
        address = None
        while address is None:
            address = re.search(r"Serving at (http://\S+)", process.stdout.readline())
        while True:
            with suppress(httpx.TransportError):
                if httpx.get(f"{address[1]}/ready").status_code == 200:
                    break
            time.sleep(0.02)
        yield process, address[1], time.perf_counter() - started
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def bodies(run: Path, count: int) -> list[bytes]:
    """Return requests for the tails and heads of test triples."""
    import fivestar

    graph = fivestar.load(run).graph
    found = []
    for h, r, t in np.random.default_rng(0).permutation(graph.test.array)[:count].tolist():
        head, tail = graph.entities.name_of(h), graph.entities.name_of(t)
        relation = graph.relations.name_of(r)
        for side, name in (("tails", {"head": head}), ("heads", {"tail": tail})):
            body = json.dumps({**name, "relation": relation}).encode()
            found.append(
                f"POST /api/predict/{side} HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
    return found


async def connection(
    address: str, requests: list[bytes], dice: random.Random, until: float, times: list[float]
) -> int:
    """Send requests until the time is over and return the number of errors."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    errors = 0
    while time.perf_counter() < until:
        started = time.perf_counter()
        writer.write(dice.choice(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        await reader.readexactly(length)
        times.append(time.perf_counter() - started)
        errors += not head.startswith(b"HTTP/1.1 200")
    writer.close()
    return errors


async def load(
    address: str, requests: list[bytes], connections: int, seconds: float
) -> tuple[list[float], int]:
    """Return latencies and errors of all connections."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    work = [
        connection(address, requests, random.Random(number), until, times)
        for number in range(connections)
    ]
    return times, sum(await asyncio.gather(*work))


async def rude(address: str, requests: list[bytes], count: int, connections: int) -> dict[str, int]:
    """Send requests, some incomplete, disconnect at any time, and return what was answered."""
    host, port = address.removeprefix("http://").split(":")
    dice = random.Random(0)
    seen: dict[str, int] = {}
    free = asyncio.Semaphore(connections)

    async def one() -> None:
        async with free:
            whole = dice.choice(requests)
            reader, writer = await asyncio.open_connection(host, int(port))
            cut = dice.random() < 0.5
            writer.write(whole[: dice.randrange(1, len(whole))] if cut else whole)
            what = "hung up at once"
            with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                if dice.random() < 0.5:
                    await writer.drain()
                    if not cut:
                        line = await asyncio.wait_for(reader.readline(), 30)
                        what = line.decode().strip()
                writer.transport.abort()
            seen[what] = seen.get(what, 0) + 1

    await asyncio.gather(*(one() for _ in range(count)))
    return seen


def memory(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Return the megabytes of all processes, with shared pages counted once and per process."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    sums = {"Pss": 0, "Rss": 0}
    for pid in (process.pid, *children):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        for name in sums:
            sums[name] += int(re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[1])
    return sums["Pss"] / 1024, sums["Rss"] / 1024


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--workers", default="1,2,4", help="with commas")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rude", type=int, default=0, help="requests of rude clients")
    given = parser.parse_args()
    requests = bodies(given.run, 2000)
    print(f"{os.cpu_count()} cores, {given.connections} connections, {given.seconds:g} s each")
    print("| workers | ready after s | requests/s | p50 ms | p99 ms | errors | of the limit | MB |")
    print("|---|---|---|---|---|---|---|---|")
    for workers in map(int, given.workers.split(",")):
        before = limit(given.run, given.connections)
        with serving(given.run, workers) as (process, address, ready):
            times, errors = uvloop.run(load(address, requests, given.connections, given.seconds))
            shared, apart = memory(process)
            most = max(before, limit(given.run, given.connections))
            rate = len(times) / given.seconds
            p50, p99 = (1e3 * value for value in np.percentile(times, [50, 99]))
            print(
                f"| {workers} | {ready:.1f} | {rate:,.0f} | {p50:.1f} | {p99:.1f} | {errors} | "
                f"{rate / most:.1%} of {most:,.0f} | {shared:,.0f} ({apart:,.0f} unshared) |",
                flush=True,
            )
            if given.rude:
                seen = uvloop.run(rude(address, requests, given.rude, given.connections))
                alive = httpx.get(f"{address}/ready").status_code
                print(f"\n{given.rude:,} rude requests: {seen}; ready afterwards: {alive}\n")


if __name__ == "__main__":
    main()
