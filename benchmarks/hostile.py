"""Measure what hostile requests do to everyone else: stalls, memory, and time to refuse.

A server is started for each attack. While the attack runs, one client asks /health and one sends
small queries, each as soon as it has its last answer; the longest time of each is reported.

    python benchmarks/hostile.py RUN [--only relations,tsne] [--record]

--record adds a line per attack to results/hostile.jsonl and writes the table of
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from fivestar.experiments.records import append_record, read_records
from fivestar.experiments.results import markdown_table
from fivestar.runs.run import load_run

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "hostile.jsonl"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- hostile: generated from results/hostile.jsonl -->\n", "<!-- end of hostile -->\n"
Attack = Callable[[str, "Names"], dict[str, Any]]


class Names:
    """Some names of the graph."""

    def __init__(self, address: str) -> None:
        with httpx.Client(base_url=address, timeout=120) as client:
            found = client.get("/api/entities", params={"limit": 1000}).json()["entities"]
            self.entities = [each["id"] for each in found]
            self.relations = [
                each["id"] for each in client.get("/api/relations").json()["relations"]
            ]


@contextmanager
def serving(run: Path, *words: str) -> Iterator[tuple[int, str]]:
    """Start a server and return its process id and address."""
    command = [sys.executable, "-m", "fivestar", "serve", str(run), "--port", "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = None
        while address is None:
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the server has ended before it served")
            address = re.search(r"Serving at (http://\S+)", line)
        while True:
            with suppress(httpx.TransportError):
                if httpx.get(f"{address[1]}/ready", timeout=60).status_code == 200:
                    break
            time.sleep(0.05)
        yield process.pid, address[1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def memory(pid: int, kind: str = "VmRSS") -> float:
    """Return the resident memory (or its peak, VmHWM) of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{kind}:\s+(\d+)", status)[1]) / 1024


class Probe(threading.Thread):
    """Sends one request after the other and keeps the longest time."""

    def __init__(self, address: str, send: Callable[[httpx.Client], httpx.Response]) -> None:
        super().__init__(daemon=True)
        self.address, self.send = address, send
        self.longest, self.count, self.failed = 0.0, 0, 0
        self.over = threading.Event()
        self.sent = time.monotonic()

    def run(self) -> None:
        """Send requests until told to stop."""
        with httpx.Client(base_url=self.address, timeout=300) as client:
            while not self.over.is_set():
                self.sent = time.monotonic()
                try:
                    self.failed += self.send(client).status_code != 200
                except httpx.TransportError:
                    self.failed += 1
                self.longest = max(self.longest, time.monotonic() - self.sent)
                self.count += 1
                time.sleep(0.005)

    def stop(self) -> dict[str, Any]:
        """Return the longest time in seconds, and the number of requests."""
        self.over.set()
        self.join(300)
        return {
            "longest": round(self.longest, 3),
            "requests": self.count,
            "failed": self.failed,
        }


def _post(address: str, path: str, body: Any) -> dict[str, Any]:
    started = time.monotonic()
    with httpx.Client(base_url=address, timeout=300) as client:
        answer = client.post(path, json=body)
    more = {} if answer.status_code == 200 else {"detail": answer.json().get("detail", "")[:150]}
    seconds = round(time.monotonic() - started, 3)
    return {"status": answer.status_code, "seconds": seconds, "bytes": len(answer.content), **more}


def relations(address: str, names: Names) -> dict[str, Any]:
    """1,000 queries for relations in one request."""
    some = names.entities
    queries = [[some[i % len(some)], "_", some[(7 * i + 1) % len(some)]] for i in range(1000)]
    return _post(address, "/api/predict/batch", {"queries": queries})


def relations_all(address: str, names: Names) -> dict[str, Any]:
    """1,000 queries for relations in one request, with all answers."""
    some = names.entities
    queries = [[some[i % len(some)], "_", some[(7 * i + 1) % len(some)]] for i in range(1000)]
    return _post(address, "/api/predict/batch", {"queries": queries, "top": 1000})


def abandoned(address: str, names: Names) -> dict[str, Any]:
    """400 queries for relations from a client that leaves after half a second."""
    some = names.entities
    queries = [[some[i % len(some)], "_", some[(7 * i + 1) % len(some)]] for i in range(400)]
    with suppress(httpx.TimeoutException), httpx.Client(base_url=address, timeout=0.5) as client:
        client.post("/api/predict/batch", json={"queries": queries})
    started = time.monotonic()
    _post(address, "/api/predict/relations", {"head": some[0], "tail": some[1]})
    return {"seconds_after_leaving": round(time.monotonic() - started, 3)}


def top(address: str, names: Names) -> dict[str, Any]:
    """1,000 queries with 1,000 answers each."""
    some, relation = names.entities, names.relations[0]
    queries = [[some[i % len(some)], relation, "_"] for i in range(1000)]
    return _post(address, "/api/predict/batch", {"queries": queries, "top": 1000})


def top_allowed(address: str, names: Names) -> dict[str, Any]:
    """100 queries with 1,000 answers each, four times at once."""
    some, relation = names.entities, names.relations[0]
    queries = [[some[i % len(some)], relation, "_"] for i in range(100)]
    answers: list[dict[str, Any]] = []
    body = {"queries": queries, "top": 1000}
    threads = [
        threading.Thread(target=lambda: answers.append(_post(address, "/api/predict/batch", body)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"status": [a["status"] for a in answers], "seconds": max(a["seconds"] for a in answers)}


def misspelt(address: str, names: Names) -> dict[str, Any]:
    """1,000 queries with misspelt relations."""
    some, near = names.entities, names.relations
    queries = [[some[0], f"{near[i % len(near)]}x{i}y", "_"] for i in range(1000)]
    return _post(address, "/api/predict/batch", {"queries": queries})


def misspelt_parallel(address: str, names: Names) -> dict[str, Any]:
    """32 clients, each with ten single misspelt relations."""
    started = time.monotonic()

    def work(n: int) -> None:
        for i in range(10):
            name = f"{names.relations[(n * 10 + i) % len(names.relations)]}x{n}y"
            body = {"head": names.entities[0], "relation": name}
            _post(address, "/api/predict/tails", body)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"seconds": round(time.monotonic() - started, 3)}


def tsne(address: str, names: Names) -> dict[str, Any]:
    """A t-SNE of as many entities as allowed, while others search for names."""
    probe = Probe(address, lambda client: client.get("/api/entities", params={"q": "a"}))
    probe.start()
    started = time.monotonic()
    with httpx.Client(base_url=address, timeout=300) as client:
        status = client.get("/api/map", params={"method": "tsne", "limit": 5000}).status_code
    seconds = round(time.monotonic() - started, 3)
    return {"status": status, "seconds": seconds, "search": probe.stop()}


def statistics(address: str, names: Names) -> dict[str, Any]:
    """The statistics of the graph, all relations, explanations of hubs."""
    started = time.monotonic()
    with httpx.Client(base_url=address, timeout=300) as client:
        client.get("/api/graph")
        for _ in range(5):
            client.get("/api/relations")
        ends = {"head": names.entities[0], "tail": names.entities[1]}
        client.get("/api/explain", params={**ends, "relation": names.relations[0]})
    return {"seconds": round(time.monotonic() - started, 3)}


def errors(address: str, names: Names) -> dict[str, Any]:
    """Bodies with as many invalid values as fit."""
    fields = {f"a{i}": 0 for i in range(70_000)}
    found = [_post(address, "/api/predict/batch", fields)]
    found += [_post(address, "/api/predict/batch", {"queries": [[0, 0, 0]] * 70_000})]
    found += [_post(address, "/api/predict/batch", {"queries": [["", "", "", 0]] * 60_000})]
    return {"status": [each["status"] for each in found]}


def headers(address: str, names: Names) -> dict[str, Any]:
    """A header that never ends."""
    started, sent = time.monotonic(), 0
    with _connect(address) as there:
        there.sendall(b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        with suppress(OSError):
            while sent < 150 << 20 and time.monotonic() - started < 60:
                there.sendall(b"x" * 65536)
                sent += 65536
    return {"sent_mb": round(sent / (1 << 20), 2), "seconds": round(time.monotonic() - started, 3)}


def slow(address: str, names: Names) -> dict[str, Any]:
    """500 connections that send a byte of a header now and then; until they are closed."""
    started = time.monotonic()
    held = []
    for _ in range(500):
        there = _connect(address)
        with suppress(OSError):
            there.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        there.setblocking(False)
        held.append(there)
    at_once, most = None, 0
    while held and time.monotonic() - started < 40:
        time.sleep(1)
        for there in list(held):
            is_open = False
            with suppress(OSError):
                there.send(b"X")
                is_open = _is_silent(there)
            if not is_open:
                held.remove(there)
                there.close()
        most = max(most, len(held))
        at_once = len(held) if at_once is None else at_once
    seconds = round(time.monotonic() - started, 1)
    left = len(held)
    for there in held:
        there.close()
    return {"held_at_once": at_once, "left": left, "after_seconds": seconds}


def _is_silent(there: socket.socket) -> bool:
    try:
        there.recv(4096)
    except BlockingIOError:
        return True
    return False  # answered or closed


def _connect(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 30)


ATTACKS: dict[str, Attack] = {
    each.__name__: each
    for each in (
        relations,
        relations_all,
        abandoned,
        top,
        top_allowed,
        misspelt,
        misspelt_parallel,
        tsne,
        statistics,
        errors,
        headers,
        slow,
    )
}


def measure(run: Path, attack: Attack) -> dict[str, Any]:
    """Run one attack against a fresh server."""
    with serving(run) as (pid, address):
        names = Names(address)
        body = {"head": names.entities[0], "relation": names.relations[0]}
        probes = {
            "health": Probe(address, lambda client: client.get("/health")),
            "query": Probe(address, lambda client: client.post("/api/predict/tails", json=body)),
        }
        for probe in probes.values():
            probe.start()
        time.sleep(1)
        quiet = {name: round(probe.longest, 3) for name, probe in probes.items()}
        for probe in probes.values():
            probe.longest = 0.0
        before = memory(pid)
        found = attack(address, names)
        return {
            "attack": attack.__name__,
            **found,
            "quiet": quiet,
            **{name: probe.stop() for name, probe in probes.items()},
            "memory_growth_mb": round(memory(pid, "VmHWM") - before),
        }


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the records in Markdown."""
    waits = [f"longest wait for {each} (s)" for each in ("`/health`", "a small query")]
    rows = [["attack", "outcome", *waits, "memory (MB)"]]
    for each in records:
        text = ATTACKS[each["attack"]].__doc__.strip().rstrip(".")
        longest = [f"{each[probe]['longest']:.2f}" for probe in ("health", "query")]
        rows.append([text, outcome(each), *longest, f"+{each['memory_growth_mb']:,}"])
    quiet = [max(each["quiet"][probe] for each in records) for probe in ("health", "query")]
    loads = [each["load"] for each in records]
    failed = sum(each[probe]["failed"] for each in records for probe in ("health", "query"))
    last = records[-1]
    commits = ", ".join(dict.fromkeys(each["commit"] for each in records))
    return (
        f"{markdown_table(rows)}\n\n{last['graph']}, {last['model']}; {failed:,} of the other "
        f"requests failed. In the second before an attack the longest waits were up to "
        f"{quiet[0]:.2f} and {quiet[1]:.2f} s: the machine was not idle (load average "
        f"{min(loads):g} to {max(loads):g} on {last['machine'].partition(',')[0]}). "
        f"Commit {commits}, {last['date']}.\n"
    )


def outcome(record: Mapping[str, Any]) -> str:
    """Return what became of an attack, in a few words."""
    words = []
    if "status" in record:
        status = record["status"]
        statuses = dict.fromkeys(status if isinstance(status, list) else [status])
        words.append(" and ".join(map(str, statuses)))
    if "seconds" in record:
        words.append(f"after {record['seconds']:.1f} s")
    if "seconds_after_leaving" in record:
        words.append(f"others wait {record['seconds_after_leaving']:.1f} s after it has left")
    if "sent_mb" in record:
        words.append(f"cut off after {record['sent_mb']:.1f} MB")
    if "held_at_once" in record:
        words.append(f"{record['held_at_once']} of 500 accepted, {record['left']} left")
        words.append(f"after {record['after_seconds']:.0f} s")
    return ", ".join(words)


def page() -> str:
    """Return docs/reliability.md with the table of the last record of each attack."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    last = {record["attack"]: record for record in read_records(RECORDS)}
    records = [last[name] for name in ATTACKS if name in last]
    text = table(records) if records else "Not recorded yet.\n"
    return before + BEGIN + "\n" + text + "\n" + END + after


def main() -> None:
    """Run the attacks and print one JSON line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--only", default=",".join(ATTACKS), help="attacks, by default all")
    parser.add_argument("--record", action="store_true", help="keep the results")
    chosen = parser.parse_args()
    run = load_run(chosen.run)
    about = {"graph": run.graph.name, "model": f"{run.settings.model.name} d={run.model.dim}"}
    for name in chosen.only.split(","):
        load = round(os.getloadavg()[0], 1)
        result = {**about, "load": load, **measure(chosen.run, ATTACKS[name])}
        print(json.dumps(result), flush=True)
        if chosen.record:
            append_record(RECORDS, result)
    if chosen.record:
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
