from __future__ import annotations

import pytest

from fivestar.errors import BadLine, SettingsError
from fivestar.graph.readers.base import (
    MAX_DESCRIBED_LINES,
    Annotations,
    ReadOptions,
    SkippedLine,
    Tally,
    split_named,
)


def test_of_equal_ranks_the_first_annotation_wins():
    one = Annotations({"a": (1, "one"), "b": (2, "two")}, {"a": (0, "text")}, {("a", "T"): None})
    other = Annotations(
        {"a": (1, "other"), "b": (1, "better"), "c": (3, "new")},
        {"a": (1, "worse"), "b": (0, "more")},
        {("a", "S"): None, ("a", "T"): None},
    )
    one.add(other)
    assert one.labels == {"a": (1, "one"), "b": (1, "better"), "c": (3, "new")}
    assert one.descriptions == {"a": (0, "text"), "b": (0, "more")}
    assert list(one.types) == [("a", "T"), ("a", "S")]


def test_annotations_are_true_if_there_are_any():
    assert not Annotations()
    assert Annotations(labels={"a": (0, "x")})
    assert Annotations(descriptions={"a": (0, "x")})
    assert Annotations(types={("a", "T"): None})


@pytest.mark.parametrize(
    ("name", "split"),
    [
        *(("train", "train"), ("Training", "train"), ("DEV", "valid"), ("val", "valid")),
        *(("valid", "valid"), ("validation", "valid"), ("Test", "test"), ("tests", None)),
    ],
)
def test_names_of_splits(name, split):
    assert split_named(name) == split


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"header": "maybe"}, "header must be one of auto, yes, no, not 'maybe'"),
        ({"on_bad_line": "warn"}, "on_bad_line must be one of"),
        ({"literals": "all"}, "literals must be one of"),
        ({"types": "no"}, "types must be one of"),
        ({"format": "doc"}, "format must be one of"),
        ({"delimiter": ""}, "delimiter must be"),
        ({"delimiter": "a\n"}, "delimiter must be"),
        ({"delimiter": "\r"}, "delimiter must be"),
        ({"quote": "ab"}, "quote must be one ASCII character"),
        ({"quote": "é"}, "quote must be one ASCII character"),
        ({"quote": "|", "delimiter": "|"}, "quote and delimiter must differ"),
        ({"columns": (0, 1)}, "columns must be three different columns"),
        ({"columns": (0, 1, 1)}, "columns must be three different columns"),
        ({"columns": "abc"}, "columns must be three different columns"),
        ({"columns": (0, "b", 2)}, "columns must be three names or three numbers, not a mix"),
        ({"columns": (0, 1, -1)}, "column numbers start at 0"),
    ],
)
def test_options_that_are_refused(given, problem):
    with pytest.raises(SettingsError, match=f"^{problem}"):
        ReadOptions(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"header": "yes", "on_bad_line": "skip", "literals": "keep", "types": "triples"},
        {"delimiter": "||", "quote": "|"},
        {"quote": ""},
        {"columns": (0, 1, 2)},
        {"columns": ("h", "r", "t"), "header": "yes"},
        {"format": "text"},
    ],
)
def test_options_that_are_accepted(given):
    for name, value in given.items():
        assert getattr(ReadOptions(**given), name) == value


def test_a_bad_line_is_an_error_that_shows_its_beginning():
    tally = Tally("file.tsv")
    with pytest.raises(BadLine) as raised:
        tally.reject(7, "has 2 fields", "a\tb" + "x" * 118, ReadOptions())
    assert str(raised.value) == (
        "file.tsv, line 7: has 2 fields\n  | a\\tb" + "x" * 117 + "…\n"
        "Fix the line, or pass on_bad_line='skip' to skip such lines."
    )
    assert (raised.value.source, raised.value.line) == ("file.tsv", 7)
    assert tally.bad == 0


def test_bad_lines_that_are_skipped_are_counted_and_the_first_described():
    tally = Tally("file.tsv", unit="row")
    for line in range(MAX_DESCRIBED_LINES + 2):
        tally.reject(line, "empty", "x" * 120, ReadOptions(on_bad_line="skip"))
    assert tally.bad == MAX_DESCRIBED_LINES + 2
    assert len(tally.skipped) == MAX_DESCRIBED_LINES
    assert tally.skipped[5] == SkippedLine(5, "empty", "x" * 120)
