"""`fivestar graph info`: statistics of a graph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from fivestar.cli.source import Reading, Source, read_source, reads_a_source
from fivestar.cli.terminal import out, warn

if TYPE_CHECKING:
    from fivestar.graph.relation_patterns import RelationRule
    from fivestar.graph.statistics import GraphProfile

EXAMPLE = "Example: fivestar graph info my_graph.csv --columns subject,predicate,object"
_RELATIONS_SHOWN = 15
_RULES_SHOWN = 5
_BAR = 30


@reads_a_source
def graph_info(
    source: Source = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    reading: Reading,
) -> None:
    """Show the statistics of a graph: counts, degrees, relation categories, patterns, leakage."""
    graph = read_source(source, reading)
    from fivestar.graph.statistics import profile_graph  # noqa: PLC0415  (slow to import)

    profile = profile_graph(graph)
    if as_json:
        typer.echo(json.dumps(profile.as_json(), indent=2, ensure_ascii=False))
    else:
        _show(profile)


def _show(profile: GraphProfile) -> None:
    graph = profile.graph
    for message in profile.warnings:
        warn(message, out)
    size = f": {len(graph.entities):,} entities, {len(graph.relations):,} relations"
    out.print(Text(graph.name, style="bold") + Text(size))
    out.print(_splits(profile))
    out.print(_degrees(profile))
    parts = f"{len(profile.components):,} connected components, the largest has "
    out.print(f"{parts}{profile.components[0]:,} entities")
    share = f"{graph.pair_redundancy:.0%} of train facts"
    out.print(f"{share} link a pair of entities that another fact links as well")
    out.print(_relations(profile))
    _show_patterns(profile)


def _splits(profile: GraphProfile) -> Table:
    titles = {
        "lines": "lines",
        "triples": "triples",
        "repeated": "duplicates",
        "bad": "bad_lines",
        "blank": "blanks",
    }
    about = {"literals": "literals", "labels": "labels", "types": "types"}
    about |= {"other graphs": "other_graphs"}
    # What only RDF has is shown only where there is some.
    titles |= {
        title: field
        for title, field in about.items()
        if any(getattr(split, field) for split in profile.splits.values())
    }
    table = _table("split", *titles)
    for name, split in profile.splits.items():
        table.add_row(name, *(f"{getattr(split, field):,}" for field in titles.values()))
    return table


def _degrees(profile: GraphProfile) -> Table:
    table = _table("degree in train", "entities", "")
    most = max(profile.degree_histogram.values())
    for title, count in profile.degree_histogram.items():
        table.add_row(title, f"{count:,}", "█" * round(_BAR * count / most))
    table.columns[2].justify = "left"
    return table


def _relations(profile: GraphProfile) -> Table:
    kinds = ", ".join(f"{count:,} {mark}" for mark, count in profile.categories.items())
    table = _table("relation", "triples", "tails per head", "heads per tail", "category", "forms")
    table.title = f"Relations: {kinds}"
    for relation in profile.relations[:_RELATIONS_SHOWN]:
        table.add_row(
            Text(relation.name),
            f"{relation.triples:,}",
            f"{relation.tails_per_head:.2f}",
            f"{relation.heads_per_tail:.2f}",
            relation.category,
            _form(profile, relation.name),
        )
    hidden = len(profile.relations) - _RELATIONS_SHOWN
    if hidden > 0:
        table.caption = f"and {hidden:,} more (--json shows all)"
    return table


def _form(profile: GraphProfile, name: str) -> str:
    form = profile.forms[profile.graph.relations.id_of(name)].form
    return "" if form == "neither" else form


def _show_patterns(profile: GraphProfile) -> None:
    patterns = profile.patterns
    sampled = patterns.paths_sampled
    exact = "" if sampled == 1 else f" (from a sample of {sampled:.1%} of all two-step paths)"
    for title, rules in (
        ("symmetric", patterns.symmetric),
        ("inverse", patterns.inverse),
        ("duplicate", patterns.duplicate),
        (f"composed{exact}", patterns.composed),
    ):
        out.print(Text(f"{title}: {len(rules):,}", style="bold"))
        for rule in rules[:_RULES_SHOWN]:
            out.print(Text("  " + _spoken(profile, rule, title)), soft_wrap=True)
    never = len(patterns.anti_symmetric)
    out.print(Text(f"anti-symmetric: {never:,}", style="bold"))


def _spoken(profile: GraphProfile, rule: RelationRule, title: str) -> str:
    names = profile.graph.relations
    given = " then ".join(names.name_of(number) for number in rule.given)
    what = given if title == "symmetric" else f"{given} → {names.name_of(rule.then)}"
    if title == "inverse":
        what += " (reversed)"
    return f"{what}: confidence {rule.confidence:.2f}, support {rule.support:,}"


def _table(*titles: str) -> Table:
    table = Table(title_justify="left", caption_justify="left")
    for number, title in enumerate(titles):
        table.add_column(title, justify="left" if number == 0 else "right", overflow="fold")
    return table
