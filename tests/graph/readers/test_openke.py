from __future__ import annotations

from pathlib import Path

import pytest

from fivestar.errors import BadSource, GraphWarning
from fivestar.graph.readers import split_files
from fivestar.graph.reading import read_graph

FILES = {
    "entity2id.txt": "3\nNew York\t1\nUSA\t0\n/m/02\t2\n",
    "relation2id.txt": "2\nin\t0\nnear\t1\n",
    "train2id.txt": "2\n1 0 0\n2\t1\t1\n",
    "valid2id.txt": "1\n2 0 0\n",
}


@pytest.fixture
def folder(tmp_path):
    def make(**changes):
        for name, text in FILES.items():
            (tmp_path / name).write_text(changes.get(name.split(".")[0], text))
        return tmp_path

    return make


def test_head_tail_relation(folder):
    graph = read_graph(folder())
    assert graph.named(graph.train).to_pylist() == [
        {"head": "New York", "relation": "in", "tail": "USA"},
        {"head": "/m/02", "relation": "near", "tail": "New York"},
    ]
    assert len(graph.valid) == 1
    report = graph.report.splits["train"]
    assert (report.lines, report.headers, report.triples) == (3, 1, 2)


def test_plain_files_win_unless_openke_is_requested(folder):
    path = folder()
    (path / "train.txt").write_text("a\tr\tb\n")
    assert list(read_graph(path).entities) == ["a", "b"]
    assert "USA" in read_graph(path, format="openke").entities
    (path / "train2id.txt").unlink()
    with pytest.raises(BadSource, match=r"has no train2id.txt"):
        read_graph(path, format="openke")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train2id": "3\n1 0 0\n"}, "announces 3 facts, but there are 1"),
        ({"train2id": "1\n1 0 2\n"}, "has the relation 2, but relation2id.txt has 2 names"),
        ({"train2id": "1\n1 3 0\n"}, "has the tail 3, but entity2id.txt has 3 names"),
        ({"train2id": "1\n1 -1 0\n"}, "has a tail that is not a number"),
        ({"train2id": "1\n1 0\n"}, "has 2 fields where 3 are expected: head tail relation"),
        ({"train2id": "a b c\n"}, "its first line should be the number of lines"),
        ({"train2id": ""}, "is empty"),
        ({"entity2id": "2\na\t0\nb\t0\n"}, "the number 0 is given twice"),
        ({"entity2id": "3\na\t0\nb\t1\n"}, "announces 3 names, but there are 2"),
        ({"entity2id": "2\na\t0\nb\t2\n"}, "the numbers do not run from 0 to 1"),
        ({"entity2id": "1\nname\n"}, "should be a name and its number"),
        ({"relation2id": ""}, "is empty"),
        ({"relation2id": "\n \n"}, r"relation2id\.txt: is empty"),
        ({"entity2id": "2\na\t0\n\nb c\n"}, "entity2id.txt, line 4: should be a name and its"),
        ({"entity2id": "1\n\t0\n"}, "line 2: should be a name and its number"),
        ({"entity2id": "2\na\t0\nb\t1234567890123456\n"}, "line 3: should be a name and its"),
        ({"train2id": "1\nx 0 0\n"}, "line 2: has a head that is not a number"),
        ({"train2id": "1\n3 0 0\n"}, "has the head 3, but entity2id.txt has 3 names"),
        ({"train2id": "2\n1 0 0\n\n1 0 0 0\n"}, "line 4: has 4 fields where 3 are expected"),
        ({"train2id": "0\n1 0 0\n"}, "line 1: announces 0 facts, but there are 1; is the file"),
        ({"train2id": "1\n\0\0\0\n"}, "is not UTF-8 text"),
    ],
)
def test_inconsistent_files_are_refused(folder, changes, message):
    with pytest.raises(BadSource, match=message):
        read_graph(folder(**changes))


def test_blank_lines_are_counted_and_names_may_hold_spaces(folder):
    path = folder(
        train2id="\n2\n1 0 0\n  \n2 1 1\n",
        entity2id="\n3\n New  York\tCity \t1\n\nUSA 0\n/m/02\t2\n",
    )
    graph = read_graph(path)
    assert sorted(graph.entities) == ["/m/02", "New  York\tCity", "USA"]
    report = graph.report.splits["train"]
    assert (report.lines, report.headers, report.blanks, report.triples) == (5, 1, 2, 2)


def test_names_that_are_not_utf8(folder):
    path = folder()
    (path / "entity2id.txt").write_bytes(b"1\n\xff\t0\n")
    with pytest.raises(BadSource, match=r"entity2id\.txt, line 2: is not UTF-8"):
        read_graph(path)


def test_bad_lines_are_skipped_on_request(folder):
    with pytest.warns(GraphWarning, match=r"2 bad lines skipped \(line 3, 1\)"):
        graph = read_graph(folder(train2id="5\n1 0 0\nx\n"), on_bad_line="skip")
    report = graph.report.splits["train"]
    assert (report.lines, report.headers, report.bad_lines, report.triples) == (3, 0, 2, 1)


def test_a_folder_that_cannot_be_listed(folder, monkeypatch):
    def refuse(_):
        raise PermissionError(13, "Permission denied")

    path = folder()
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(BadSource, match="cannot be read: Permission denied"):
        split_files(path)


def test_files_of_names_are_required(folder):
    path = folder()
    (path / "entity2id.txt").unlink()
    with pytest.raises(BadSource, match=r"but no entity2id.txt with their names"):
        read_graph(path)


def test_a_line_of_megabytes_is_refused(folder, monkeypatch):
    monkeypatch.setattr("fivestar.graph.readers.streams.BLOCK_BYTES", 64)
    with pytest.raises(BadSource, match=r"train2id\.txt: has a line of many megabytes"):
        read_graph(folder(train2id="1\n" + "0" * 200 + "\n"))


def test_some_files_of_a_folder_without_a_graph_are_named(tmp_path):
    for number in range(9):
        (tmp_path / f"file{number}.txt").touch()
    with pytest.raises(BadSource, match=r"contains file0\.txt, .*file7\.txt and 1 more\)"):
        split_files(tmp_path)
