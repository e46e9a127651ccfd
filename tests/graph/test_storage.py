from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import DamagedGraph, OutputError
from fivestar.graph.reading import read_graph
from fivestar.graph.storage import load_graph, save_graph

NAME = st.text(min_size=1, max_size=4).filter(lambda s: s.encode("utf-8", "ignore").decode() == s)
TRIPLES = st.lists(st.tuples(NAME, NAME, NAME), min_size=1, max_size=12)


@given(train=TRIPLES, test=TRIPLES)
@pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")
def test_a_saved_graph_loads_unchanged(tmp_path_factory, train, test):
    graph = read_graph({"train": train, "test": test})
    folder = tmp_path_factory.mktemp("graphs") / "graph"
    save_graph(graph, folder)
    loaded = load_graph(folder)
    assert loaded == graph
    assert loaded.report == graph.report


def test_labels_types_and_the_report_are_saved(tmp_path):
    graph = read_graph()
    save_graph(graph, tmp_path / "demo")
    again = read_graph(tmp_path / "demo")
    assert again == graph
    assert again.types.of(again.entities.id_of("Paris")) == ["city"]
    assert again.report == graph.report


@pytest.mark.parametrize("file", ["entities", "relations", "type_names"])
def test_a_vocabulary_with_missing_names_is_refused(tmp_path, file):
    """Also if the hashes are right."""
    save_graph(read_graph(), tmp_path / "graph")
    path = tmp_path / "graph" / f"{file}.parquet"
    names = pq.read_table(path)["name"].to_pylist()
    pq.write_table(pa.table({"name": [None, *names[1:]]}), path)
    with pytest.raises(DamagedGraph, match="missing names"):
        load_graph(tmp_path / "graph", verify=False)


def test_existing_folders_are_refused_without_leftovers(tmp_path):
    graph = read_graph([("a", "r", "b")])
    save_graph(graph, tmp_path / "deep" / "graph")
    with pytest.raises(OutputError, match="exists already"):
        save_graph(graph, tmp_path / "deep" / "graph")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        save_graph(graph, tmp_path / "file" / "graph")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["graph"]


def test_a_full_disk_leaves_no_partial_graph(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fivestar.graph.storage.pq.write_table", full)
    with pytest.raises(OutputError, match="No space left on device"):
        save_graph(read_graph([("a", "r", "b")]), tmp_path / "graph")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "file", ["entities", "relations", "train", "valid", "test", "types", "type_names"]
)
def test_a_changed_bit_is_detected(tmp_path, file):
    save_graph(read_graph(), tmp_path / "demo")
    path = tmp_path / "demo" / f"{file}.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedGraph, match=f"{file}.parquet: has changed"):
        load_graph(tmp_path / "demo")


def test_ids_out_of_range_are_refused_despite_a_valid_hash(tmp_path, monkeypatch):
    graph = read_graph([("a", "r", "b")])
    monkeypatch.setattr(
        "fivestar.graph.storage._vocabulary_table",
        lambda vocabulary: __import__("pyarrow").table({"name": vocabulary.names.slice(0, 1)}),
    )
    save_graph(graph, tmp_path / "graph")
    with pytest.raises(DamagedGraph, match="ids that are not between"):
        load_graph(tmp_path / "graph")


def test_a_graph_that_was_saved_before_rdf_was_read_still_loads(tmp_path):
    graph = read_graph([("a", "r", "b")])
    save_graph(graph, tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    for split in manifest["report"]["splits"].values():
        for count in ("literals", "labels", "types", "other_graphs"):
            del split[count]
    (tmp_path / "saved" / "manifest.json").write_text(json.dumps(manifest))
    assert load_graph(tmp_path / "saved").report == graph.report
