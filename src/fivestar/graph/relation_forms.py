"""What the facts of one relation form: paths, loops, or neither; and what surrounds them.

A relation forms loops if most of its facts lie on its own cycles, as those of a symmetric relation
do, and paths if hardly any do and many facts continue one another, as in a hierarchy. It has a
mixed neighborhood if the entities of most of its facts have facts of both path-forming and
loop-forming relations around them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fivestar.graph.triples import Triples

Form = Literal["paths", "loops", "neither"]
# From the first share of facts on cycles on a relation forms loops, from the second on no paths.
_MOSTLY, _HARDLY = 0.5, 0.1
# A relation forms paths from this share of facts on that continue another one.
_CONTINUED = 0.25


@dataclass(frozen=True)
class RelationForm:
    """The form of a relation.

    Attributes:
        form: what its facts form.
        on_cycles: the share of its facts on its own cycles, or on paths from one to another.
        continued: the share of its facts whose tail is the head of another one, or whose head is
            the tail of another one.
        mixed: the share of its facts around which there are facts of both path-forming and
            loop-forming relations.
    """

    form: Form
    on_cycles: float
    continued: float
    mixed: float

    @property
    def is_mixed(self) -> bool:
        """Return whether most of its facts have a mixed neighborhood."""
        return self.mixed >= _MOSTLY


def relation_forms(facts: Triples, entities: int, relations: int) -> list[RelationForm]:
    """Return the form of each relation; self-loops are ignored.

    Args:
        facts: distinct facts.
        entities: the number of entities.
        relations: the number of relations.

    >>> chain, pairs = [(0, 0, 1), (1, 0, 2), (2, 0, 3)], [(0, 1, 1), (1, 1, 0)]
    >>> [form.form for form in relation_forms(Triples.of(chain + pairs), 4, 2)]
    ['paths', 'loops']
    """
    facts = facts.take(np.flatnonzero(facts.heads != facts.tails))
    order = np.argsort(facts.relations, kind="stable")
    start = np.searchsorted(facts.relations[order], np.arange(relations + 1))
    rows = [order[start[r] : start[r + 1]] for r in range(relations)]
    measured = [_shares(facts.take(own)) for own in rows]
    forms = [_form(*shares) for shares in measured]
    # Whether an entity has a fact of a path-forming, and of a loop-forming relation.
    has = {form: np.zeros(entities, bool) for form in ("paths", "loops")}
    for own, form in zip(rows, forms, strict=True):
        if form != "neither":
            has[form][facts.heads[own]] = has[form][facts.tails[own]] = True
    both = [has[form][facts.heads] | has[form][facts.tails] for form in ("paths", "loops")]
    mixed = both[0] & both[1]
    return [
        RelationForm(form, *shares, float(mixed[own].mean()) if len(own) else 0.0)
        for form, shares, own in zip(forms, measured, rows, strict=True)
    ]


def _form(on_cycles: float, continued: float) -> Form:
    if on_cycles >= _MOSTLY:
        return "loops"
    return "paths" if on_cycles < _HARDLY and continued >= _CONTINUED else "neither"


def _shares(facts: Triples) -> tuple[float, float]:
    """Return the shares of the facts of one relation that are on cycles, and that continue."""
    if not len(facts):
        return 0.0, 0.0
    _, nodes = np.unique(np.concatenate([facts.heads, facts.tails]), return_inverse=True)
    heads, tails = nodes[: len(facts)], nodes[len(facts) :]
    count = int(nodes.max()) + 1
    is_head, is_tail = (np.zeros(count, bool) for _ in range(2))
    is_head[heads] = is_tail[tails] = True
    continued = is_head[tails] | is_tail[heads]
    return float(_on_cycles(heads, tails, count).mean()), float(continued.mean())


def _on_cycles(
    heads: npt.NDArray[np.int64], tails: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.bool_]:
    """Return which edges are left when those from sources and into sinks are removed repeatedly."""
    left = np.ones(len(heads), bool)
    for ends, others in ((heads, tails), (tails, heads)):
        by_end = np.argsort(ends, kind="stable")
        start = np.searchsorted(ends[by_end], np.arange(count + 1))
        degree = np.bincount(others[left], minlength=count)
        free = np.flatnonzero((degree == 0) & (np.diff(start) > 0))
        while len(free):
            sizes = start[free + 1] - start[free]
            shift = np.repeat(start[free] - (np.cumsum(sizes) - sizes), sizes)
            edges = by_end[shift + np.arange(len(shift))]
            edges = edges[left[edges]]
            left[edges] = False
            np.subtract.at(degree, others[edges], 1)
            touched = np.unique(others[edges])
            free = touched[degree[touched] == 0]
    return left
