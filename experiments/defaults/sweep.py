"""Train every setting of a plan on every graph and keep the validation metrics.

    python experiments/defaults/sweep.py experiments/defaults/fivestar.toml --processes 2

Each finished trial is one line of results/defaults.jsonl. Trials that are already there are
skipped, so the command resumes after a kill. Only validation is used to choose; test is never
ranked. Each process uses one thread. A plan with `clock = "cpu"` limits trainings by CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "defaults.jsonl"
Trial = dict[str, Any]


def planned(plan: dict[str, Any], graphs: list[str]) -> list[Trial]:
    """Return all trials, setting by setting, so that a part of the plan covers every graph.

    A plan for several models lists them under `models`; its settings are named `model/setting`. A
    setting with its own `models` is tried with these only.
    """
    return [
        {
            "plan": plan["plan"],
            "defaults": plan.get("defaults", 1),
            "method": plan.get("method", "default"),
            "train_sample": plan.get("train-sample", 0),
            "clock": plan.get("clock", "wall"),
            "setting": f"{model}/{name}" if model else name,
            "data": graph,
            "model": {
                **plan.get("model", {}),
                **({"name": model} if model else {}),
                **changes.get("model", {}),
            },
            "training": {
                **plan.get("training", {}),
                **plan.get("graph", {}).get(graph, {}),
                **changes.get("training", {}),
            },
        }
        for name, changes in plan["settings"].items()
        for model in changes.get("models", plan.get("models", [None]))
        for graph in graphs or changes.get("graphs", plan["graphs"])
    ]


def run_trial(trial: Trial) -> Trial:
    """Train once and return the line for the results file."""
    import torch  # noqa: PLC0415  (after the number of threads is set)

    import fivestar  # noqa: PLC0415
    from fivestar.experiments.ledger import provenance  # noqa: PLC0415
    from fivestar.runs.identity import learned_settings  # noqa: PLC0415
    from fivestar.training.clock import cpu_time  # noqa: PLC0415
    from fivestar.training.loop import Trainer  # noqa: PLC0415

    torch.set_num_threads(1)
    graph = fivestar.read_graph(trial["data"])
    training = {**trial["training"], "threads": 1}
    values = {"model": trial["model"], "training": training}
    if trial["method"] == "default":
        values["defaults"] = trial["defaults"]
    else:
        values["method"] = trial["method"]
    settings = fivestar.make_settings(values).for_graph(graph)
    line = {key: trial[key] for key in ("plan", "setting", "data")} | provenance()
    line["settings_values"] = learned_settings(settings)
    line["seed"] = settings.training.seed
    curve: list[list[float]] = []

    def watch(epoch: dict[str, Any]) -> None:
        if "valid_mrr" in epoch:
            point = (epoch["epoch"], epoch["seconds"] / 60, epoch["valid_mrr"])
            curve.append([point[0], *(round(x, 4) for x in point[1:])])

    started = time.process_time()
    try:
        with cpu_time() if trial["clock"] == "cpu" else nullcontext():
            trainer = Trainer(graph, settings)
            model = trainer.run(watch)
    except fivestar.FivestarError as error:
        return line | {"failed": str(error)}
    best = max(curve, key=lambda point: point[2])
    if trial["train_sample"]:
        line["train_mrr"] = round(train_mrr(model, graph, trial["train_sample"]), 4)
    return line | {
        "valid_mrr": best[2],
        "best_epoch": best[0],
        "minutes": curve[-1][1],
        "cpu_minutes": round((time.process_time() - started) / 60, 4),
        "self_answers": {
            split: round(self_answer_rate(model, graph, split), 4) for split in ("valid", "test")
        },
        "curve": curve,
    }


def train_mrr(model: Any, graph: Any, count: int) -> float:
    """Return the filtered MRR of a fixed sample of train triples, for the gap to validation."""
    from fivestar.evaluation.report import evaluate  # noqa: PLC0415
    from fivestar.training.validation import sample_triples  # noqa: PLC0415

    sample = sample_triples(graph.train, 2 * count)
    return float(evaluate(model, graph, sample).metrics()["mrr"])


def self_answer_rate(model: Any, graph: Any, split: str) -> float:
    """Return the share of queries whose own entity outranks the target without being an answer."""
    import torch  # noqa: PLC0415

    from fivestar.graph.known_answers import with_reciprocals  # noqa: PLC0415

    relations = len(graph.relations)
    loops = graph.facts.array[graph.facts.heads == graph.facts.tails]
    true = {(h, r) for h, r, _ in loops.tolist()}
    queries = with_reciprocals(graph.split(split), relations)
    count = 0
    with torch.no_grad():
        for first in range(0, len(queries), 4096):
            some = queries.array[first : first + 4096]
            h, r, t = (torch.as_tensor(some[:, i], dtype=torch.int64) for i in range(3))
            above = model.score(h, r, h) > model.score(h, r, t)
            count += sum(
                is_above and (head, relation % relations) not in true
                for is_above, head, relation in zip(
                    above.tolist(), h.tolist(), r.tolist(), strict=True
                )
            )
    return count / len(queries)


def main() -> None:
    """Run what is missing."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("plan", type=Path)
    arguments.add_argument("--graphs", nargs="*", default=[], help="only these graphs")
    arguments.add_argument("--settings", nargs="*", default=[], help="only these settings")
    arguments.add_argument("--processes", type=int, default=1)
    arguments.add_argument("--out", type=Path, default=RESULTS)
    given = arguments.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    plan = tomllib.loads(given.plan.read_text(encoding="utf-8")) | {"plan": given.plan.stem}
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    key = ("plan", "setting", "data")
    done = {tuple(json.loads(line)[k] for k in key) for line in lines}
    trials = [
        trial
        for trial in planned(plan, given.graphs)
        if tuple(trial[k] for k in key) not in done
        and (not given.settings or trial["setting"] in given.settings)
    ]
    # Not max_tasks_per_child: with Python 3.11 the pool hangs when a worker has done its share.
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        for finished in as_completed([pool.submit(run_trial, trial) for trial in trials]):
            line = finished.result()
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            print(
                line["plan"],
                line["setting"],
                line["data"],
                line.get("valid_mrr", line.get("failed")),
                line.get("minutes"),
                flush=True,
            )


if __name__ == "__main__":
    main()
