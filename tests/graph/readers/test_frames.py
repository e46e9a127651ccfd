from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fivestar.errors import BadSource, GraphWarning
from fivestar.graph.reading import read_graph

ROWS = [("Paris", "capital_of", "France"), ("Rome", "capital_of", "Italy")]
COLUMNS = dict(zip(["head", "relation", "tail"], zip(*ROWS, strict=True), strict=True))


@pytest.mark.parametrize(
    "source",
    [
        ROWS,
        iter(ROWS),
        [list(row) for row in ROWS],
        pa.table(COLUMNS),
        pa.RecordBatch.from_pydict({k: list(v) for k, v in COLUMNS.items()}),
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).astype("category"),
        pl.DataFrame(COLUMNS),
        pd.DataFrame(ROWS),
        pd.DataFrame(COLUMNS)[["tail", "head", "relation"]],
        pd.DataFrame({**COLUMNS, "weight": [0.1, 0.2]}),
        {"train": ROWS},
    ],
    ids=lambda source: type(source).__module__.split(".")[0] + "." + type(source).__name__,
)
def test_all_tables_give_the_same_graph(source):
    assert read_graph(source) == read_graph(ROWS)


def test_columns_of_tables_by_name_and_number():
    table = pa.table({"x": ["b"], "y": ["a"], "z": ["r"]})
    assert read_graph(table, columns=("y", "z", "x")) == read_graph([("a", "r", "b")])
    assert read_graph(table, columns=(1, 2, 0)) == read_graph([("a", "r", "b")])


def test_integers_are_names():
    frame = pd.DataFrame({"h": [1, 2], "r": ["x", "x"], "t": [2, 3]})
    assert list(read_graph(frame).entities) == ["1", "2", "3"]
    assert list(read_graph([(1, "x", 2)]).entities) == ["1", "2"]


def test_splits_may_be_sources_of_different_types(tmp_path):
    (tmp_path / "test.tsv").write_text("Rome\tcapital_of\tFrance\n")
    graph = read_graph(
        {"train": ROWS, "dev": pd.DataFrame(ROWS[:1]), "test": tmp_path / "test.tsv"}, name="mix"
    )
    assert [len(part) for part in graph.splits.values()] == [2, 1, 1]
    assert graph.name == "mix"


def test_bad_rows_are_skipped_on_request():
    table = pa.table({"h": ["a", None, "c", ""], "r": ["r"] * 4, "t": ["b"] * 4})
    with pytest.warns(GraphWarning, match=r"2 bad rows skipped \(row 1, 3\)"):
        graph = read_graph(table, on_bad_line="skip")
    assert list(graph.entities) == ["a", "b", "c"]
    with pytest.warns(GraphWarning, match="1 bad row"):
        graph = read_graph([("a", "r", "b"), 7], on_bad_line="skip")
    assert graph.report.splits["train"].skipped[0].reason.startswith("is not a triple")


def test_generators_are_read_in_batches(monkeypatch):
    monkeypatch.setattr("fivestar.graph.readers.frames._BATCH_SIZE", 3)
    graph = read_graph((f"e{i}", "r", f"e{i + 1}") for i in range(10))
    assert len(graph.train) == 10
    assert graph.report.splits["train"].lines == 10


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"h": ["a", 1, None], "r": ["x", 2.5, "y"], "t": [b"q", "z", 1.0]}),
        pd.DataFrame([["a", "b", "c"]], columns=["h", "h", "h"]),
        pd.DataFrame({"h": [object()], "r": ["x"], "t": ["y"]}),
        pd.DataFrame({"h": [1 + 2j], "r": ["a"], "t": ["b"]}),
    ],
    ids=["mixed types", "duplicate columns", "objects", "complex numbers"],
)
def test_a_frame_that_is_no_table_of_names_is_refused(frame):
    with pytest.raises(BadSource, match=r"is not a table of names .*astype\(str\)"):
        read_graph(frame)


@pytest.mark.parametrize(("arguments", "reason"), [((), "ValueError"), (("an odd", 1), "an odd 1")])
def test_a_table_that_cannot_be_converted_says_why(arguments, reason):
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise ValueError(*arguments)

    with pytest.raises(BadSource, match=rf"is not a table of names \({reason}\); give its columns"):
        read_graph(Broken())


def test_splits_may_be_a_column_beside_others():
    table = pa.table({**COLUMNS, "weight": [1, 2], "split": ["train", "test"]})
    graph = read_graph(table)
    assert [len(part) for part in graph.splits.values()] == [1, 0, 1]
    comments = pa.table({**COLUMNS, "comment": ["large", "old"]})
    assert read_graph(comments) == read_graph(ROWS)


@pytest.mark.parametrize("role", ["head", "relation", "tail"])
def test_an_empty_name_is_called_by_its_role(role):
    item = tuple("" if name == role else "x" for name in ("head", "relation", "tail"))
    with pytest.raises(BadSource, match=f"has an empty {role}"):
        read_graph([item])


def test_a_name_that_is_not_unicode_is_refused():
    with pytest.raises(BadSource, match="has a tail that cannot be written as UTF-8"):
        read_graph([("a", "r", "\ud800")])
