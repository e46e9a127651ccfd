"""Names are ids by prefix, by word and by similarity, the best match first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fivestar.graph.name_search import NameSearch
from fivestar.graph.vocabulary import Vocabulary

NAMES = st.lists(st.text("abAB _-ß", min_size=1, max_size=8), min_size=1, max_size=30, unique=True)


@given(NAMES, st.text("abAB _-ß", min_size=1, max_size=4))
def test_prefix_matches_come_first(names, text):
    vocabulary = Vocabulary("entity", names)
    importance = np.arange(len(names))
    ids = NameSearch(vocabulary, importance).find(text, len(names))
    query = text.strip().casefold()
    beginning = {at for at, name in enumerate(names) if name.casefold().startswith(query)}
    assert set(ids[: len(beginning)]) == (beginning if query else set(range(len(names))))
    assert len(ids) == len(set(ids))


def test_the_order():
    names = ["Paris", "Paris Texas", "Comparison", "New Paris", "Praxis", "Pariss"]
    vocabulary = Vocabulary("entity", names, ["Paris", None, None, None, None, "Q"])
    search = NameSearch(vocabulary, np.array([1, 9, 99, 50, 3, 2]))
    assert search.find("paris") == [0, 1, 5, 3]
    assert search.find("PARIS", 2) == [0, 1]
    assert search.find("texas") == [1]
    assert search.find("q") == [5]
    assert search.find("", 2) == [2, 3]
    assert search.find("prais", 3) == [4, 0]
    assert search.find("zzz") == []
    assert search.find("x" * 100_000) == []
