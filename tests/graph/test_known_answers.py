"""The index of known answers is that of a plain search."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fivestar.graph.known_answers import KnownAnswers
from fivestar.graph.triples import Triples

FACTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 6)), max_size=40)
QUERIES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5)), max_size=10)


@given(FACTS, QUERIES)
def test_answers_of_queries(facts, queries):
    known = KnownAnswers.of(Triples.of(facts))
    asked = np.array(queries, np.int64).reshape(-1, 2)
    rows, tails = known.of_queries(asked[:, 0], asked[:, 1])
    found = list(zip(rows.tolist(), tails.tolist(), strict=True))
    wanted = {(row, t) for row, query in enumerate(queries) for h, r, t in facts if (h, r) == query}
    assert set(found) == wanted
    assert len(found) == len(wanted)
