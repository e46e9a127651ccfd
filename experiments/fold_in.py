"""Measure inductive fold-in: entities are held out, half of their facts given, half ranked.

300 entities are removed from the graph with all their facts: 100 to choose the epochs and the
learning rate, 200 for the results. Half of the facts of each entity are given; the other half is
ranked (filtered): where the new entity is the answer, where an old one is, and on average. The
validation facts, which are all about old entities, are ranked before and after: new entities should
not displace their answers. Baselines: the initial vector (the mean of entities with the same
facts), a random vector, and training from scratch on the whole graph with the given facts.

python experiments/fold_in.py nell-995-h100 --runs runs
    --settings src/fivestar/experiments/recipes/figures/nell-995-h100-fivestar.toml
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import fivestar
from fivestar.evaluation.metrics import rank_metrics
from fivestar.evaluation.ranking import rank_answers
from fivestar.experiments.ledger import provenance
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.graph.triples import Triples
from fivestar.prediction.fold_in import fold_in
from fivestar.runs.run import Run
from fivestar.runs.settings import read_settings

MIN_FACTS = 6
NUM_TUNING, NUM_TEST = 100, 200
GRID = [(epochs, lr) for epochs in (5, 20, 100) for lr in (0.03, 0.1, 0.3)]

Fact = tuple[str, str, str]
Parts = dict[str, list[list[Fact]]]


def hold_out(
    graph: fivestar.KnowledgeGraph, seed: int
) -> tuple[list[Fact], dict[str, list[list[Fact]]]]:
    """Return the remaining facts, and (given, ranked) facts of the entities for tuning and test."""
    rng = np.random.default_rng(seed)
    rows = [tuple(row.values()) for row in graph.named(graph.facts).to_pylist()]
    about: dict[str, list[Fact]] = {}
    for fact in rows:
        for name in {fact[0], fact[2]}:
            about.setdefault(name, []).append(fact)
    frequent = sorted(name for name, facts in about.items() if len(facts) >= MIN_FACTS)
    held_out = [frequent[i] for i in rng.permutation(len(frequent))[: NUM_TUNING + NUM_TEST]]
    removed = set(held_out)
    rest = [fact for fact in rows if not {fact[0], fact[2]} & removed]
    known = {name for fact in rest for name in (fact[0], fact[2])}
    relations = {fact[1] for fact in rest}
    parts: Parts = {"tune": [[], []], "test": [[], []]}
    for number, name in enumerate(held_out):
        facts = [
            fact
            for fact in about[name]
            if fact[1] in relations and {fact[0], fact[2]} - {name} <= known
        ]
        order = rng.permutation(len(facts))
        for position, index in enumerate(order):
            parts["tune" if number < NUM_TUNING else "test"][position % 2].append(facts[index])
    return rest, parts


def fact_metrics(
    run: Run, ranked: list[Fact], facts: list[Fact], new: list[str]
) -> dict[str, float]:
    """Return MRR and hits of facts on both sides, filtered by all facts."""
    names = run.graph.entities, run.graph.relations, run.graph.entities

    def ids(some: list[Fact]) -> Triples:
        known = [f for f in some if all(x in v for x, v in zip(f, names, strict=True))]
        return Triples.of([tuple(v.id_of(x) for v, x in zip(names, f, strict=True)) for f in known])

    count = len(run.graph.relations)
    known = KnownAnswers.of(with_reciprocals(ids(facts), count))
    queries, answers = both_sides(ids(ranked), count)
    ranks = rank_answers(run.model, queries, answers, known)
    values = {name: rank_metrics(ranks)[name] for name in ("mrr", "hits@10")} | {
        "asked": len(queries)
    }
    answer_new = np.isin(answers, [run.graph.entities.id_of(name) for name in new])
    for side, chosen in (("new", answer_new), ("old", ~answer_new)):
        if chosen.any():
            values[f"mrr, answer {side}"] = float((1 / ranks.realistic[chosen]).mean())
    return values


def random_rows(run: Run, count: int, seed: int) -> Run:
    """Replace the last `count` entities by random vectors with the variance of the others."""
    with torch.no_grad():
        table = run.model.entities
        spread = table[:-count].std()
        generator = torch.Generator().manual_seed(seed)
        table[-count:] = torch.randn(count, table.shape[1], generator=generator) * spread
    return run


def trained(
    graph: fivestar.KnowledgeGraph, settings: fivestar.Settings, folder: Path
) -> fivestar.TrainedModel:
    """Load a run, or resume or start its training."""
    if (folder / "manifest.json").exists():
        return fivestar.load(folder)
    if folder.exists():
        return fivestar.resume(folder)
    return fivestar.train(graph, settings, folder)


def main() -> None:
    """Hold out, train, fold in, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the trained runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/fold_in.json"))
    arguments = parser.parse_args()
    settings = read_settings(arguments.settings)
    graph = fivestar.read_graph(arguments.graph)
    every = [tuple(row.values()) for row in graph.named(graph.facts).to_pylist()]
    rest, parts = hold_out(graph, arguments.seed)
    base = fivestar.split_graph(
        fivestar.read_graph(rest), valid=0.03, test=0.0, seed=arguments.seed
    )
    run = trained(base, settings, arguments.runs / "base")
    seconds = {"base": run.metrics["seconds"]}
    print(f"base: {base}, {seconds['base']:.0f} s", flush=True)
    given, ranked = parts["tune"]
    tuned = {}
    for epochs, lr in GRID:
        folded = fold_in(run, given, epochs, lr)
        tuned[epochs, lr] = fact_metrics(folded.run, ranked, every, folded.new)["mrr"]
        print(f"epochs {epochs} lr {lr}: MRR {tuned[epochs, lr]:.3f}", flush=True)
    epochs, lr = max(tuned, key=tuned.__getitem__)
    given, ranked = parts["test"]
    start = time.perf_counter()
    folded = fold_in(run, given, epochs, lr)
    seconds["fold_in"] = time.perf_counter() - start
    new = folded.new
    results = {"fold-in": fact_metrics(folded.run, ranked, every, new)}
    initial = fold_in(run, given, 0, lr).run
    results["first guess"] = fact_metrics(initial, ranked, every, new)
    randomized = random_rows(initial, len(new), arguments.seed)
    results["random vector"] = fact_metrics(randomized, ranked, every, new)
    old_facts = [tuple(row.values()) for row in base.named(base.valid).to_pylist()]
    results["old facts before"] = fact_metrics(run, old_facts, every, [])
    results["old facts after"] = fact_metrics(folded.run, old_facts, every, [])
    with_given = fivestar.split_graph(
        fivestar.read_graph(rest + given), valid=0.03, test=0.0, seed=arguments.seed
    )
    scratch = trained(with_given, settings, arguments.runs / "from_nothing")
    seconds["from nothing"] = scratch.metrics["seconds"]
    results["from nothing"] = fact_metrics(scratch, ranked, every, new)
    for name, values in results.items():
        print(f"{name:16}", "  ".join(f"{key} {value:.3f}" for key, value in values.items()))
    line = {
        **provenance(),
        "graph": arguments.graph,
        "settings": str(arguments.settings),
        "seed": arguments.seed,
        "entities": {"choose": NUM_TUNING, "judge": len(new)},
        "facts": {"told": len(given), "asked": len(ranked)},
        "chosen": {"epochs": epochs, "lr": lr},
        "candidates": [{"epochs": e, "lr": r, "mrr": m} for (e, r), m in tuned.items()],
        "figures": results,
        "seconds": seconds,
    }
    arguments.out.write_text(json.dumps(line, indent=1) + "\n")


if __name__ == "__main__":
    main()
