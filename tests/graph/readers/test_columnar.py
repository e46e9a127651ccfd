from __future__ import annotations

import bz2
import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fivestar.errors import BadSource, GraphWarning
from fivestar.graph.readers import columnar
from fivestar.graph.reading import read_graph

ROWS = {"head": ["a", "b", "c"], "relation": ["r", "s", "r"], "tail": ["b", "c", "a"]}


def save(table, path):
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return path


@pytest.fixture(params=["parquet", "arrow", "feather", "ipc", "arrows"])
def path(request, tmp_path):
    return tmp_path / f"graph.{request.param}"


def test_columns_of_all_string_types(path):
    wanted = read_graph(list(zip(*ROWS.values(), strict=True)), name="graph")
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        table = pa.table({title: pa.array(names).cast(kind) for title, names in ROWS.items()})
        assert read_graph(save(table, path)) == wanted


def test_integers_are_names_and_other_columns_are_ignored(path):
    table = pa.table({"w": [0.5], "o": [3], "s": pa.array([1], pa.uint8()), "p": ["r"]})
    graph = read_graph(save(table, path))
    assert graph.named(graph.train).to_pylist() == [{"head": "1", "relation": "r", "tail": "3"}]


def test_columns_by_name_and_number(path):
    save(pa.table({"x": ["b"], "y": ["a"], "z": ["r"], "w": [1]}), path)
    wanted = read_graph([("a", "r", "b")], name="graph")
    assert read_graph(path, columns=("y", "z", "x")) == wanted
    assert read_graph(path, columns=(1, 2, 0)) == wanted
    with pytest.raises(BadSource, match=r"has 4 columns \('x', 'y', 'z', 'w'\)"):
        read_graph(path)


def test_empty_cells_are_bad_rows(path):
    save(pa.table({**ROWS, "tail": ["b", None, ""]}), path)
    with pytest.raises(BadSource, match="row 1: has an empty head, relation or tail"):
        read_graph(path)
    with pytest.warns(GraphWarning, match=r"2 bad rows skipped \(row 1, 2\)"):
        report = read_graph(path, on_bad_line="skip").report.splits["train"]
    assert (report.lines, report.bad_lines, report.triples) == (3, 2, 1)


def test_a_column_of_splits(path):
    save(pa.table({**ROWS, "split": ["test", "train", "Validation"]}), path)
    graph = read_graph(path)
    assert [len(part) for part in graph.splits.values()] == [1, 1, 1]
    assert list(graph.entities) == ["b", "c", "a"]
    assert {name: split.lines for name, split in graph.report.splits.items()} == {
        "train": 1,
        "valid": 1,
        "test": 1,
    }
    save(pa.table({**ROWS, "split": ["train", "holdout", None]}), path)
    with pytest.raises(BadSource, match="row 1: is of the split 'holdout'"):
        read_graph(path)
    with pytest.warns(GraphWarning, match="2 bad rows"):
        assert len(read_graph(path, on_bad_line="skip").train) == 1


def test_other_sources_with_a_split_column_are_refused(path):
    save(pa.table({**ROWS, "split": ["train", "train", "test"]}), path)
    with pytest.raises(BadSource, match="contains the triples of test"):
        read_graph({"train": path, "test": [("a", "r", "b")]})


def test_large_files_are_read_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "_BATCH_SIZE", 7)
    table = pa.table({k: [f"{v[0]}{i % 13}" for i in range(100)] for k, v in ROWS.items()})
    path = save(table, tmp_path / "graph.parquet")
    assert read_graph(path).report.splits["train"].lines == 100
    wanted = read_graph(table, name="graph")
    assert read_graph(path) == wanted


def test_invalid_utf8_is_detected(tmp_path):
    column = pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
    table = pa.table({"head": column, "relation": ["r"], "tail": ["b"]})
    with pytest.raises(BadSource, match="damaged"):
        read_graph(save(table, tmp_path / "graph.arrow"))


@pytest.mark.parametrize(
    ("pack", "tool"),
    [
        (gzip.compress, "gunzip"),
        (bz2.compress, "bunzip2"),
        (lambda data: pa.compress(data, "zstd", asbytes=True), "unzstd"),
    ],
)
def test_a_file_compressed_as_a_whole_says_how_to_unpack_it(path, pack, tool):
    path.write_bytes(pack(save(pa.table(ROWS), path).read_bytes()))
    with pytest.raises(BadSource, match=f"compressed as a whole, .*: {tool} it first"):
        read_graph(path)
