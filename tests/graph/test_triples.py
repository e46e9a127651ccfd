from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import GraphError
from fivestar.graph import triples as module
from fivestar.graph.triples import Triples, comparable_keys

SMALL = st.integers(0, 4)
ROWS = st.lists(st.tuples(SMALL, SMALL, SMALL), max_size=30)


@given(ROWS)
def test_distinct_keeps_the_first_of_each_in_order(rows):
    assert Triples.of(rows).distinct().array.tolist() == [list(t) for t in dict.fromkeys(rows)]


@given(ROWS, ROWS)
def test_are_in_is_set_membership(rows, others):
    mask = Triples.of(rows).are_in(Triples.of(others))
    assert mask.tolist() == [row in set(others) for row in rows]


@given(ROWS, ROWS)
def test_keys_too_wide_for_64_bits_compare_the_same(rows, others):
    plain = comparable_keys(Triples.of(rows), Triples.of(others))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_KEY_LIMIT", 1)
        narrow = comparable_keys(Triples.of(rows), Triples.of(others))
    a, b = np.concatenate(plain), np.concatenate(narrow)
    assert ((a[:, None] == a) == (b[:, None] == b)).all()


def test_the_largest_ids_do_not_overflow():
    most = 2**31 - 1
    rows = [(most, most, most), (most, most, 0), (0, most, most), (most, most, most)]
    assert len(Triples.of(rows).distinct()) == 3


def test_columns_cannot_be_changed():
    triples = Triples.of([(0, 0, 1)])
    with pytest.raises(ValueError, match="read-only"):
        triples.heads[0] = 5


def test_columns_must_have_the_same_length():
    with pytest.raises(GraphError, match="the same length"):
        Triples(np.zeros(2, np.int32), np.zeros(1, np.int32), np.zeros(2, np.int32))
