"""Checks for valid but suspicious graphs."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow.compute as pc

from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.readers.base import Tally, plural
from fivestar.graph.readers.dialect import HEADER_NAMES
from fivestar.graph.vocabulary import Vocabulary

_MIN_SELF_LOOP_SHARE = 0.1
_MIN_SELF_LOOPS = 10
_MIN_TRIPLES = 20
_HEADER_WORDS = frozenset().union(*HEADER_NAMES, ("id", "name", "entity", "label", "type"))


def suspicious_findings(graph: KnowledgeGraph, tallies: dict[str, Tally]) -> Iterator[str]:
    """Yield messages about suspicious content, the most serious first.

    Args:
        graph: the graph that was read.
        tallies: the counts of lines by source.
    """
    yield from _skipped_lines(tallies)
    yield from _headers_as_triples(graph, tallies)
    yield from _swapped_columns(graph)
    yield from _self_loops(graph)
    yield from _duplicates_up_to(graph.relations, str.casefold, "upper and lower case")
    for vocabulary in (graph.relations, graph.entities):
        yield from _duplicates_up_to(vocabulary, _composed, "Unicode normalization (accents)")
        yield from _padded(vocabulary)


def _skipped_lines(tallies: dict[str, Tally]) -> Iterator[str]:
    for tally in tallies.values():
        if tally.bad:
            numbers = ", ".join(str(line.line) for line in tally.skipped[:10])
            more = ", …" if tally.bad > 10 else ""
            count = plural(tally.bad, f"bad {tally.unit}")
            yield f"{tally.source}: {count} skipped ({tally.unit} {numbers}{more})"


def _headers_as_triples(graph: KnowledgeGraph, tallies: dict[str, Tally]) -> Iterator[str]:
    for tally in tallies.values():
        first = tally.first_triple
        if first is None or not _looks_like_header(first):
            continue
        relation = graph.relations.id_of(first[1])
        if (
            sum(int((triples.relations == relation).sum()) for triples in graph.splits.values())
            == 1
        ):
            yield (
                f"{tally.source}: the first line {first!r} was read as a triple but looks like a "
                "header; if it is one, pass header='yes'"
            )


def _swapped_columns(graph: KnowledgeGraph) -> Iterator[str]:
    if len(graph.train) >= _MIN_TRIPLES and len(graph.relations) > len(graph.entities):
        yield (
            f"more relations ({len(graph.relations):,}) than entities ({len(graph.entities):,}); "
            "are the columns in another order? Pass head, relation and tail: columns=(0, 1, 2)"
        )


def _self_loops(graph: KnowledgeGraph) -> Iterator[str]:
    loops = int(np.count_nonzero(graph.train.heads == graph.train.tails))
    if loops >= max(_MIN_SELF_LOOPS, _MIN_SELF_LOOP_SHARE * len(graph.train)):
        share = loops / len(graph.train)
        yield (
            f"{loops:,} training triples ({share:.0%}) link an entity to itself; "
            "is one column read twice?"
        )


def _duplicates_up_to(
    vocabulary: Vocabulary, fold: Callable[[str], str], difference: str
) -> Iterator[str]:
    names_by_key = defaultdict(list)
    names = vocabulary.names
    if fold is _composed:  # ASCII names, the majority, have only one form
        names = names.filter(pc.invert(pc.string_is_ascii(names)))
    for name in names.to_pylist():
        names_by_key[fold(name)].append(name)
    clashes = [group for group in names_by_key.values() if len(group) > 1]
    if clashes:
        example = " and ".join(map(repr, clashes[0]))
        yield (
            f"{plural(len(clashes), 'group')} of {vocabulary.kind} names that differ only in "
            f"{difference}, for example {example}"
        )


def _padded(vocabulary: Vocabulary) -> Iterator[str]:
    padded = pc.not_equal(pc.utf8_trim_whitespace(vocabulary.names), vocabulary.names)
    count = pc.sum(padded).as_py() or 0
    if count:
        example = vocabulary.names.filter(padded)[0].as_py()
        names = plural(count, f"{vocabulary.kind} name")
        yield f"{names} with leading or trailing white space, for example {example!r}"


def _looks_like_header(fields: tuple[str, str, str]) -> bool:
    words = {field.strip().casefold().replace(" ", "_") for field in fields} & _HEADER_WORDS
    return len(words) > 1 or any(len(word) > 3 for word in words)


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)
