from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import GraphError, UnknownName
from fivestar.graph.vocabulary import Vocabulary
from fivestar.spelling import nearest

NAMES = st.lists(st.text(min_size=1).filter(lambda s: s.isprintable()), unique=True, min_size=1)


@given(NAMES)
def test_names_and_ids_are_inverse(names):
    vocabulary = Vocabulary("entity", names)
    assert list(vocabulary) == names
    assert [vocabulary.id_of(name) for name in names] == list(range(len(names)))
    assert vocabulary.ids_of(names).tolist() == list(range(len(names)))
    assert vocabulary.names_of(range(len(names))) == names


def test_an_unknown_name_suggests_the_nearest_in_any_case():
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
def test_an_id_out_of_range_is_an_error_and_does_not_count_from_the_end(number):
    with pytest.raises(UnknownName, match="ids run from 0 to 1"):
        Vocabulary("entity", ["a", "b"]).name_of(number)


def test_labels_fall_back_to_names():
    vocabulary = Vocabulary("entity", ["q1", "q2"], ["Paris", None], [None, "a river"])
    assert [vocabulary.label_of(i) for i in (0, 1)] == ["Paris", "q2"]
    assert [vocabulary.description_of(i) for i in (0, 1)] == [None, "a river"]
    assert vocabulary != Vocabulary("entity", ["q1", "q2"])


def test_as_many_labels_as_names():
    with pytest.raises(GraphError, match="give one each"):
        Vocabulary("entity", ["a", "b"], ["only one"])


def test_nearest_is_quick_to_drop_what_is_much_longer():
    assert nearest("Paris", ["Paris" * 10, "Pari"]) == ["Pari"]
