"""Paths and loops formed by a relation, compared with reachability in networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.graph.relation_forms import relation_forms
from fivestar.graph.triples import Triples

EDGES = st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=25)


def share_on_cycles(edges):
    """Return the share of edges that can be reached from a cycle and lead to one."""
    graph = nx.DiGraph(edges)
    on_cycle = {
        n for part in nx.strongly_connected_components(graph) if len(part) > 1 for n in part
    }
    after = on_cycle.union(*(nx.descendants(graph, node) for node in on_cycle))
    before = on_cycle.union(*(nx.ancestors(graph, node) for node in on_cycle))
    return np.mean([head in after and tail in before for head, tail in edges])


@given(EDGES)
def test_shares_are_those_by_reachability(edges):
    edges = sorted((h, t) for h, t in edges if h != t)
    if not edges:
        return
    (form,) = relation_forms(Triples.of([(h, 0, t) for h, t in edges]), 9, 1)
    assert form.on_cycles == pytest.approx(share_on_cycles(edges))
    heads, tails = {h for h, _ in edges}, {t for _, t in edges}
    continued = np.mean([t in heads or h in tails for h, t in edges])
    assert form.continued == pytest.approx(continued)


@given(st.lists(EDGES, min_size=3, max_size=3))
def test_mixed_neighborhoods_have_both_forms(relations):
    facts = [(h, r, t) for r, edges in enumerate(relations) for h, t in edges if h != t]
    if not facts:
        return
    forms = relation_forms(Triples.of(facts), 9, 3)

    def surrounded(entities, wanted):
        return any(forms[r].form == wanted and {h, t} & entities for h, r, t in facts)

    for relation, form in enumerate(forms):
        own = [{h, t} for h, r, t in facts if r == relation]
        both = [surrounded(pair, "paths") and surrounded(pair, "loops") for pair in own]
        assert form.mixed == pytest.approx(np.mean(both) if own else 0.0)


def test_a_chain_forms_paths_a_ring_and_a_symmetric_relation_loops_and_a_star_neither():
    chain = [(i, 0, i + 1) for i in range(9)]
    ring = [(i, 1, (i + 1) % 10) for i in range(10)]
    symmetric = [(i, 2, i + 1) for i in range(9)] + [(i + 1, 2, i) for i in range(9)]
    star = [(i, 3, 0) for i in range(1, 10)]
    forms = relation_forms(Triples.of(chain + ring + symmetric + star + [(5, 4, 5)]), 10, 6)
    assert [f.form for f in forms] == ["paths", "loops", "loops", "neither", "neither", "neither"]
    assert (forms[5].on_cycles, forms[5].continued, forms[5].mixed) == (0, 0, 0)
