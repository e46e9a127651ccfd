"""Legal but suspicious: what a person should look at before relying on a graph."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow.compute as pc

from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.readers.base import Tally
from fivestar.graph.readers.dialect import HEADER_NAMES, counted
from fivestar.graph.vocabulary import Vocabulary

_FLOOD_SHARE = 0.1
_FEWEST_SELF_LOOPS = 10
_FEWEST_TRIPLES = 20
_HEADER_WORDS = frozenset().union(*HEADER_NAMES, ("id", "name", "entity", "label", "type"))


def suspicions(graph: KnowledgeGraph, tallies: dict[str, Tally]) -> Iterator[str]:
    """What looks wrong although it could be read, worst first."""
    yield from _skipped(tallies)
    yield from _headers_as_triples(graph, tallies)
    yield from _columns_in_another_order(graph)
    yield from _self_loops(graph)
    yield from _same_but_for(graph.relations, str.casefold, "upper and lower case")
    for vocabulary in (graph.relations, graph.entities):
        yield from _same_but_for(vocabulary, _composed, "how accents are encoded (Unicode form)")
        yield from _padded(vocabulary)


def _skipped(tallies: dict[str, Tally]) -> Iterator[str]:
    for tally in tallies.values():
        if tally.bad:
            places = ", ".join(str(line.line) for line in tally.skipped[:10])
            more = ", …" if tally.bad > 10 else ""
            what = counted(tally.bad, f"bad {tally.unit}")
            yield f"{tally.source}: {what} left out ({tally.unit} {places}{more})"


def _headers_as_triples(graph: KnowledgeGraph, tallies: dict[str, Tally]) -> Iterator[str]:
    for tally in tallies.values():
        first = tally.first_triple
        if first is None or not _like_a_header(first):
            continue
        relation = graph.relations.id_of(first[1])
        if (
            sum(int((triples.relations == relation).sum()) for triples in graph.splits.values())
            == 1
        ):
            yield (
                f"{tally.source}: the first line {first!r} was read as a triple but looks like a "
                "header; if it is one, say --header yes"
            )


def _columns_in_another_order(graph: KnowledgeGraph) -> Iterator[str]:
    if len(graph.train) >= _FEWEST_TRIPLES and len(graph.relations) > len(graph.entities):
        yield (
            f"more relations ({len(graph.relations):,}) than entities ({len(graph.entities):,}); "
            "are the columns in another order? Say which are head, relation and tail: --columns"
        )


def _self_loops(graph: KnowledgeGraph) -> Iterator[str]:
    loops = int(np.count_nonzero(graph.train.heads == graph.train.tails))
    if loops >= max(_FEWEST_SELF_LOOPS, _FLOOD_SHARE * len(graph.train)):
        share = loops / len(graph.train)
        yield (
            f"{loops:,} training triples ({share:.0%}) link an entity to itself; "
            "is one column read twice?"
        )


def _same_but_for(vocabulary: Vocabulary, fold: Callable[[str], str], what: str) -> Iterator[str]:
    folded = defaultdict(list)
    names = vocabulary.names
    if fold is _composed:  # plain ASCII has but one form, and is most of most graphs
        names = names.filter(pc.invert(pc.string_is_ascii(names)))
    for name in names.to_pylist():
        folded[fold(name)].append(name)
    clashes = [group for group in folded.values() if len(group) > 1]
    if clashes:
        example = " and ".join(map(repr, clashes[0]))
        number = f"in {len(clashes):,} cases" if len(clashes) > 1 else "once"
        yield f"{vocabulary.kind} names that differ only in {what}: {number}, as {example}"


def _padded(vocabulary: Vocabulary) -> Iterator[str]:
    padded = pc.not_equal(pc.utf8_trim_whitespace(vocabulary.names), vocabulary.names)
    number = pc.sum(padded).as_py() or 0
    if number:
        example = vocabulary.names.filter(padded)[0].as_py()
        noun = counted(number, f"{vocabulary.kind} name")
        yield f"{noun} with white space at an end (kept as given), as {example!r}"


def _like_a_header(fields: tuple[str, str, str]) -> bool:
    words = {field.strip().casefold().replace(" ", "_") for field in fields} & _HEADER_WORDS
    return len(words) > 1 or any(len(word) > 3 for word in words)


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)
