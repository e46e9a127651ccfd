"""Write docs/defaults.md from results/defaults*.jsonl: which settings work on which graphs.

python experiments/defaults/table.py
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import regularization_table

from fivestar.experiments.pages import fill
from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table
from fivestar.experiments.tables import format_metric
from fivestar.runs.defaults import baseline
from fivestar.runs.renamed import current_names

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "defaults.md"
RESULTS = ROOT / "results"
# Graphs on which the default weight is the weak one: dense, or with redundant facts.
WEAK = frozenset({"nations", "kinships", "umls", "wn18", "fb15k"})
ORDER = [
    *("nations", "kinships", "umls", "demo"),
    *("nell-995-h100", "nell-995-h75", "nell-995-h50", "nell-995-h25"),
    *("wn18rr", "wn18", "wd50k", "fb15k-237", "fb15k"),
]
LABELS = {"fivestar": "5★E", "complex": "ComplEx", "quate": "QuatE"}
MODELS = list(LABELS)
Scores = dict[str, dict[str, float]]  # setting → graph → validation MRR
Trials = list[dict[str, Any]]


def read_trials(path: Path, plan: str) -> Trials:
    """Return the trials of a plan."""
    return [line for line in read_records(path) if line["plan"] == plan]


def by_setting(trials: Trials) -> Scores:
    """Return the validation MRR of each setting on each graph; 0 where training diverged."""
    scores: Scores = defaultdict(dict)
    for trial in trials:
        scores[trial["setting"]][trial["data"]] = trial.get("valid_mrr", 0.0)
    return dict(scores)


def best_on(scores: Scores, graph: str) -> float:
    """Return the best validation MRR found on a graph."""
    return max(row[graph] for row in scores.values() if graph in row)


def picked_without(scores: Scores, graph: str, others: list[str]) -> str:
    """Return the setting with the best mean ratio to the best found, over the other graphs.

    Only settings that were tried on the graph and on all others can be picked.

    >>> rows = {"a": {"x": 0.5, "y": 0.2, "z": 0.4}, "b": {"x": 0.1, "y": 0.4, "z": 0.4}}
    >>> picked_without(rows, "x", ["x", "y", "z"]), picked_without(rows, "y", ["x", "y", "z"])
    ('b', 'a')
    """
    others = [other for other in others if other != graph]

    def mean_ratio(setting: str) -> float:
        ratios = [scores[setting][other] / best_on(scores, other) for other in others]
        return sum(ratios) / len(ratios)

    return max((s for s in scores if {graph, *others} <= set(scores[s])), key=mean_ratio)


def leave_one_out(scores: Scores, groups: list[list[str]]) -> dict[str, tuple[str, float, float]]:
    """Return per graph the setting picked on the others of its group, its MRR, and the best."""
    found = {}
    for group in groups:
        for graph in group:
            pick = picked_without(scores, graph, group)
            found[graph] = (pick, scores[pick][graph], best_on(scores, graph))
    return found


def mrr(value: float | None, best: float | None = None) -> str:
    """Return an MRR as papers print it, the best in bold."""
    if value is None:
        return "–"
    return f"**{format_metric(value)}**" if value == best else format_metric(value)


def matrix(scores: Scores, trials: Trials) -> str:
    """Return all trials, one column per graph, with the number of trials and their minutes."""
    rows = [["setting", *ORDER]]
    best = {graph: best_on(scores, graph) for graph in ORDER}
    for setting, row in scores.items():
        rows.append([_short(setting), *(mrr(row.get(graph), best[graph]) for graph in ORDER)])
    by_graph = {graph: [trial for trial in trials if trial["data"] == graph] for graph in ORDER}
    rows.append(["trials", *(str(len(own)) for own in by_graph.values())])
    minutes = (sum(trial.get("minutes", 0.0) for trial in own) for own in by_graph.values())
    rows.append(["minutes", *(f"{total:.1f}" for total in minutes)])
    return markdown_table(rows)


def _short(setting: str) -> str:
    spaced = setting.replace("_", ".").replace("-reg", ", reg-weight ").replace("lr", "lr ")
    named = spaced.replace("slow-", "slow b and c, ").replace("identity-", "identity, ")
    return named.replace("exponent", "exponent ")


def leave_one_out_table(scores: Scores) -> str:
    """Return the results of leaving one graph out, with one setting for all or one per group."""
    constant = leave_one_out(scores, [ORDER])
    groups = [[g for g in ORDER if g in WEAK], [g for g in ORDER if g not in WEAK]]
    by_group = leave_one_out(scores, groups)
    rows = [["graph", "best found", "one for all graphs", "ratio", "one per group", "ratio"]]
    for graph in ORDER:
        pick, value, best = constant[graph]
        own, own_value, _ = by_group[graph]
        both = ((pick, value), (own, own_value))
        cells = [(f"{_short(name)}: {mrr(v)}", f"{v / best:.3f}") for name, v in both]
        rows.append([graph, mrr(best), *cells[0], *cells[1]])
    means = [sum(v / b for _, v, b in found.values()) / 13 for found in (constant, by_group)]
    rows.append(["mean", "", "", f"{means[0]:.3f}", "", f"{means[1]:.3f}"])
    return markdown_table(rows)


def rates_table(scores: Scores) -> str:
    """Return the MRR with b and c at the full learning rate and at a tenth of it, side by side."""
    pairs = {name: name.removeprefix("slow-") for name in scores if name.startswith("slow-")}
    pairs = {slow: full for slow, full in pairs.items() if full in scores}
    rows = [["graph", *(_short(full) for full in pairs.values())]]
    for graph in ORDER:
        cells = []
        for slow, full in pairs.items():
            values = scores[full].get(graph), scores[slow].get(graph)
            known = None not in values
            cells.append(f"{mrr(values[0])} → {mrr(values[1])}" if known else "")
        rows.append([graph, *cells])
    return markdown_table(rows)


def defaults_table(found: Scores, finals: Trials) -> str:
    """Return the results of the defaults of 5★E and ComplEx, and the best that was ever found.

    Args:
        found: All other trials of 5★E.
        finals: The trainings of the defaults, present and former.
    """
    own = {(trial["setting"], trial["data"]): trial for trial in finals}
    heads = ("5★E default", "minutes", "exponent 3", "b and c at full rate", "best found", "ratio")
    rows = [["graph", *heads, "ComplEx default", "minutes"]]
    ratios: list[float] = []
    for graph in ORDER:
        names = ("fivestar-default", "fivestar-slow", "fivestar", "complex")
        ours, *before, rival = (own.get((setting, graph)) for setting in names)
        value = ours["valid_mrr"] if ours else None
        former = [trial["valid_mrr"] if trial else None for trial in before]
        own_best = [trial["valid_mrr"] for trial in finals if _is_fivestar(trial, graph)]
        best = max(best_on(found, graph), *own_best)
        ratio = f"{value / best:.3f}" if value else "–"
        mine = (mrr(value), _minutes(ours), *map(mrr, former), mrr(best), ratio)
        rows.append([graph, *mine, mrr(rival["valid_mrr"] if rival else None), _minutes(rival)])
        ratios += [value / best] if value else []
    mean = sum(ratios) / len(ratios)
    rows.append(["mean", *[""] * 5, f"{mean:.3f}", "", ""])
    return markdown_table(rows)


def precision_table(trials: Trials, finals: Trials) -> str:
    """Return the default with products in float32 and in bfloat16, means over the same seeds."""
    rows = [["graph", "seeds", "float32", "bfloat16", "difference", "CPU minutes"]]
    plain = [t | {"setting": "float32-seed0"} for t in finals if t["setting"] == "fivestar-default"]
    own = {(t["setting"], t["data"]): t for t in plain + trials}
    for graph in ORDER:
        pairs = [
            (own[f"float32-seed{seed}", graph], own[f"bf16-seed{seed}", graph])
            for seed in range(3)
            if (f"float32-seed{seed}", graph) in own and (f"bf16-seed{seed}", graph) in own
        ]
        if not pairs:
            continue
        exact, rough = (
            sum(trial["valid_mrr"] for trial in column) / len(pairs)
            for column in zip(*pairs, strict=True)
        )
        minutes = " / ".join(f"{trial['cpu_minutes']:.2g}" for trial in pairs[0])
        difference = f"{rough - exact:+.4f}".replace("-", "−")
        rows.append([graph, str(len(pairs)), mrr(exact), mrr(rough), difference, minutes])
    return markdown_table(rows)


def _is_fivestar(trial: dict[str, Any], graph: str) -> bool:
    return trial["data"] == graph and trial["setting"].startswith("fivestar")


def budget_table(lines: Trials, finals: Trials, ledger: Trials) -> str:
    """Return the validation MRR of the default, of each time budget and of the recipe."""
    budgets = sorted({line["budget"] for line in lines}, key=lambda budget: int(budget[:-1]))
    default = {t["data"]: t["valid_mrr"] for t in finals if t["setting"] == "fivestar-default"}
    found = {(line["data"], line["budget"]): line for line in lines}
    rows = [["graph", "default", *(f"budget {budget}" for budget in budgets), "recipe"]]
    for graph in ORDER:
        cells = [_budget_cell(found.get((graph, budget))) for budget in budgets]
        recipe = recipe_mrr(ledger, graph)
        rows.append([graph, mrr(default.get(graph)), *cells, mrr(recipe)])
    return markdown_table(rows)


def by_budget(lines: Trials) -> Scores:
    """Return the validation MRR of each time budget on each graph."""
    scores: Scores = defaultdict(dict)
    for line in lines:
        scores[line["budget"]][line["data"]] = line["valid_mrr"]
    return dict(scores)


def _budget_cell(line: dict[str, Any] | None) -> str:
    if line is None:
        return "–"
    minutes, seconds = divmod(round(line["seconds_used"]), 60)
    kept = "; kept the default" if line["winner_is_default"] else ""
    return f"{mrr(line['valid_mrr'])} ({minutes}:{seconds:02}, {line['trials']} settings{kept})"


def recipe_mrr(ledger: Trials, graph: str) -> float | None:
    """Return the best validation MRR (mean over seeds) of 5★E (d = 100) in the paper's tables."""
    by_settings: dict[str, list[float]] = defaultdict(list)
    for line in ledger:
        is_cell = line["experiment"].startswith("table-") and line["model"] == "fivestar"
        if is_cell and (line["data"], line["dim"]) == (graph, 100):
            by_settings[line["settings"]].append(line["valid"]["mrr"])
    return max((sum(values) / len(values) for values in by_settings.values()), default=None)


def _minutes(trial: dict[str, Any] | None) -> str:
    return f"{trial['minutes']:.1f}" if trial else "–"


def self_answers(trials: Trials, finals: Trials) -> str:
    """Return the self-answer rates on test before and after, graph by graph."""
    rates = {(t["setting"], t["data"]): t["self_answers"]["test"] for t in trials + finals}
    columns = {
        "identity": "identity-lr0_3-reg0_12",
        "rotation, same settings": "lr0_3-reg0_12",
        "rotation, b and c at a tenth": "slow-lr0_3-reg0_12",
        "default": "fivestar-default",
        "ComplEx default": "complex",
    }
    rows = [["graph", *columns]]
    for graph in ORDER:
        cells = [rates.get((setting, graph)) for setting in columns.values()]
        rows.append([graph, *("–" if cell is None else f"{cell:.1%}" for cell in cells)])
    return markdown_table(rows)


def exponents_table(trials: Trials, base: Scores) -> str:
    """Return the trials of other exponents beside the best weight with exponent 3 on each graph.

    Args:
        trials: The trials of other exponents.
        base: The trials with exponent 3; those with b and c at a tenth of the rate are compared.
    """
    graphs = [graph for graph in ORDER if any(trial["data"] == graph for trial in trials)]
    slow = {name: row for name, row in base.items() if name.startswith("slow-")}
    best = {
        graph: max((row[graph], name) for name, row in slow.items() if graph in row)
        for graph in graphs
    }
    rows = [["exponent, reg-weight", *graphs]]
    weights = (best[graph][1].rpartition("reg")[2].replace("_", ".") for graph in graphs)
    cells = (f"{mrr(best[g][0])} ({weight})" for g, weight in zip(graphs, weights, strict=True))
    rows.append(["3, the best weight above", *cells])
    for setting, row in sorted(by_setting(trials).items()):
        rate, _, rest = setting.replace("_", ".").partition("exponent")
        exponent, _, weight = rest.partition("-reg")
        note = ", b and c at 0.03" if rate else ""
        cells = (_compared(row.get(graph), best[graph][0]) for graph in graphs)
        rows.append([f"{exponent}, {weight}{note}", *cells])
    return markdown_table(rows)


def _compared(value: float | None, base: float) -> str:
    if value is None:
        return "–"
    gap = f"{value - base:+.3f}".replace("0.", ".").replace("-", "−")
    return f"{mrr(value)} ({gap})"


def dimension_table(trials: Trials, tried: Trials) -> str:
    """Return the validation MRR by learning rate at dimensions above 100, the best in bold.

    Args:
        trials: Those of dimension.toml.
        tried: Single trainings, of which those count that give a dimension and a learning rate.
    """
    single = [it for it in tried if {"dim", "lr"} <= {w.split("=")[0] for w in it["given"].split()}]
    found: dict[tuple[str, str, int, int], dict[float, list[float]]] = {}
    for line in [*trials, *single]:
        values = {name: current_names(part) for name, part in line["settings_values"].items()}
        training = {**baseline()["training"], **values["training"]}
        model = line.get("setting", "fivestar").split("-")[0]
        key = model, line["data"], values["model"]["dim"], training["epochs"]
        found.setdefault(key, {}).setdefault(training["lr"], []).append(line["valid_mrr"])
    rows = [["model", "graph", "d", "epochs", "seeds", "validation MRR by learning rate"]]
    for key in sorted(found, key=lambda it: (MODELS.index(it[0]), it[2], ORDER.index(it[1]))):
        means = {lr: fmean(mrrs) for lr, mrrs in sorted(found[key].items(), reverse=True)}
        best = max(means.values())
        cells = [
            f"{lr:g}: {f'**{mrr(it)}**' if it == best else mrr(it)}" for lr, it in means.items()
        ]
        model, graph, dim, epochs = key
        seeds = min(map(len, found[key].values()))
        rows.append([LABELS[model], graph, str(dim), str(epochs), str(seeds), ", ".join(cells)])
    return markdown_table(rows)


def models_table(trials: Trials) -> str:
    """Return the validation MRR of every model's default on the small graphs."""
    scores = by_setting(trials)
    graphs = ("umls", "kinships", "nations", "demo")
    rows = [["model", *graphs]]
    rows += [[model, *(mrr(row.get(graph)) for graph in graphs)] for model, row in scores.items()]
    return markdown_table(rows)


def revised_table(trials: Trials) -> str:
    """Return the trials that some models' defaults were revised by; the best of a model in bold."""
    scores = by_setting(trials)
    graphs = [graph for graph in ORDER if any(graph in row for row in scores.values())]
    rows = [["setting", *graphs]]
    for setting, row in scores.items():
        model = setting.split("-")[0]
        own = [other for name, other in scores.items() if name.split("-")[0] == model]
        best = {g: max(other.get(g, 0.0) for other in own) for g in graphs}
        rows.append([_short(setting), *(mrr(row.get(graph), best[graph]) for graph in graphs)])
    return markdown_table(rows)


def page() -> str:
    """Return the page."""
    path = RESULTS / "defaults.jsonl"
    trials, finals = read_trials(path, "fivestar"), read_trials(path, "default")
    regularization = RESULTS / "regularization.jsonl"
    budgets, ledger = (read_records(RESULTS / f"{name}.jsonl") for name in ("budget", "ledger"))
    exponents = read_trials(path, "exponents")
    scores = by_setting(trials)
    short = {**scores, **by_setting(exponents)}
    recipes = {graph: recipe_mrr(ledger, graph) for graph in ORDER}
    found = {**short, **by_budget(budgets)}
    found["recipe"] = {graph: value for graph, value in recipes.items() if value is not None}
    parts = {
        "MATRIX": lambda: matrix(scores, trials),
        "RATES": lambda: rates_table(scores),
        "JUDGED": lambda: leave_one_out_table(short),
        "DEFAULTS": lambda: defaults_table(found, finals),
        "BUDGET": lambda: budget_table(budgets, finals, ledger),
        "EXPONENTS": lambda: exponents_table(exponents, scores),
        "SELF": lambda: self_answers(trials, finals),
        "PRECISION": lambda: precision_table(read_trials(path, "precision"), finals),
        "DIMENSION": lambda: dimension_table(
            read_trials(RESULTS / "dimension.jsonl", "dimension"),
            read_records(RESULTS / "tried.jsonl"),
        ),
        "MODELS": lambda: models_table(read_trials(path, "models")),
        "REVISED": lambda: revised_table(
            read_trials(RESULTS / "defaults_revised.jsonl", "revised")
        ),
        "ARMS": lambda: regularization_table.table(regularization, "off-diagonal-lr 0.1"),
        "FORMER_ARMS": lambda: regularization_table.table(regularization, None),
    }
    return fill((Path(__file__).parent / "about.md").read_text(encoding="utf-8"), parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
