"""`fivestar graph info`: statistics of a graph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fivestar.cli.source import Reading, Source, read_source, reads_a_source
from fivestar.cli.tables import Column, name_column, named, number_column, print_table, shorten
from fivestar.cli.terminal import out, warn

if TYPE_CHECKING:
    from fivestar.graph.relation_patterns import RelationRule
    from fivestar.graph.statistics import GraphProfile

EXAMPLE = "Example: fivestar graph info my_graph.csv --columns subject,predicate,object"
_RELATIONS_SHOWN = 15
_RULES_SHOWN = 5
_BAR = 24
# Width of a relation in a pattern.
_LONGEST = 32


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
    _show_splits(profile)
    _show_weights(profile)
    _show_degrees(profile)
    parts = f"{len(profile.components):,} connected components, the largest has "
    out.print(f"{parts}{profile.components[0]:,} entities")
    share = f"{graph.pair_redundancy:.0%} of train facts"
    out.print(f"{share} link a pair of entities that another fact links as well")
    _show_relations(profile)
    _show_patterns(profile)


def _show_splits(profile: GraphProfile) -> None:
    titles = {
        "lines": "lines",
        "triples": "triples",
        "repeated": "duplicates",
        "bad": "bad_lines",
        "blank": "blanks",
    }
    about = {"literals": "literals", "labels": "labels", "types": "types"}
    about |= {"other graphs": "other_graphs", "about weights": "weights"}
    # What only RDF has is shown only where there is some.
    titles |= {
        title: field
        for title, field in about.items()
        if any(getattr(split, field) for split in profile.splits.values())
    }
    rows = [
        (name, *(f"{getattr(split, field):,}" for field in titles.values()))
        for name, split in profile.splits.items()
    ]
    print_table(["split", *map(number_column, titles)], rows)


def _show_weights(profile: GraphProfile) -> None:
    rows = [
        (name, f"{weights.facts:,}", *(f"{value:g}" for value in weights[1:]))
        for name, weights in profile.weights.items()
    ]
    if rows:
        print_table(("weights of", *map(number_column, ("facts", "min", "mean", "max"))), rows)


def _show_degrees(profile: GraphProfile) -> None:
    most = max(profile.degree_histogram.values())
    rows = [
        (title, f"{count:,}", "█" * round(_BAR * count / most))
        for title, count in profile.degree_histogram.items()
    ]
    print_table(("degree in train", number_column("entities"), ""), rows)


def _show_relations(profile: GraphProfile) -> None:
    kinds = ", ".join(f"{count:,} {mark}" for mark, count in profile.categories.items())
    rows = [
        (
            named(profile.graph.relations, relation.name),
            f"{relation.triples:,}",
            f"{relation.tails_per_head:.2f}",
            f"{relation.heads_per_tail:.2f}",
            relation.category,
            _form(profile, relation.name),
        )
        for relation in profile.relations[:_RELATIONS_SHOWN]
    ]
    numbers = map(number_column, ("triples", "tails per head", "heads per tail"))
    columns: list[Column | str] = [name_column("relation"), *numbers, "category", "forms"]
    hidden = len(profile.relations) - _RELATIONS_SHOWN
    caption = f"and {hidden:,} more (--json shows all)" if hidden > 0 else ""
    print_table(columns, rows, title=f"Relations: {kinds}", caption=caption)


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
    given = " then ".join(shorten(names.label_of(number), _LONGEST) for number in rule.given)
    then = shorten(names.label_of(rule.then), _LONGEST)
    what = given if title == "symmetric" else f"{given} → {then}"
    if title == "inverse":
        what += " (reversed)"
    return f"{what}: confidence {rule.confidence:.2f}, support {rule.support:,}"
