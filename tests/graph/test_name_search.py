"""Names are ids by prefix, by word and by similarity, the best match first."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz

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


def later_words(text):
    return [
        text[start:]
        for start in range(1, len(text))
        if text[start].isalnum() and not text[start - 1].isalnum()
    ]


@given(NAMES, st.text("abAB _-ß.*", min_size=1, max_size=3), st.data())
def test_scans_find_what_a_loop_finds(names, text, data):
    one_label = st.none() | st.text("abAB _-ß", min_size=1, max_size=8)
    labels = data.draw(st.lists(one_label, min_size=len(names), max_size=len(names)))
    folded = Vocabulary("entity", names, labels).folded
    query = text.casefold()
    texts = {
        number: {name.casefold(), (label or name).casefold()}
        for number, (name, label) in enumerate(zip(names, labels, strict=True))
    }

    def ids(matches):
        return sorted({number for found, _ in matches for number in found.tolist()})

    def those(condition):
        return [number for number, each in texts.items() if any(map(condition, each))]

    assert folded.equal_to(text).tolist() == those(lambda other: other == query)
    assert ids(folded.beginning_with(query)) == those(lambda other: other.startswith(query))
    assert ids(folded.with_later_word(query)) == those(
        lambda other: (
            any(word.startswith(query) for word in later_words(other))
            if query[0].isalnum()
            else False
        )
    )
    word = re.compile(rf"(?<!\w){re.escape(query)}(?!\w)")
    contains = ids(folded.containing_word(text))
    assert contains == those(lambda o: len(o) > len(query) and bool(word.search(o)))
    near = {number for _, number, _ in folded.similar_to(query, 100, 60)}
    assert sorted(near) == those(lambda other: fuzz.ratio(query, other) >= 60)


def test_odd_texts_are_searched_for_without_harm():
    names = Vocabulary("entity", ["a.b", "a\\pL", "(x)", "\x00", "C++"])
    search = NameSearch(names, np.ones(5))
    assert search.find("a.") == [0]
    assert search.find("a\\p") == [1]
    assert search.find("(") == [2]
    assert search.find("c+") == [4]
    for text in ("\ud800", "a\ud800", "[", "\\", "*" * 500, "\x00\x00"):
        assert isinstance(search.find(text), list)
