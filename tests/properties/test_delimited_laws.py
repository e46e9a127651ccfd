"""Laws of the text reader: no line is lost, and fast and slow reading agree."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fivestar.errors import BadLine, BadSource, GraphWarning
from fivestar.graph.readers import delimited, streams
from fivestar.graph.readers.dialect import Dialect
from fivestar.graph.reading import read_graph

GOOD = st.builds(
    lambda h, r, t: f"{h}\t{r}\t{t}".encode(),
    *(st.text("abé☆ ,\"'", min_size=1, max_size=3) for _ in range(3)),
)
ODD = st.sampled_from(
    [
        b"",
        b"   ",
        b"\t\t",
        b"a\tb",
        b"a\tb\tc\td",
        b"a\t\tc",
        b"\xff\tr\tt",
        b"a\tr\t\xed\xa0\x80",
        b"a\x00\tr\tt",
        b"a\rb\tr\tt",
        b"\xef\xbb\xbfa\tr\tt",
        b'"a\tr\tt',
        b"a\tr\tt\r",
        b"\r",
        b"head\trelation\ttail",
    ]
)
LINES = st.lists(st.one_of(GOOD, GOOD, ODD, st.binary(max_size=8)), min_size=1, max_size=40)
FILES = st.builds(
    lambda lines, end, mark: mark + end.join(lines),
    LINES,
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
# Reasons to refuse a whole file even if bad lines are skipped.
REFUSALS = (
    "contains no triple",
    "is empty",
    "no line has three",
    "is not UTF-8 text",
    "pass those of head",
    "lines end with CR",
    "compressed file is damaged",
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "graph.tsv"


def read(path, content, **options):
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        return read_graph(path, delimiter="\t", **options)


def read_or_refuse(path, content, **options):
    """Return the graph, or why it is refused."""
    try:
        return read(path, content, on_bad_line="skip", **options)
    except BadSource as refused:
        return str(refused)


def lines_in(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


@given(content=FILES, size=st.sampled_from([16, 64, 1 << 20]))
@settings(max_examples=400)
def test_the_counts_of_lines_add_up(path, content, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BLOCK_BYTES", size)
        graph = read_or_refuse(path, content)
    if isinstance(graph, str):
        assert any(reason in graph for reason in REFUSALS)
        return
    report = graph.report.splits["train"]
    assert report.lines == lines_in(content.removeprefix(b"\xef\xbb\xbf"))
    assert report.lines == (
        report.triples + report.duplicates + report.bad_lines + report.blanks + report.headers
    )
    assert report.triples == len(graph.train)
    assert report.bad_lines == len(report.skipped)


@given(content=FILES)
@example(content=b"a\tr\tb\n\xef\xbb\xbfc\tr\td\n")
@example(content=b"a\tr\tb\n\xef\xbb\xbfc\tr\td")
@settings(max_examples=400)
def test_fast_and_slow_reading_agree(path, content):
    def outcome():
        graph = read_or_refuse(path, content)
        return graph, getattr(graph, "report", None)

    quick = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_is_plain", lambda *_: False)
        careful = outcome()
    assert quick == careful


@given(content=FILES, size=st.sampled_from([32, 50, 64]))
@settings(max_examples=200)
def test_the_result_does_not_depend_on_the_block_size(path, content, size):
    """The dialect is given, since it is detected from the first block."""
    if max(map(len, content.split(b"\n"))) >= size:
        return
    dialect = Dialect("\t", "", 3, (0, 1, 2), has_header=False)

    def outcome():
        graph = read_or_refuse(path, content)
        return graph, getattr(graph, "report", None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_dialect_of", lambda *_: dialect)
        expected = outcome()
        patch.setattr(streams, "BLOCK_BYTES", size)
        assert outcome() == expected


@given(content=FILES)
def test_the_error_names_the_first_bad_line(path, content):
    graph = read_or_refuse(path, content)
    if isinstance(graph, str):
        return
    skipped = graph.report.splits["train"].skipped
    if not skipped:
        read(path, content)
        return
    with pytest.raises(BadLine) as caught:
        read(path, content)
    assert caught.value.line == skipped[0].line
    assert skipped[0].reason in str(caught.value)
    line = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")[caught.value.line - 1]
    assert line.strip(b" \t") or b"\t" in line


@given(st.lists(st.tuples(*[st.text(min_size=1, max_size=5) for _ in range(3)]), min_size=1))
def test_ids_follow_the_first_appearance(path, rows):
    def clean(name):
        encodable = name.encode("utf-8", "ignore").decode()
        return "".join(c for c in encodable if c not in "\t\n\r\0\ufeff") or "x"

    rows = [tuple(map(clean, row)) for row in rows]
    content = "\n".join(map("\t".join, rows)).encode()
    graph = read_or_refuse(path, content, header="no")
    if isinstance(graph, str):
        assert "is not UTF-8 text" in graph
        return
    assert list(graph.entities) == list(dict.fromkeys(e for h, _, t in rows for e in (h, t)))
    assert list(graph.relations) == list(dict.fromkeys(r for _, r, _ in rows))
    named = graph.named(graph.train).to_pydict().values()
    assert list(zip(*named, strict=True)) == list(dict.fromkeys(rows))
