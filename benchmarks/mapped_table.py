"""Measure training with an entity table that is larger than memory.

    python benchmarks/mapped_table.py --entities 3e6 --dim 500 --limit 6GiB --folder /data/generated

A graph is generated (`fivestar graph generate`), and each contestant trains for some minutes in a
process of its own: with the table in memory; and within a memory cgroup, whose limit includes the
page cache, with the table in mapped files, with and without partitions. Needs root and Linux.
Each measurement is a line of results/mapped_table.jsonl, with the cores that other processes have
used meanwhile; `--table` prints them as a table.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scale import generate, other_cpu_seconds

from fivestar.experiments.records import append_record, read_records
from fivestar.experiments.results import markdown_table
from fivestar.runs.units import format_bytes, parse_bytes

RESULTS = Path(__file__).parents[1] / "results" / "mapped_table.jsonl"
CONTESTANTS = ("memory", "mmap, partitions", "mmap")
_TRIPLES_PER_ENTITY = 2
_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
# Steps before the clock starts.
_WARM_UP = 20


@contextlib.contextmanager
def memory_cgroup(limit: int | None) -> Iterator[Path | None]:
    """Yield a new memory cgroup (version 1 or 2) with a limit; None without a limit."""
    if limit is None:
        yield None
        return
    is_v1 = _V1.is_dir()
    group = (_V1 if is_v1 else _V2) / f"fivestar-{os.getpid()}"
    group.mkdir()
    try:
        name = "memory.limit_in_bytes" if is_v1 else "memory.max"
        (group / name).write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def peak_of(group: Path) -> int:
    """Return the largest number of bytes that a cgroup has used, page cache included."""
    names = ("memory.max_usage_in_bytes", "memory.peak")
    return next(int((group / name).read_text()) for name in names if (group / name).exists())


def train(given: argparse.Namespace) -> dict[str, Any]:
    """Take steps for some minutes and return their speed."""
    import fivestar
    from fivestar.errors import Paused
    from fivestar.training.loop import Trainer

    graph = fivestar.read_graph(given.graph)
    values = {
        "model": {"dim": given.dim},
        "training": {
            "epochs": 1,
            "optimizer": given.optimizer,
            "threads": given.threads,
            "num_candidates": 4096,
            "batch_size": 500,
            "evaluate_every": 0,
            "patience": 0,
            "table": given.kind,
            "partitions": given.partitions,
            "memory": given.limit,
        },
    }
    began = time.perf_counter()
    trainer = Trainer(graph, fivestar.make_settings(values))
    initialized = time.perf_counter()
    marks: list[tuple[float, float, int, float]] = []

    def on_step(_: float) -> None:
        io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        moved = int(io["read_bytes"]) + int(io["write_bytes"])
        marks.append(
            (time.perf_counter(), float(trainer.progress.triples), moved, time.process_time())
        )
        if marks[-1][0] - marks[0][0] > 60 * given.minutes:
            raise Paused("enough")

    with contextlib.suppress(Paused):
        trainer.run(None, on_step)
    first, last = marks[min(_WARM_UP, len(marks) // 2)], marks[-1]
    return {
        "table_bytes": 4 * trainer.model.entities.numel(),
        "initialization_seconds": initialized - began,
        "triples_per_second": (last[1] - first[1]) / (last[0] - first[0]),
        "cpu_seconds_per_million": (last[3] - first[3]) / (last[1] - first[1]) * 1e6,
        "disk_bytes_per_second": (last[2] - first[2]) / (last[0] - first[0]),
        "steps": len(marks),
    }


def measure(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Run a contestant in a process of its own, in a cgroup if it has a limit."""
    words = [sys.executable, __file__, "--train", "--graph", str(given.graph)]
    for option in ("dim", "optimizer", "threads", "minutes"):
        words += [f"--{option}", str(getattr(given, option))]
    limit = None if name == "memory" else parse_bytes(given.limit)
    if limit is not None:
        words += ["--kind", "mmap", "--limit", given.limit]
    if name == "mmap, partitions":
        words += ["--partitions", str(given.partitions)]
    elif limit is not None:
        words.remove("--limit")  # without partitions, no table fits into it
        words.remove(given.limit)
    with memory_cgroup(limit) as group:

        def join() -> None:
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        before, start = other_cpu_seconds(), time.perf_counter()
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, preexec_fn=join)
        busy = (other_cpu_seconds() - before) / (time.perf_counter() - start)
        found = json.loads(done.stdout.decode().splitlines()[-1])
        peak = None if group is None else peak_of(group)
    settings = {key: getattr(given, key) for key in ("dim", "optimizer", "threads", "minutes")}
    settings["entities"] = int(given.entities)
    settings["partitions"] = given.partitions if name == "mmap, partitions" else 1
    line = {"contestant": name, "limit": limit, "peak_bytes": peak, **found}
    return line | {"settings": settings, "other_cores": round(busy, 2)}


def medians(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return for each contestant the median of each number of its lines."""
    found: dict[str, dict[str, Any]] = {}
    for name in CONTESTANTS:
        own = [line for line in lines if line["contestant"] == name]
        if own:
            keys = [key for key, value in own[0].items() if isinstance(value, int | float)]
            numbers = {key: statistics.median(line[key] for line in own) for key in keys}
            found[name] = {**own[0], **numbers, "measurements": len(own)}
    return found


def table(lines: list[dict[str, Any]]) -> str:
    """Return the measurements as a table."""
    rows = [["table", "limit", "peak, with page cache", "triples/s", "ratio"]]
    rows[0] += ["CPU s per million", "disk", "initialization", "other cores busy"]
    found = medians(lines)
    for name, line in found.items():
        limit, peak = (
            line[key] and format_bytes(int(line[key])) for key in ("limit", "peak_bytes")
        )
        speed = line["triples_per_second"]
        rows.append(
            [
                f"{format_bytes(int(line['table_bytes']))}, {name}",
                limit or "–",
                peak or "–",
                f"{speed:,.0f}",
                f"{speed / found['memory']['triples_per_second']:.2f}",
                f"{line['cpu_seconds_per_million']:.0f}",
                f"{format_bytes(int(line['disk_bytes_per_second']))}/s",
                f"{line['initialization_seconds']:.0f} s",
                f"{line['other_cores']:.1f}",
            ]
        )
    return markdown_table(rows)


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--entities", type=float, default=3e6)
    parser.add_argument("--dim", type=int, default=500)
    parser.add_argument("--limit")
    parser.add_argument("--folder", type=Path, default=Path("generated"))
    parser.add_argument("--optimizer", default="row-adagrad")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--table", action="store_true")
    for internal in ("--train", "--graph", "--kind"):
        is_flag = internal == "--train"
        action = {"action": "store_true"} if is_flag else {"default": "memory"}
        parser.add_argument(internal, help=argparse.SUPPRESS, **action)  # type: ignore[arg-type]
    given = parser.parse_args()
    if given.train:
        print(json.dumps(train(given)))
        return
    if not given.table:
        given.limit = given.limit or "6GiB"
        given.graph = generate(int(given.entities), given.folder, _TRIPLES_PER_ENTITY)
        for name in given.contestants:
            append_record(RESULTS, measure(name, given))
    print(table(read_records(RESULTS)))


if __name__ == "__main__":
    main()
