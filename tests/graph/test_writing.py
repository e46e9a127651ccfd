from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fivestar.errors import OutputError
from fivestar.graph.knowledge_graph import EntityTypes
from fivestar.graph.reading import read_graph
from fivestar.graph.vocabulary import Vocabulary
from fivestar.graph.writing import write_graph

# Every character that a line of text can hold.
CHARACTER = st.one_of(
    st.sampled_from("\t,\"' \ufeff\u2028é☆a"),
    st.characters(exclude_characters="\r\n\0", codec="utf-8"),
)
NAME = st.text(CHARACTER, min_size=1, max_size=4)
TRIPLES = st.lists(st.tuples(NAME, NAME, NAME), min_size=1, max_size=10)
ignore_suspicions = pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")


@ignore_suspicions
@given(train=TRIPLES, test=TRIPLES)
@example(train=[("head", "relation", "tail"), ("a", "b", "c")], test=[("s", "p", "o")])
@example(train=[("\ufeffa", "r", "b")], test=[("\ufeff", "r", "b")])
@example(train=[('"a', "r", "b\tc\td")], test=[("a,b", 'r"', "c")])
@example(train=[("\x01\x02\x03\x04", "\x05", "\x06")], test=[("a", "b", "c")])
def test_written_graphs_read_back_the_same(tmp_path_factory, train, test):
    graph = read_graph({"train": train, "test": test}, name="graph")
    folder = tmp_path_factory.mktemp("graphs") / "graph"
    if sum(ord(c) < 32 and c != "\t" for triple in train + test for name in triple for c in name):
        with suppress(OutputError):  # so many in so short a file would be taken for a binary format
            write_graph(graph, folder)
            assert read_graph(folder) == graph
        return
    write_graph(graph, folder)
    tabbed = any("\t" in name for triple in train + test for name in triple)
    assert (folder / ("train.csv" if tabbed else "train.tsv")).is_file()
    assert read_graph(folder) == graph


def test_labels_and_types_are_written(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.txt").write_text("q1\tr\tq2\n")
    (tmp_path / "in" / "entity_labels.tsv").write_text("q1\tParis\nq2\tFrance\ta country\n")
    (tmp_path / "in" / "relation_labels.tsv").write_text("r\tcapital of\n")
    (tmp_path / "in" / "entity_types.tsv").write_text("q1\tcity\n")
    graph = read_graph(tmp_path / "in")
    write_graph(graph, tmp_path / "out")
    assert read_graph(tmp_path / "out", name="in") == graph


@pytest.mark.parametrize("mark", ["\n", "\r", "\0"])
@ignore_suspicions
def test_names_that_text_cannot_represent_are_refused(tmp_path, mark):
    with pytest.raises(OutputError, match="use save_graph"):
        write_graph(read_graph([(f"a{mark}b", "r", "c")]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_types_keep_their_order_and_descriptions_need_no_label(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.txt").write_text("q1\tr\tq2\n")
    (tmp_path / "in" / "entity_labels.tsv").write_text("q1\t\ta city\n")
    (tmp_path / "in" / "entity_types.tsv").write_text("q2\tcountry\nq1\tcity\nq1\tplace\n")
    graph = read_graph(tmp_path / "in")
    assert list(graph.types.vocabulary) == ["country", "city", "place"]
    write_graph(graph, tmp_path / "out")
    assert read_graph(tmp_path / "out", name="in") == graph


def test_a_typed_name_with_a_tab_is_refused(tmp_path):
    graph = read_graph([("a\tb", "r", "c")])
    types = EntityTypes(Vocabulary("type", ["t"]), np.array([0]), np.array([0]))
    graph = replace(graph, types=types)
    with pytest.raises(OutputError, match="cannot represent"):
        write_graph(graph, tmp_path / "out")
    assert not (tmp_path / "out").exists()
