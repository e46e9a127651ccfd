"""`fivestar evaluate`: rank the held-out triples of a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.tables import name_column, named, print_table
from fivestar.cli.terminal import out, ranking_progress
from fivestar.errors import SettingsError
from fivestar.graph.choices import CandidateChoice

if TYPE_CHECKING:
    from fivestar.graph.vocabulary import Vocabulary
    from fivestar.prediction.predictions import Named

# Smallest difference in MRR for which the ranking without self-answers is printed as well.
_NOTABLE = 0.005
EXAMPLE = "Example: fivestar evaluate my_run --split test --by relation"


@with_local_runs
def evaluate(  # noqa: PLR0913  (one per option)
    run: RunFolder,
    *,
    split: Annotated[
        Literal["train", "valid", "test"], typer.Option(help="Split to evaluate.")
    ] = "test",
    graph: Annotated[
        str | None,
        typer.Option(
            help="Evaluate on the triples of this graph instead (matched by name).",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        Literal["links", "classification", "relations"],
        typer.Option(help="Link prediction, triple classification or relation prediction."),
    ] = "links",
    by: Annotated[
        Literal["relation", "side", "category", "seen"] | None,
        typer.Option(
            help="Group the metrics by relation, side, category (1-1, 1-N …) or seen entities.",
            show_default=False,
        ),
    ] = None,
    hits: Annotated[str, typer.Option(help="Values of k for hits@k, comma-separated.")] = "1,3,10",
    memory: Annotated[
        str | None,
        typer.Option(help="Limit of the working set, as in 1GiB.", show_default=False),
    ] = None,
    sampled: Annotated[
        int,
        typer.Option(
            min=0,
            help="Rank a random sample of this many queries, two per triple, and estimate the "
            "metrics of all (0: rank all).",
        ),
    ] = 0,
    candidates: Annotated[
        CandidateChoice,
        typer.Option(
            help="Also rank among the entities observed on that side of the relation in train, or "
            "among those that share a type with one observed."
        ),
    ] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print all metrics as JSON.")] = False,
) -> None:
    """Evaluate a run: filtered ranks of heads and tails among all entities."""
    counts = _counts(hits)
    model = fivestar.load(run)
    if graph is None and not len(model.graph.split(split)):
        raise SettingsError(f"{run}: has no {split} triples; choose another --split")
    if task != "links" and (graph or by or sampled or candidates != "all"):
        raise SettingsError(
            f"--graph, --by, --sampled and --candidates need --task links, not {task}"
        )
    with ranking_progress() as progress:
        metrics = model.evaluate(
            split,
            by=by,
            task=task,
            hits=counts,
            graph=graph,
            memory=memory,
            sampled=sampled,
            candidates=candidates,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps(metrics, indent=2, ensure_ascii=False))
    elif task == "links":
        _show(metrics, by, counts, model.graph.relations)
    else:
        print_table(list(metrics), [[_number(value) for value in metrics.values()]])


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise SettingsError(f"--hits takes whole numbers from 1 on, as in 1,3,10 (not {text!r})")
    return counts


def _show(
    metrics: dict[str, Any], by: str | None, hits: tuple[int, ...], relations: Vocabulary
) -> None:
    shown = ("mrr", *(f"hits@{k}" for k in hits), "mr", "count")
    groups: list[tuple[str | Named, dict[str, Any]]] = [
        ("both sides", metrics),
        ("heads", metrics["heads"]),
        ("tails", metrics["tails"]),
    ]
    for name, values in metrics.get(f"by_{by}", {}).items():
        groups.append((named(relations, name) if by == "relation" else name, values))
    rows = [
        (group, *(f"{v[key]:,.4g}" if key == "mr" else _number(v[key]) for key in shown))
        for group, v in groups
        if v
    ]
    print_table([name_column(""), *shown], rows)
    if "among" in metrics:
        _show_among(metrics["among"], shown)
    if "sampled" in metrics:
        out.print(_sampled(metrics["sampled"], hits), soft_wrap=True)
    low, high = metrics["mrr_95"]
    out.print(
        f"MRR {metrics['mrr']:.4f} (95 % confidence interval {low:.4f} to {high:.4f}), optimistic "
        f"{metrics['mrr_optimistic']:.4f}, pessimistic {metrics['mrr_pessimistic']:.4f}; adjusted "
        f"mean rank index {metrics['amri']:.4f}; heads by {metrics['heads_by']}"
    )
    out.print(_self_answers(metrics, hits), soft_wrap=True)


def _show_among(among: dict[str, Any], shown: tuple[str, ...]) -> None:
    """Print the metrics among the candidates of each relation, which are not the standard ones."""
    groups = {"both sides": among, "heads": among["heads"], "tails": among["tails"]}
    rows = [
        (group, *(f"{v[key]:,.4g}" if key == "mr" else _number(v[key]) for key in shown))
        for group, v in groups.items()
    ]
    about = {"observed": "observed with the relation in train", "types": "of the same types"}
    title = f"Among entities {about[among['candidates']]}: not the standard protocol"
    print_table([name_column(""), *shown], rows, title=title)
    out.print(
        f"{among['mean_candidates']:,.1f} candidates per query on average; {among['outside']:,} of "
        f"{among['count']:,} true answers are none of them and are ranked among them nevertheless",
        soft_wrap=True,
    )


def _sampled(sampled: dict[str, Any], hits: tuple[int, ...]) -> str:
    """Return how many queries were ranked, and what that says about all of them."""
    if sampled["queries"] == sampled["of"]:
        return f"All {sampled['of']:,} queries were ranked: the split has no more"
    names = ("mrr", *(f"hits@{k}" for k in hits))
    ends = [
        f"{'MRR' if name == 'mrr' else name} {low:.4f} to {high:.4f}"
        for name in names
        for low, high in [sampled[f"{name}_95"]]
    ]
    return (
        f"Estimates from a random sample of {sampled['queries']:,} of {sampled['of']:,} queries, "
        f"each ranked among all entities; 95 % confidence intervals for all: {', '.join(ends)}"
    )


def _self_answers(metrics: dict[str, Any], hits: tuple[int, ...]) -> str:
    """Return the self-answer rate, and the metrics without self-answers where they differ."""
    rate = metrics["self_answer_rate"]
    text = f"Self-answer rate {rate:.1%} (queries whose own entity outranks the target)"
    without = metrics["mrr_without_self"]
    if abs(without - metrics["mrr"]) <= _NOTABLE:
        return text
    shown = [f"hits@{k} {metrics[f'hits@{k}_without_self']:.4f}" for k in hits]
    return (
        f"{text}\nMRR without self-answers {without:.4f}, {', '.join(shown)}: the standard "
        "protocol above counts the query's own entity as a candidate, but fivestar ask leaves it "
        "out of its answers unless self-loops are common in the relation."
    )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
