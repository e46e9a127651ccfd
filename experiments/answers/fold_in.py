"""How good are entities that are folded in? Held out entirely, half their facts told, half asked.

300 entities are taken out of the graph with all their facts: 100 to choose how long and how fast
to fit, 200 to judge. Each tells half of its facts; the other half is ranked (filtered), where the
new entity is the answer, where an old one is, and on the average. The facts of validation, all of
old entities, are ranked before and after: new entities should not push into their answers.
Beside it: where fitting begins (the mean of entities with the same facts), a random vector, and
training from nothing on the whole graph with the told facts.

python experiments/answers/fold_in.py nell-995-h100 --runs runs
    --settings experiments/nell-995-h100-mobius.toml
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import fivestar
from fivestar.evaluation.metrics import metrics
from fivestar.evaluation.ranking import rank_answers
from fivestar.experiments.ledger import provenance
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.graph.triples import Triples
from fivestar.prediction.fold_in import fold_in
from fivestar.runs.run import Run
from fivestar.runs.settings import read_settings

LEAST_FACTS = 6
CHOOSING, JUDGING = 100, 200
CANDIDATES = [(epochs, lr) for epochs in (5, 20, 100) for lr in (0.03, 0.1, 0.3)]

Fact = tuple[str, str, str]
Parts = dict[str, list[list[Fact]]]


def cut(
    graph: fivestar.KnowledgeGraph, seed: int
) -> tuple[list[Fact], dict[str, list[list[Fact]]]]:
    """The facts without some entities, and (told, asked) of those to choose by and to judge."""
    rng = np.random.default_rng(seed)
    rows = [tuple(row.values()) for row in graph.named(graph.facts).to_pylist()]
    about: dict[str, list[Fact]] = {}
    for fact in rows:
        for name in {fact[0], fact[2]}:
            about.setdefault(name, []).append(fact)
    often = sorted(name for name, facts in about.items() if len(facts) >= LEAST_FACTS)
    held = [often[i] for i in rng.permutation(len(often))[: CHOOSING + JUDGING]]
    gone = set(held)
    rest = [fact for fact in rows if not {fact[0], fact[2]} & gone]
    known = {name for fact in rest for name in (fact[0], fact[2])}
    relations = {fact[1] for fact in rest}
    parts: Parts = {"choose": [[], []], "judge": [[], []]}
    for number, name in enumerate(held):
        mine = [
            fact
            for fact in about[name]
            if fact[1] in relations and {fact[0], fact[2]} - {name} <= known
        ]
        order = rng.permutation(len(mine))
        for place, at in enumerate(order):
            parts["choose" if number < CHOOSING else "judge"][place % 2].append(mine[at])
    return rest, parts


def figures(run: Run, asked: list[Fact], facts: list[Fact], new: list[str]) -> dict[str, float]:
    """MRR and hits of asked facts, both sides, all that is true left out."""
    names = run.graph.entities, run.graph.relations, run.graph.entities

    def numbers(some: list[Fact]) -> Triples:
        known = [f for f in some if all(x in v for x, v in zip(f, names, strict=True))]
        return Triples.of([tuple(v.id_of(x) for v, x in zip(names, f, strict=True)) for f in known])

    count = len(run.graph.relations)
    known = KnownAnswers.of(with_reciprocals(numbers(facts), count))
    queries, answers = both_sides(numbers(asked), count)
    ranks = rank_answers(run.model, queries, answers, known)
    found = {name: metrics(ranks)[name] for name in ("mrr", "hits@10")} | {"asked": len(queries)}
    answer_new = np.isin(answers, [run.graph.entities.id_of(name) for name in new])
    for side, chosen in (("new", answer_new), ("old", ~answer_new)):
        if chosen.any():
            found[f"mrr, answer {side}"] = float((1 / ranks.realistic[chosen]).mean())
    return found


def random_rows(run: Run, count: int, seed: int) -> Run:
    """The last `count` entities anywhere, as far from 0 as the others."""
    with torch.no_grad():
        table = run.model.entities
        spread = table[:-count].std()
        generator = torch.Generator().manual_seed(seed)
        table[-count:] = torch.randn(count, table.shape[1], generator=generator) * spread
    return run


def trained(
    graph: fivestar.KnowledgeGraph, settings: fivestar.Settings, folder: Path
) -> fivestar.TrainedModel:
    """A run, trained to its end before, or now."""
    if (folder / "manifest.json").exists():
        return fivestar.load(folder)
    if folder.exists():
        return fivestar.resume(folder)
    return fivestar.train(graph, settings, folder)


def main() -> None:
    """Cut, train, fold in, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph")
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="a folder for the trained runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/fold_in.json"))
    given = parser.parse_args()
    settings = read_settings(given.settings)
    graph = fivestar.read_graph(given.graph)
    every = [tuple(row.values()) for row in graph.named(graph.facts).to_pylist()]
    rest, parts = cut(graph, given.seed)
    base = fivestar.split_graph(fivestar.read_graph(rest), valid=0.03, test=0.0, seed=given.seed)
    run = trained(base, settings, given.runs / "base")
    seconds = {"base": run.metrics["seconds"]}
    print(f"base: {base}, {seconds['base']:.0f} s", flush=True)
    told, asked = parts["choose"]
    chosen = {}
    for epochs, lr in CANDIDATES:
        folded = fold_in(run, told, epochs, lr)
        chosen[epochs, lr] = figures(folded.run, asked, every, folded.new)["mrr"]
        print(f"epochs {epochs} lr {lr}: MRR {chosen[epochs, lr]:.3f}", flush=True)
    epochs, lr = max(chosen, key=chosen.__getitem__)
    told, asked = parts["judge"]
    began = time.perf_counter()
    folded = fold_in(run, told, epochs, lr)
    seconds["fold_in"] = time.perf_counter() - began
    new = folded.new
    found = {"fold-in": figures(folded.run, asked, every, new)}
    guess = fold_in(run, told, 0, lr).run
    found["first guess"] = figures(guess, asked, every, new)
    found["random vector"] = figures(random_rows(guess, len(new), given.seed), asked, every, new)
    old_facts = [tuple(row.values()) for row in base.named(base.valid).to_pylist()]
    found["old facts before"] = figures(run, old_facts, every, [])
    found["old facts after"] = figures(folded.run, old_facts, every, [])
    told_too = fivestar.split_graph(
        fivestar.read_graph(rest + told), valid=0.03, test=0.0, seed=given.seed
    )
    scratch = trained(told_too, settings, given.runs / "from_nothing")
    seconds["from nothing"] = scratch.metrics["seconds"]
    found["from nothing"] = figures(scratch, asked, every, new)
    for name, values in found.items():
        print(f"{name:16}", "  ".join(f"{key} {value:.3f}" for key, value in values.items()))
    result = {
        **provenance(),
        "graph": given.graph,
        "settings": str(given.settings),
        "seed": given.seed,
        "entities": {"choose": CHOOSING, "judge": len(new)},
        "facts": {"told": len(told), "asked": len(asked)},
        "chosen": {"epochs": epochs, "lr": lr},
        "candidates": [{"epochs": e, "lr": r, "mrr": m} for (e, r), m in chosen.items()],
        "figures": found,
        "seconds": seconds,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
