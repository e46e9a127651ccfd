"""Measure what grows with a graph: reading, training, memory, ranking and start-up.

For each size a graph is generated (`fivestar graph generate`, five triples per entity) and every
stage runs in a process of its own, so that its peak memory is its own. Speed is that of 5★E with
d = 100, 4,096 sampled candidates and row-adagrad; two processes that share the entity table take
turns with one process that has two threads, so both cores must be idle: the cores that other
processes have used meanwhile are recorded beside the medians. Each finished size is a line of
results/scale.jsonl; `--table` prints them as a table.

    python benchmarks/scale.py --entities 1e4 1e5 1e6 5e6 --folder /data/generated
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fivestar.experiments.records import append_record, read_records
from fivestar.experiments.results import markdown_table
from fivestar.runs.units import format_bytes

RESULTS = Path(__file__).parents[1] / "results" / "scale.jsonl"
_TRIPLES_PER_ENTITY = 5
_RELATIONS = 100
_DIM = 100
_QUERIES = 500
_TRAINING = {
    "epochs": 1,
    "optimizer": "row-adagrad",
    "num_candidates": 4096,
    "batch_size": 500,
    "evaluate_every": 0,
    "patience": 0,
    "seed": 0,
}
# Threads and processes of each way to train.
ALTERNATIVES = {"one thread": (1, 1), "two threads": (2, 1), "two processes": (1, 2)}
PARTS = ("train", "answers")
# Each is called with the arguments and returns what it measured.
STAGES = ("ingest", "train", "rank", "answer")
_KEYS = (
    "seconds_per_million",
    "cpu_seconds_per_million",
    "peak_bytes",
    "initialization_seconds",
    "triples_per_step",
)


def generate(entities: int, folder: Path, triples_per_entity: int = _TRIPLES_PER_ENTITY) -> Path:
    """Return a generated graph; it is written once."""
    from fivestar.graph.generation import GeneratedGraph, generate_graph

    out = folder / f"graph-{entities}-{triples_per_entity}"
    if not out.exists():
        graph = GeneratedGraph(entities, _RELATIONS, triples_per_entity * entities)
        generate_graph(graph, out)
    return out


def ingest(given: argparse.Namespace) -> dict[str, Any]:
    """Read a graph."""
    import fivestar

    start = time.perf_counter()
    graph = fivestar.read_graph(given.graph)
    return {"seconds": time.perf_counter() - start, "triples": len(graph.facts)}


def train(given: argparse.Namespace) -> dict[str, Any]:
    """Take steps for some seconds; under torchrun, in several processes."""
    import fivestar
    from fivestar.errors import Paused
    from fivestar.training.loop import Trainer
    from fivestar.training.processes import join_processes

    join_processes("cpu")
    graph = fivestar.read_graph(given.graph)
    training = {**_TRAINING, "threads": given.threads}
    values = {"model": {"dim": _DIM}, "training": training}
    start = time.perf_counter()
    trainer = Trainer(graph, fivestar.make_settings(values))
    initialized = time.perf_counter()
    marks: list[tuple[float, float, float]] = []

    def on_step(epochs: float) -> None:
        marks.append((time.perf_counter(), time.process_time(), epochs))
        is_over = marks[-1][0] - marks[0][0] > given.seconds
        if trainer.model.shard.from_first(float(is_over)):
            raise Paused("enough")

    with contextlib.suppress(Paused):
        trainer.run(None, on_step)
    # The first steps allocate and warm up.
    first, last = marks[min(3, len(marks) - 2)], marks[-1]
    # As in step_cost.py, a triple counts once for each of its two queries.
    millions = (last[2] - first[2]) * 2 * len(graph.train) / 1e6
    return {
        "seconds_per_million": (last[0] - first[0]) / millions,
        "cpu_seconds_per_million": (last[1] - first[1]) / millions,
        "initialization_seconds": initialized - start,
        "triples_per_step": 1e6 * millions / (len(marks) - 1 - marks.index(first)),
        "steps": len(marks),
        "is_first": os.environ.get("RANK", "0") == "0",
    }


def _save_untrained(given: argparse.Namespace) -> Path:
    """Save an untrained model as a run: what answering costs does not depend on its weights."""
    import torch

    import fivestar
    from fivestar.evaluation.calibration import calibrate
    from fivestar.runs.run import Run, begin_run, build_model, save_run

    out = Path(given.graph).with_name(f"run-{Path(given.graph).name}")
    if not out.exists():
        graph = fivestar.read_graph(given.graph)
        settings = fivestar.make_settings({"model": {"dim": _DIM}}).for_graph(graph)
        model = build_model(graph, settings)
        model.reset_parameters(torch.Generator().manual_seed(0))
        begin_run(graph, settings, out)
        # A trained run has its calibration; without one, the first answer would compute it.
        calibration = calibrate(model, graph, most=20).as_json()
        metrics = {"epochs": 0, "seconds": 0.0, "calibration": calibration}
        save_run(Run(graph, settings, model, metrics, []), out)
    return out


def rank(given: argparse.Namespace) -> dict[str, Any]:
    """Rank some test facts among all entities."""
    import fivestar
    from fivestar.evaluation.report import evaluate
    from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
    from fivestar.training.validation import sample_triples

    start = time.perf_counter()
    model = fivestar.load(_save_untrained(given))
    loaded = time.perf_counter()
    sample = sample_triples(model.graph.test, _QUERIES)
    known = KnownAnswers.of(with_reciprocals(model.graph.facts, len(model.graph.relations)))
    known_at, cpu = time.perf_counter(), time.process_time()
    evaluate(model.model, model.graph, sample, known)
    thousands = 2 * len(sample) / 1000
    return {
        "load_seconds": loaded - start,
        "known_answers_seconds": known_at - loaded,
        "seconds_per_1000": (time.perf_counter() - known_at) / thousands,
        "cpu_seconds_per_1000": (time.process_time() - cpu) / thousands,
    }


def answer(given: argparse.Namespace) -> dict[str, Any]:
    """Answer questions as `fivestar ask` does: the first one, and others."""
    import fivestar

    model = fivestar.load(_save_untrained(given))
    names = model.graph.entities.names_of(range(20))
    relation = model.graph.relations.name_of(0)
    seconds = []
    for name in names:
        start = time.perf_counter()
        model.predict_tails(name, relation, top=10)
        seconds.append(time.perf_counter() - start)
    return {"first_seconds": seconds[0], "seconds": statistics.median(seconds[1:])}


def in_process(stage: str, given: argparse.Namespace, threads: int = 1, processes: int = 1) -> Any:
    """Run a stage in processes of its own and return what the first one reports."""
    words = [__file__, "--stage", stage, "--graph", str(given.graph)]
    words += ["--threads", str(threads), "--seconds", str(given.seconds)]
    launch = [sys.executable]
    if processes > 1:
        options = ["--standalone", "--nproc-per-node", str(processes)]
        launch += ["-m", "torch.distributed.run", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    before, start = other_cpu_seconds(), time.perf_counter()
    done = subprocess.run([*launch, *words], env=environment, stdout=subprocess.PIPE, check=True)
    busy = (other_cpu_seconds() - before) / (time.perf_counter() - start)
    lines = [json.loads(line) for line in done.stdout.decode().splitlines() if line[:1] == "{"]
    first = next(line for line in lines if line.get("is_first", True))
    return {**first, "other_cores": round(busy, 2)}


def other_cpu_seconds() -> float:
    """Return the CPU seconds of all processes but those that this one has started (Linux)."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    ticks = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0].split()[1:]
    spent = dict(zip(names, map(int, ticks), strict=False))
    busy = sum(n for name, n in spent.items() if name not in ("idle", "iowait"))
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return busy / os.sysconf("SC_CLK_TCK") - own.ru_utime - own.ru_stime


def measure(entities: int, given: argparse.Namespace) -> dict[str, Any]:
    """Measure all stages at one size."""
    given.graph = generate(entities, given.folder)
    line: dict[str, Any] = {
        "entities": entities,
        "triples_per_entity": _TRIPLES_PER_ENTITY,
        "relations": _RELATIONS,
        "dim": _DIM,
        "training": _TRAINING,
        "seconds_per_round": given.seconds,
    }
    if "train" in given.parts:
        line |= _in_turns(given)
    if "answers" in given.parts:
        line["ingest"] = in_process("ingest", given)
        in_process("rank", given)  # saves the run
        line |= {stage: in_process(stage, given) for stage in ("rank", "answer")}
    return line


def _in_turns(given: argparse.Namespace) -> dict[str, Any]:
    """Train in each of the ways, in turns; return the medians, and all rounds."""
    rounds: dict[str, list[Any]] = {name: [] for name in given.ways}
    for _ in range(given.rounds):
        for name in given.ways:
            threads, processes = ALTERNATIVES[name]
            rounds[name].append(in_process("train", given, threads, processes))
    return {
        name: {
            **{key: statistics.median(each[key] for each in found) for key in _KEYS},
            "rounds": [round(each["seconds_per_million"], 2) for each in found],
            "other_cores": [each["other_cores"] for each in found],
        }
        for name, found in rounds.items()
    }


def merged(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one record per size, from its lines; later ones take precedence."""
    sizes: dict[int, dict[str, Any]] = {}
    for line in lines:
        sizes[line["entities"]] = sizes.get(line["entities"], {}) | line
    return [sizes[size] for size in sorted(sizes)]


def table(lines: list[dict[str, Any]]) -> str:
    """Return what grows with the number of entities, and what does not."""
    rows = [["entities", "triples", "read", "peak", "begin training", "train", "ratio", "peak"]]
    rows[0] += ["load a run", "begin ranking", "rank 1,000", "first answer", "others", "peak"]
    lines = [line for line in lines if "ingest" in line and "one thread" in line]
    first = lines[0]["one thread"]["cpu_seconds_per_million"] if lines else 1.0
    for line in lines:
        ingest, one = line["ingest"], line["one thread"]
        rows.append(
            [
                f"{line['entities']:,}",
                f"{ingest['triples']:,}",
                f"{ingest['seconds']:.1f} s",
                format_bytes(ingest["peak_bytes"]),
                f"{one['initialization_seconds']:.1f} s",
                f"{one['cpu_seconds_per_million']:.1f} s",
                f"{one['cpu_seconds_per_million'] / first:.2f}",
                format_bytes(int(one["peak_bytes"])),
                f"{line['rank']['load_seconds']:.1f} s",
                f"{line['rank']['known_answers_seconds']:.1f} s",
                f"{line['rank']['cpu_seconds_per_1000']:.1f} s",
                f"{1000 * line['answer']['first_seconds']:,.0f} ms",
                f"{1000 * line['answer']['seconds']:.0f} ms",
                format_bytes(line["answer"]["peak_bytes"]),
            ]
        )
    return markdown_table(rows)


def commits(lines: list[dict[str, Any]]) -> str:
    """Return with which commit each part of the tables was measured."""
    parts = {"one thread": "begin training, train, peak", "ingest": "read, load, rank, answers"}
    parts |= dict.fromkeys(("two threads", "two processes"), "two threads, two processes")
    measured = {
        (parts[key], line["entities"]): (line["commit"], line["date"])
        for line in lines
        for key in parts
        if key in line
    }
    found: dict[tuple[str, ...], list[str]] = {}
    for (part, entities), commit in sorted(measured.items()):
        found.setdefault((part, *commit), []).append(f"{entities:,}")
    rows = [[part, " and ".join(sizes), *commit] for (part, *commit), sizes in found.items()]
    return markdown_table([["columns", "entities", "commit", "date"], *rows])


def process_table(lines: list[dict[str, Any]]) -> str:
    """Return the speed of one thread, of two and of two processes."""
    rows = [["entities", *ALTERNATIVES, "× two threads", "memory of each", "other cores busy"]]
    for line in lines:
        if not ALTERNATIVES.keys() <= line.keys():
            continue
        speeds = {name: line[name]["seconds_per_million"] for name in ALTERNATIVES}
        pairs = zip(line["two threads"]["rounds"], line["two processes"]["rounds"], strict=True)
        busy = [share for name in ALTERNATIVES for share in line[name]["other_cores"]]
        rows.append(
            [
                f"{line['entities']:,}",
                *(f"{speed:.1f} s" for speed in speeds.values()),
                f"{statistics.median(threads / pair for threads, pair in pairs):.2f}",
                format_bytes(int(line["two processes"]["peak_bytes"])),
                f"{max(0.0, min(busy)):.2f}–{max(busy):.2f}",
            ]
        )
    return markdown_table(rows)


def main() -> None:
    """Measure what is missing, or one stage in this process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--entities", type=float, nargs="+", default=[1e4, 1e5, 1e6])
    parser.add_argument("--folder", type=Path, default=Path("generated"))
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement of training")
    parser.add_argument("--rounds", type=int, default=3, help="of the ways to train")
    parser.add_argument("--ways", nargs="+", choices=ALTERNATIVES, default=list(ALTERNATIVES))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--graph", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        from peak_memory import peak

        found = globals()[given.stage](given)
        if found.get("is_first", True):  # lines of several processes would mix
            print(json.dumps({**found, "peak_bytes": peak()}), flush=True)
        return
    for entities in [] if given.table else map(int, given.entities):
        given.folder.mkdir(parents=True, exist_ok=True)
        append_record(RESULTS, measure(entities, given))
    lines = merged(read_records(RESULTS))
    print(table(lines), process_table(lines), sep="\n")


if __name__ == "__main__":
    main()
