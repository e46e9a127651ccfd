from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import AmbiguousName, GraphError, UnknownName
from fivestar.graph import vocabulary as vocabulary_module
from fivestar.graph.vocabulary import Vocabulary
from fivestar.spelling import closest_names

NAMES = st.lists(st.text(min_size=1).filter(lambda s: s.isprintable()), unique=True, min_size=1)


@given(NAMES)
def test_names_and_ids_are_inverse(names):
    vocabulary = Vocabulary("entity", names)
    assert list(vocabulary) == names
    assert [vocabulary.id_of(name) for name in names] == list(range(len(names)))
    assert vocabulary.ids_of(names).tolist() == list(range(len(names)))
    assert vocabulary.names_of(range(len(names))) == names


def test_unknown_names_suggest_similar_ones_ignoring_case():
    vocabulary = Vocabulary("entity", ["Paris", "Lima"])
    with pytest.raises(UnknownName, match="no entity 'pariss'; did you mean 'Paris'"):
        vocabulary.id_of("pariss")
    with pytest.raises(
        UnknownName, match=r"no entity 'Limaa'; did you mean 'Lima'\? \(and 1 more\)"
    ):
        vocabulary.ids_of(["Paris", "Limaa", "Oslo"])
    with pytest.raises(UnknownName, match=r"no entity 'Quito'$"):
        vocabulary.id_of("Quito")


@pytest.mark.parametrize("number", [-1, 2])
def test_ids_out_of_range_are_errors(number):
    with pytest.raises(UnknownName, match="ids run from 0 to 1"):
        Vocabulary("entity", ["a", "b"]).name_of(number)


def test_labels_fall_back_to_names():
    vocabulary = Vocabulary("entity", ["q1", "q2"], ["Paris", None], [None, "a river"])
    assert [vocabulary.label_of(i) for i in (0, 1)] == ["Paris", "q2"]
    assert [vocabulary.description_of(i) for i in (0, 1)] == [None, "a river"]
    assert vocabulary != Vocabulary("entity", ["q1", "q2"])


def test_one_label_per_name_is_required():
    with pytest.raises(GraphError, match="one per name"):
        Vocabulary("entity", ["a", "b"], ["only one"])


def test_much_longer_names_are_not_suggested():
    assert closest_names("Paris", ["Paris" * 10, "Pari"]) == ["Pari"]


def test_names_and_labels_of_several_ids():
    vocabulary = Vocabulary("entity", ["a", "b", "c"], ["A", None, "C"])
    assert vocabulary.names_of([2, 0]) == ["c", "a"]
    assert vocabulary.labels_of([2, 1, 2]) == ["C", "b", "C"]
    assert vocabulary.labels_of([]) == vocabulary.names_of([]) == []
    assert Vocabulary("entity", ["a"]).labels_of([0]) == ["a"]


def test_exact_names_win_over_labels_and_both_over_other_case():
    vocabulary = Vocabulary("entity", ["Paris", "x", "PARIS", "y"], ["one", "Paris", "two", "Two"])
    assert vocabulary.find("Paris") == 0  # a name wins over a label
    assert vocabulary.find("two") == 2  # and an exact label over another case
    assert vocabulary.find("X") == 1
    with pytest.raises(
        AmbiguousName, match=r"'TWO' is ambiguous, it matches 2 names: PARIS \(two\), y \(Two\)"
    ):
        vocabulary.find("TWO")
    with pytest.raises(AmbiguousName, match="'paris' is ambiguous, it matches 3 names"):
        vocabulary.find("paris")
    with pytest.raises(UnknownName, match="did you mean"):
        vocabulary.find("Pariss")
    many = Vocabulary("entity", [f"e{i}" for i in range(20)], ["same"] * 20)
    with pytest.raises(AmbiguousName, match="and 12 more"):
        many.find("same")


TEXTS = st.text("aAbßẞİ \ud800\x00", max_size=3)


@given(
    names=st.lists(st.text("aAbßẞİ \x00", max_size=3), min_size=1, max_size=12, unique=True),
    data=st.data(),
    scans=st.sampled_from([0, 100]),
)
def test_large_vocabularies_are_scanned_with_the_same_results(names, data, scans):
    one_label = st.none() | st.text("aAbßẞİ", max_size=2)
    size = len(names)
    labels = data.draw(st.none() | st.lists(one_label, min_size=size, max_size=size))
    indexed, scanned = (Vocabulary("entity", names, labels) for _ in range(2))
    assert "x" not in indexed  # makes its dictionaries
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary_module, "_MAX_SCANS", scans)
        patch.setattr(vocabulary_module, "MAX_INDEXED", 0)
        assert type(scanned._lookup) is not type(indexed._lookup)
        for text in data.draw(st.lists(TEXTS, min_size=1, max_size=5)) + names:
            assert (text in scanned) == (text in names)
            results = []
            for vocabulary in (indexed, scanned):
                try:
                    results.append(vocabulary.lookup(text))
                except AmbiguousName as error:
                    results.append((str(error), error.candidates))
            assert results[0] == results[1]
