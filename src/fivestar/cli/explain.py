"""`fivestar explain`: analogous facts, supporting paths and contribution per dimension."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.tables import name_column, number_column, print_table, prose_column
from fivestar.cli.terminal import out

if TYPE_CHECKING:
    from fivestar.prediction.explanation import Contributions, Explanation, FilteredRank
    from fivestar.prediction.neighbors import Analogy
    from fivestar.prediction.path_patterns import SupportingPaths
    from fivestar.prediction.predictions import Named

EXAMPLE = "Example: fivestar explain my_run Lyon in_country France"


@with_local_runs
def explain(
    run: RunFolder,
    head: Annotated[str, typer.Argument(help="Name or label.")],
    relation: Annotated[str, typer.Argument(help="Name or label.")],
    tail: Annotated[str, typer.Argument(help="Name or label.")],
    *,
    top: Annotated[
        int, typer.Option(help="Number of analogous facts, path patterns and dimensions.", min=1)
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Explain the score of a triple: analogous facts, supporting paths, contribution per dimension.

    Paths have at most three steps in either direction and never use the triple itself.
    """
    found = fivestar.load(run).explain(head, relation, tail, top)
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=1, ensure_ascii=False, allow_nan=False))
        return
    _show_fact(found)
    _show_findings(found)
    _show_analogies(found)
    _show_paths(found.paths)
    _show_dimensions(found.dimensions)


def _say(text: str, style: str = "") -> None:
    """Print text, never as markup: it quotes user data."""
    out.print(Text(text, style=style), soft_wrap=True)


def _show_fact(found: Explanation) -> None:
    _say(f"{found.head.label}  {found.relation.label}  {found.tail.label}", "bold")
    if any(each.id != each.label for each in (found.head, found.relation, found.tail)):
        _say(f"{found.head.id}  {found.relation.id}  {found.tail.id}")
    _say("new: not in the graph" if found.state == "new" else found.state_text)
    _say(
        f"score {found.score:.3f}, {_rank(found.tail_rank)} tails, "
        f"{_rank(found.head_rank)} heads (filtered)"
    )
    if found.probability is not None:
        tail, head = found.tail_rank.probability, found.head_rank.probability
        _say(
            f"probability {found.probability:.1%}: the mean of {tail:.1%} as a tail and "
            f"{head:.1%} as a head"
        )


def _rank(rank: FilteredRank) -> str:
    return f"rank {rank.rank:,g} of {rank.candidates:,}"


def _show_findings(found: Explanation) -> None:
    from fivestar.prediction.findings import findings_of  # noqa: PLC0415  (slow to import)

    findings = findings_of(found)
    title = "For (+) and against (−) it in train"
    _say(f"\n{title if findings else 'Nothing in train speaks for or against it.'}", "bold")
    for finding in findings:
        _say(f"{finding}")


def _show_analogies(found: Explanation) -> None:
    if not found.analogies:
        _say("\nNo other fact of this relation in train.", "bold")
        return
    relation, facts = found.relation.label, found.relation_triples
    _say(f"\nMost similar of {facts:,} facts of {relation} in train", "bold")
    titles = ("head similarity", "tail similarity", "both")
    rows: list[tuple[str | Named, ...]] = [
        (fact.head, fact.tail, *(f"{value:.2f}" for value in _similarities(fact)))
        for fact in found.analogies
    ]
    print_table([name_column("head"), name_column("tail"), *map(number_column, titles)], rows)


def _similarities(fact: Analogy) -> tuple[float, float, float]:
    return fact.head_similarity, fact.tail_similarity, fact.similarity


def _show_paths(paths: SupportingPaths) -> None:
    from fivestar.prediction.findings import describe_pattern  # noqa: PLC0415  (slow to import)

    if not paths.patterns:
        _say("No path of at most three steps connects them in train.", "bold")
        return
    counts = ", ".join(f"{count:,} of length {n}" for n, count in paths.paths_by_length.items())
    part = "" if paths.complete else " (a random sample: both are hubs)"
    is_all = paths.num_screened == paths.num_patterns
    screened = "" if is_all else f", {paths.num_screened:,} of them evaluated"
    _say(f"Paths between them in train: {counts}{part}", "bold")
    _say(
        f"Path patterns: {paths.num_patterns:,}{screened}; {paths.num_supporting:,} of "
        f"{paths.num_measured:,} measured support the triple. The most reliable:"
    )
    for pattern in paths.patterns:
        _say(f"\n  {' '.join(map(str, pattern.links))}")
        _say(f"    {describe_pattern(pattern, paths.base_rate)};")
        _say(f"    {pattern.count:,} between these two, for example {pattern.example_text()}")


def _show_dimensions(found: Contributions | None) -> None:
    if found is None:
        _say("\nThe score of this model is not a sum over dimensions.", "bold")
        return
    title = f"\nLargest contributions of {found.num_dimensions:,} dimensions"
    total = f"positive {found.positive:.3f}, negative {found.negative:.3f}"
    bias = f", bias {found.bias:.3f}" if found.bias else ""
    _say(f"{title} ({total}{bias})", "bold")
    has_maps = any(each.map for each in found.largest)
    columns = [number_column("dimension"), number_column("contribution")]
    if has_maps:
        columns += [prose_column("map"), prose_column("class")]
    rows = [
        (
            str(each.dimension),
            f"{each.contribution:+.3f}",
            *((each.map.description, each.map.map_class) if each.map else ("", "")[: 2 * has_maps]),
        )
        for each in found.largest
    ]
    print_table(columns, rows)
