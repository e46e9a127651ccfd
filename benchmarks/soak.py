"""Run a training, an evaluation and a server side by side for long: does anything grow?

One process trains on the bundled demo graph, again and again; one evaluates and completes it; and
`fivestar serve` answers six clients that use all endpoints, three that send invalid requests,
disconnect within a request or a response, or read and write slowly. Resident memory, descriptors
and threads of each process are sampled all the while.

    python benchmarks/soak.py [--minutes 30] [--record]

--record adds a line to results/soak.jsonl and writes the section of docs/reliability.md. The exit
code is 1 if something grows or a request fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import fivestar
from fivestar.experiments.records import append_record, read_records
from fivestar.experiments.results import markdown_table
from fivestar.server.routes import page as static_page

if __package__:
    from benchmarks.hostile import Names, memory, serving
else:
    from hostile import Names, memory, serving

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "soak.jsonl"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- soak: generated from results/soak.jsonl -->\n", "<!-- end of soak -->\n"
INTERVAL = 5.0
TRAINING = {"model": "fivestar", "dim": 50, "epochs": 8, "threads": 1, "progress": False}
# What counts as flat: growth from the median of the second tenth to that of the last one, and of
# the line through all samples from the second tenth on, in the time between the two medians.
TOLERANCE: dict[str, Callable[[float], float]] = {
    "memory_mb": lambda before: max(10.0, 0.05 * before),
    "descriptors": lambda _: 5.0,
    "threads": lambda _: 1.0,
}
# Responses of a server that has too much to do: queues are full, or the time is over.
LIMITED = (429, 503, 504)
Request = tuple[str, str, dict[str, Any]]  # method, path, arguments of httpx


# The processes beside the server.


def train_forever(folder: Path) -> None:
    """Train again and again, each time into a new folder; print a line after each."""
    while True:
        fivestar.train(out=folder / "run", **TRAINING)
        shutil.rmtree(folder / "run")
        print("done", flush=True)


def evaluate_forever(run: Path, folder: Path) -> None:
    """Load, evaluate, explain and complete again and again; print a line after each."""
    while True:
        model = fivestar.load(run)
        for split in ("valid", "test"):
            model.evaluate(split)
        model.evaluate(by="relation")
        h, r, t = model.graph.test.array[0].tolist()
        names = model.graph.entities.name_of
        model.explain(names(h), model.graph.relations.name_of(r), names(t))
        model.complete(top=100, out=folder / "new.tsv")
        (folder / "new.tsv").unlink()
        print("done", flush=True)


@contextmanager
def repeating(*words: str) -> Iterator[tuple[int, Counter[str]]]:
    """Start this program in another role; return its process id and a count of its rounds."""
    # Arrow starts threads as needed; with one there are none to start later.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, env=environment
    )
    rounds: Counter[str] = Counter()

    def count() -> None:
        rounds.update(line.strip() for line in process.stdout)

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield process.pid, rounds
        if process.poll() is not None:
            raise SystemExit(f"{words[0]} ended with code {process.returncode}")
    finally:
        process.kill()
        process.wait()
        thread.join()
        process.stdout.close()


# Requests.


class Mix:
    """Random requests of all classes.

    Args:
        names: names of the graph.
        rng: source of randomness.
    """

    def __init__(self, names: Names, rng: random.Random) -> None:
        self.names, self.rng = names, rng
        files = [file for file in static_page.FOLDER.rglob("*") if file.is_file()]
        paths = [f"/static/{file.relative_to(static_page.FOLDER)}" for file in files]
        self.paths = ["/openapi.json"] + ["/", "/docs", *sorted(paths)] * static_page.is_built()
        self.sources: dict[str, tuple[float, Callable[[], Request]]] = {
            "predict, one query": (30, self._single),
            "predict, 1 to 200 queries": (8, self.batch),
            "score": (8, lambda: _post("/api/score", self._triple())),
            "explain": (8, lambda: _get("/api/explain", **self._triple())),
            "similar": (8, lambda: _get("/api/similar", entity=self._entity(), top=20)),
            "entity": (6, lambda: _get("/api/entity", name=self._entity())),
            "search": (10, self._search),
            "lists and statistics": (4, self._list),
            "geometry": (4, lambda: _get("/api/geometry", relation=self._relation())),
            "map, PCA": (4, lambda: _get("/api/map", limit=rng.randint(3, 3000))),
            "map, t-SNE": (0.2, self._tsne),
            "page and OpenAPI": (6, lambda: _get(rng.choice(self.paths))),
            "health and metrics": (6, lambda: _get(rng.choice(("/health", "/ready", "/metrics")))),
        }

    def next(self) -> tuple[str, Request]:
        """Return a class and a request of it."""
        weights = [weight for weight, _ in self.sources.values()]
        kind = self.rng.choices([*self.sources], weights)[0]
        return kind, self.sources[kind][1]()

    def batch(self) -> Request:
        """Return a request of up to 200 queries, few of them for relations."""
        queries = []
        for _ in range(self.rng.randint(1, 200)):
            query = [*self._triple().values()]
            query[self.rng.choice((0, 0, 0, 2, 2, 2, 1))] = "_"
            queries.append(query)
        return _post("/api/predict/batch", {"queries": queries})

    def _single(self) -> Request:
        missing = self.rng.choice(("head", "relation", "tail"))
        body = {name: value for name, value in self._triple().items() if name != missing}
        which = self.rng.choice(("all", "new", "known"))
        body |= {"top": self.rng.choice((1, 10, 100)), "which": which}
        return _post(f"/api/predict/{missing}s", body)

    def _search(self) -> Request:
        name = self._entity()
        start = self.rng.randrange(len(name))
        end = start + self.rng.randint(1, 8)
        return _get("/api/entities", q=name[start:end], limit=20)

    def _list(self) -> Request:
        return _get(f"/api/{self.rng.choice(('relations', 'types', 'graph', 'runs'))}")

    def _tsne(self) -> Request:
        return _get("/api/map", method="tsne", limit=self.rng.randint(100, 600))

    def _triple(self) -> dict[str, Any]:
        return {"head": self._entity(), "relation": self._relation(), "tail": self._entity()}

    def _entity(self) -> str:
        return self.rng.choice(self.names.entities)

    def _relation(self) -> str:
        return self.rng.choice(self.names.relations)


def _get(path: str, **params: Any) -> Request:
    return "GET", path, {"params": params}


def _post(path: str, body: Any) -> Request:
    return "POST", path, {"json": body}


def invalid_request(names: Names, rng: random.Random) -> Request:
    """Return a request that must be refused with a status 4xx."""
    name = rng.choice(names.entities)
    text = {"Content-Type": "application/json"}
    return rng.choice(
        (
            ("POST", "/api/predict/tails", {"content": b"{", "headers": text}),
            ("POST", "/api/predict/tails", {"content": os.urandom(500), "headers": text}),
            ("POST", "/api/predict/tails", {"json": {"head": name}}),
            ("POST", "/api/predict/tails", {"json": {"head": name, "relation": "in_contry"}}),
            ("POST", "/api/predict/heads", {"json": {"tail": [name], "relation": 0}}),
            ("POST", "/api/predict/batch", {"json": {"queries": [["_", "_", name]]}}),
            ("POST", "/api/predict/batch", {"json": {"queries": [[0] * 3] * 20_000}}),
            ("POST", "/api/predict/batch", {"content": b"x" * 1_200_000, "headers": text}),
            ("GET", "/api/similar", {"params": {"entity": f"{name}?x", "top": 5}}),
            ("GET", "/api/explain", {"params": {"head": name}}),
            ("GET", "/api/map", {"params": {"limit": 10**9}}),
            ("GET", f"/api/{rng.random()}", {}),
            ("GET", "/static/../../settings.py", {}),
            ("DELETE", "/api/runs", {}),
            ("GET", "/health", {"headers": {"Host": "graphs.example"}}),
        )
    )


class Clients:
    """The clients of one server, on threads; all count in one place.

    Args:
        address: address of the server.
        pause: longest pause of a client between two requests, in seconds.
    """

    def __init__(self, address: str, pause: float = 0.2) -> None:
        self.address = address
        self.names = Names(address)
        self.pause = pause
        self.times: dict[str, list[float]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self._over = threading.Event()
        roles = [self._ask] * 6 + [self._send_invalid, self._disconnect, self._be_slow]
        self._threads = [
            threading.Thread(target=self._repeat, args=(role, seed), daemon=True)
            for seed, role in enumerate(roles)
        ]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)

    def _repeat(self, role: Callable[..., None], seed: int) -> None:
        mix = Mix(self.names, rng := random.Random(seed))
        with httpx.Client(base_url=self.address, timeout=60) as client:
            while not self._over.wait(rng.uniform(0, self.pause)):
                try:
                    role(client, mix)
                except (httpx.TransportError, OSError) as error:
                    self.errors.append(f"{role.__name__}: {error!r}")

    def _ask(self, client: httpx.Client, mix: Mix) -> None:
        kind, (method, path, more) = mix.next()
        started = time.monotonic()
        answer = client.request(method, path, **more)
        seconds = time.monotonic() - started
        if answer.status_code in LIMITED:
            self.counts[f"{answer.status_code}: {kind}"] += 1
        elif answer.status_code != 200:
            self.errors.append(f"{method} {path} {more}: {answer.status_code} {answer.text[:200]}")
        else:
            self.times[kind].append(seconds)

    def _send_invalid(self, client: httpx.Client, mix: Mix) -> None:
        method, path, more = invalid_request(mix.names, mix.rng)
        answer = client.request(method, path, **more)
        self.counts["invalid"] += 1
        if not 400 <= answer.status_code < 500:
            self.errors.append(f"{method} {path}: {answer.status_code}, 4xx expected")

    def _disconnect(self, _: httpx.Client, mix: Mix) -> None:
        """Leave within the request, while the response is computed, or within the response."""
        content, rng = _large_request(mix), mix.rng
        with self._connect() as there:
            whole = rng.random() < 0.5
            there.sendall(content if whole else content[: rng.randrange(len(content))])
            if whole and rng.random() < 0.5:
                there.recv(1000)
        self.counts["disconnected"] += 1

    def _be_slow(self, _: httpx.Client, mix: Mix) -> None:
        """Send the request, or read the response, bit by bit; some leave before the end."""
        content, rng = _large_request(mix), mix.rng
        with self._connect() as there:
            if rng.random() < 0.5:
                with suppress(ConnectionError):  # the server may end this first
                    for start in range(0, 40 * rng.randint(1, 30), 40):
                        there.sendall(content[start : start + 40])
                        self._over.wait(0.5)
            else:
                there.sendall(content)
                for _ in range(rng.randint(1, 30)):
                    if not there.recv(2000):
                        break
                    self._over.wait(0.5)
        self.counts["slow"] += 1

    def _connect(self) -> socket.socket:
        host, port = self.address.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), 60)


def _large_request(mix: Mix) -> bytes:
    body = json.dumps(mix.batch()[2]["json"] | {"top": 100}).encode()
    head = (
        "POST /api/predict/batch HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


# Measurements.


def sample(pid: int) -> dict[str, float]:
    """Return the resident memory, the open descriptors and the threads of a process."""
    process = Path(f"/proc/{pid}")
    return {
        "memory_mb": memory(pid),
        "descriptors": len(list((process / "fd").iterdir())),
        "threads": len(list((process / "task").iterdir())),
    }


def growth(values: Sequence[float]) -> dict[str, float]:
    """Return the medians of the second and last tenth, and how much the line between them grows.

    >>> growth(range(100))
    {'before': 14.5, 'after': 94.5, 'most': 99, 'trend': 80.0}
    """
    tenth = max(1, len(values) // 10)
    times = np.arange(tenth, len(values))
    slope = float(np.polyfit(times, values[tenth:], 1)[0]) if len(times) > 1 else 0.0
    return {
        "before": round(statistics.median(values[tenth : 2 * tenth]), 1),
        "after": round(statistics.median(values[-tenth:]), 1),
        "most": round(max(values), 1),
        "trend": round(slope * (len(values) - 2 * tenth), 1),
    }


def is_flat(measured: Mapping[str, float], kind: str) -> bool:
    """Return whether something stays within its tolerance."""
    allowed = TOLERANCE[kind](measured["before"])
    return max(measured["after"] - measured["before"], measured["trend"]) <= allowed


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """Return the number of requests and quantiles of their times in milliseconds."""
    p50, p99 = np.quantile(seconds, (0.5, 0.99)) * 1000
    longest = max(seconds) * 1000
    return {"count": len(seconds), "p50": round(p50), "p99": round(p99), "longest": round(longest)}


def soak(minutes: float, folder: Path) -> dict[str, Any]:
    """Run everything for so long and return the measurements."""
    run = folder / "run"
    fivestar.train(out=run, **TRAINING | {"epochs": 30})
    (folder / "trained").mkdir()
    (folder / "evaluated").mkdir()
    load = [round(os.getloadavg()[0], 1)]
    samples: dict[str, list[dict[str, float]]] = defaultdict(list)
    with ExitStack() as stack:
        pid, address = stack.enter_context(serving(run))
        fill_cache(address)
        training, trained = stack.enter_context(repeating("train", str(folder / "trained")))
        words = ("evaluate", str(run), str(folder / "evaluated"))
        evaluation, evaluated = stack.enter_context(repeating(*words))
        clients = stack.enter_context(Clients(address))
        pids = {"training": training, "evaluation": evaluation, "server": pid}
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            time.sleep(INTERVAL)
            for name, each in pids.items():
                samples[name].append(sample(each))
        load.append(round(os.getloadavg()[0], 1))
    measured = {
        name: {kind: growth([each[kind] for each in rows]) for kind in TOLERANCE}
        for name, rows in samples.items()
    }
    times = clients.times
    return {
        "minutes": minutes,
        "page_is_built": static_page.is_built(),
        "load": load,
        "trainings": trained["done"],
        "evaluations": evaluated["done"],
        "processes": measured,
        "latency_ms": {kind: latency(times[kind]) for kind in sorted(times)},
        "counts": dict(sorted(clients.counts.items())),
        "errors": clients.errors[:20],
        "error_count": len(clients.errors),
        "flat": all(is_flat(m[kind], kind) for m in measured.values() for kind in m),
    }


def fill_cache(address: str) -> None:
    """Request so many maps that the bounded cache of responses is full from the beginning."""
    with httpx.Client(base_url=address, timeout=60) as client:
        for limit in range(2000, 3000, 8):
            client.get("/api/map", params={"limit": limit}).raise_for_status()


# The page.


def section(record: Mapping[str, Any]) -> str:
    """Return a record in Markdown."""
    rows = [["process", "memory (MB)", "most", "descriptors", "threads"]]
    for name, kinds in record["processes"].items():
        cells = [f"{kinds[k]['before']:,.0f} → {kinds[k]['after']:,.0f}" for k in TOLERANCE]
        rows.append([name, cells[0], f"{kinds['memory_mb']['most']:,.0f}", *cells[1:]])
    columns = ("429 or 503", "504", "p50 (ms)", "p99 (ms)", "longest (ms)")
    answered = [["requests", "answered", *columns]]
    for kind, numbers in record["latency_ms"].items():
        full, busy, late = (record["counts"].get(f"{status}: {kind}", 0) for status in LIMITED)
        times = (numbers[k] for k in ("p50", "p99", "longest"))
        cells = [numbers["count"], full + busy, late, *times]
        answered.append([kind, *(f"{cell:,}" for cell in cells)])
    total = sum(numbers["count"] for numbers in record["latency_ms"].values())
    counts = record["counts"]
    verdict = "Nothing grew" if record["flat"] else "**Something grew**"
    return (
        f"{record['minutes']:g} minutes, medians of the second and of the last tenth "
        f"({record['trainings']:,} trainings, {record['evaluations']:,} evaluations):\n\n"
        f"{markdown_table(rows)}\n\n{verdict} by more than the tolerance (memory: 5 % or 10 MB, "
        "descriptors: 5, threads: 1; the same for the trend of all samples). "
        f"{total:,} requests were answered, {counts['invalid']:,} invalid ones refused, "
        f"{counts['disconnected']:,} clients disconnected, {counts['slow']:,} were slow; "
        f"{record['error_count']:,} errors.\n\n{markdown_table(answered)}\n\n"
        f"Commit {record['commit']}, {record['machine']}, {record['date']}; load average "
        f"{record['load'][0]:g} before and {record['load'][1]:g} at the end: "
        "the clients and other processes used the same cores.\n"
    )


def page() -> str:
    """Return docs/reliability.md with the section of the last record."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    records = read_records(RECORDS)
    text = section(records[-1]) if records else "Not recorded yet.\n"
    return before + BEGIN + "\n" + text + "\n" + END + after


def main() -> None:
    """Run the soak test, or one of its processes."""
    match sys.argv[1:]:
        case ["train", folder]:
            train_forever(Path(folder))
        case ["evaluate", run, folder]:
            evaluate_forever(Path(run), Path(folder))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--record", action="store_true", help="keep the result")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = soak(chosen.minutes, Path(folder))
    print(json.dumps(result, indent=1))
    if chosen.record:
        append_record(RECORDS, result)
        PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0 if result["flat"] and not result["error_count"] else 1)


if __name__ == "__main__":
    main()
