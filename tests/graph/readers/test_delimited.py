from __future__ import annotations

import bz2
import gzip
import lzma

import pyarrow as pa
import pytest

from fivestar.errors import BadLine, BadSource, GraphWarning
from fivestar.graph.readers import streams
from fivestar.graph.reading import read_graph

ROWS = [("Rio de Janeiro", "in", "Brasil"), ("São Paulo", "in", "Brasil"), ("東京", "in", "日本")]


def rows(graph, split="train"):
    return list(zip(*graph.named(graph.split(split)).to_pydict().values(), strict=True))


@pytest.fixture
def write(tmp_path):
    def write(content, name="graph.tsv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_delimiters_line_ends_and_byte_order_marks(write, delimiter, end, last, mark):
    text = mark + end.join(delimiter.join(row) for row in ROWS) + end * last
    assert rows(read_graph(write(text, "graph.txt"))) == ROWS


@pytest.mark.parametrize("delimiter", ["::", " ||| ", "→", "#"])
def test_any_delimiter_can_be_given(write, delimiter):
    assert (
        rows(read_graph(write("\n".join(map(delimiter.join, ROWS))), delimiter=delimiter)) == ROWS
    )


def test_space_is_the_last_delimiter_tried(write):
    assert rows(read_graph(write("a r b\nb r c\n"))) == [("a", "r", "b"), ("b", "r", "c")]
    assert rows(read_graph(write("New York,in,United States\n"))) == [
        ("New York", "in", "United States")
    ]


def test_commas_and_quotes_are_plain_in_tab_separated_files(write):
    wanted = [('5" disk', "is, a", "disk"), ('"x"', "is", "b")]
    assert rows(read_graph(write("\n".join(map("\t".join, wanted))))) == wanted


@pytest.mark.parametrize("name", ["graph.csv", "graph.txt"])
def test_quoted_csv_keeps_tabs_commas_and_doubled_quotes(write, name):
    text = '"a\tb\tx",r,"c, d"\n"say ""hi""",r,x"y\n'
    assert rows(read_graph(write(text, name))) == [
        ("a\tb\tx", "r", "c, d"),
        ('say "hi"', "r", 'x"y'),
    ]


def test_quotes_can_be_switched_off_and_changed(write):
    path = write("'a','r','b,c'\n", "graph.csv")
    assert rows(read_graph(path, quote="'")) == [("a", "r", "b,c")]
    assert rows(read_graph(write('"a,r,b\n', "other.csv"), quote="")) == [('"a', "r", "b")]


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("Object;Subject;Relation;Weight", {}),
        ("to;from;how;w", {"columns": ("from", "how", "to")}),
        ("to;from;how;w", {"columns": (1, 2, 0), "header": "yes"}),
    ],
)
def test_columns_in_any_order_by_header_name_or_number(write, header, options):
    path = write(f"{header}\nFrance;Paris;capital_of;0.9\nItaly;Rome;capital_of;0.8\n")
    graph = read_graph(path, **options)
    assert rows(graph) == [("Paris", "capital_of", "France"), ("Rome", "capital_of", "Italy")]
    assert graph.report.splits["train"].headers == 1


def test_columns_by_number_without_a_header(write):
    assert rows(read_graph(write("x\tb\tr\ta\n"), columns=(3, 2, 1))) == [("a", "r", "b")]


def test_headers_of_numbered_columns_are_detected(write):
    path = write("weight\tsubject\trelation\tobject\n1\ta\tr\tb\n")
    assert rows(read_graph(path, columns=(1, 2, 3))) == [("a", "r", "b")]


def test_headers_are_detected(write):
    text = "head\trelation\ttail\na\tr\tb\n"
    assert rows(read_graph(write(text))) == [("a", "r", "b")]
    with pytest.warns(GraphWarning, match="looks like a header"):
        assert len(rows(read_graph(write(text), header="no"))) == 2
    assert rows(read_graph(write("a\tr\tb\nb\tr\tc\n"), header="yes")) == [("b", "r", "c")]


def test_blank_lines_are_counted_and_line_numbers_are_correct(write):
    path = write("\n\nhead\trelation\ttail\n\na\tr\tb\n   \n\tr\tc\n")
    with pytest.raises(BadLine, match="line 7: has an empty head"):
        read_graph(path)
    with pytest.warns(GraphWarning, match=r"1 bad line skipped \(line 7\)"):
        report = read_graph(path, on_bad_line="skip").report.splits["train"]
    assert (report.lines, report.blanks, report.headers, report.bad_lines) == (7, 4, 1, 1)
    assert report.skipped[0].line == 7


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
    ],
)
def test_compressed_files_of_any_name_and_several_parts(write, suffix, pack):
    text = "\n".join(map("\t".join, ROWS)).encode()
    cut = text.index(b"\n") + 1
    assert rows(read_graph(write(pack(text), f"graph.tsv{suffix}"))) == ROWS
    assert rows(read_graph(write(pack(text), "misnamed"))) == ROWS
    assert rows(read_graph(write(pack(text[:cut]) + pack(text[cut:]), "twice"))) == ROWS


@pytest.mark.parametrize(
    "name", ["PAR1", "BZh9", "PK", "%PDF", "SQLite format 3", "ARROW1", "Xenon"]
)
def test_a_name_may_begin_like_a_binary_format(write, name):
    assert rows(read_graph(write(f"{name}\tr\tb\n"))) == [(name, "r", "b")]


def test_an_empty_compressed_file_is_empty(write):
    with pytest.raises(BadSource, match="is empty"):
        read_graph(write(bz2.compress(b"")))


def test_an_uncompressed_file_with_a_compressed_name(write):
    assert len(read_graph(write("a\tr\tb\n", "graph.tsv.gz")).train) == 1


def test_a_line_longer_than_a_block_is_one_bad_line(write, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 64)
    path = write("a\tr\tb\n" + "x" * 500 + "\tr\tb\nc\tr\td\n")
    with pytest.raises(BadLine, match="line 2: is longer than"):
        read_graph(path)
    with pytest.warns(GraphWarning, match="1 bad line"):
        graph = read_graph(path, on_bad_line="skip")
    assert rows(graph) == [("a", "r", "b"), ("c", "r", "d")]
    assert graph.report.splits["train"].lines == 3


def test_overlong_names_are_refused_by_fast_and_slow_reading(write):
    line = "x" * (1 << 20) + "\tr\tb\n"
    with pytest.raises(BadLine, match="line 2: is longer than"):
        read_graph(write("a\tr\tb\n" + line))
    assert len(read_graph(write("a\tr\tb\n" + line[10:])).train) == 2


def test_the_number_of_described_bad_lines_is_limited(write):
    path = write("a\tr\tb\n" * 3000 + "bad\n" * 1500)
    with pytest.warns(GraphWarning, match="1,500 bad lines"):
        report = read_graph(path, on_bad_line="skip").report.splits["train"]
    assert (report.bad_lines, len(report.skipped), report.duplicates) == (1500, 1000, 2999)


def test_progress_is_reported_for_large_files_only(write, monkeypatch):
    seen = []
    path = write("a\tr\tb\n" * 1000)
    read_graph(path, progress=lambda done, total: seen.append((done, total)))
    assert not seen
    monkeypatch.setattr(streams, "MIN_PROGRESS_BYTES", 1000)
    read_graph(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


def test_ids_do_not_depend_on_the_number_of_pieces(write, monkeypatch):
    text = "".join(f"e{i % 97}\tr{i % 7}\te{i * i % 89}\n" for i in range(5000))
    expected = read_graph(write(text))
    monkeypatch.setattr(streams, "BLOCK_BYTES", 1000)
    monkeypatch.setattr("fivestar.graph.encoding.GROUP_BYTES", 3000)
    assert read_graph(write(text)) == expected


def test_a_single_line_needs_no_line_feed(write):
    assert rows(read_graph(write("a\tr\tb"))) == [("a", "r", "b")]


def test_the_last_line_counts_for_the_delimiter_even_without_a_line_feed(write):
    with pytest.warns(GraphWarning, match=r"1 bad line skipped \(line 1\)"):
        graph = read_graph(write("New York is large\nx\tr\ty"), on_bad_line="skip")
    assert rows(graph) == [("x", "r", "y")]


def test_a_line_that_the_sample_cuts_off_does_not_count_for_the_delimiter(write):
    """The second line begins like three fields with commas; its tabs come after 64 KiB."""
    wanted = [("h", "r", "x,y," + "z" * 40_000), ("a,b," + "c" * 40_000, "r", "t")]
    assert rows(read_graph(write("".join("\t".join(row) + "\n" for row in wanted)))) == wanted


def test_a_csv_file_prefers_commas_to_tabs(write):
    text = "a,b\tc,d\te\n"
    assert rows(read_graph(write(text, "graph.csv"))) == [("a", "b\tc", "d\te")]
    assert rows(read_graph(write(text, "graph.CSV.gz"))) == [("a", "b\tc", "d\te")]
    assert rows(read_graph(write(text, "graph.tsv"))) == [("a,b", "c,d", "e")]


def test_a_quote_may_be_the_first_character_of_a_file(write):
    assert rows(read_graph(write('"a",r,c\n', "graph.csv"))) == [("a", "r", "c")]


def test_only_one_byte_order_mark_is_removed(write):
    assert rows(read_graph(write("\ufeff\ufeffa\tr\tb\n"))) == [("\ufeffa", "r", "b")]


@pytest.mark.parametrize(
    ("line", "role"), [(',"r",c', "head"), ('"a",,c', "relation"), ('"a",r,', "tail")]
)
def test_a_line_with_quotes_may_have_an_empty_field(write, line, role):
    with pytest.raises(BadLine, match=f"line 2: has an empty {role}"):
        read_graph(write(f"x,r,y\n{line}\n", "graph.csv"))


def test_one_title_is_suggested_for_an_unknown_one(write):
    path = write("head\trelation\ttail\ttall\na\tr\tb\tc\n")
    with pytest.raises(BadSource, match=r"no column 'tial' among .*; did you mean 'tail'\?"):
        read_graph(path, columns=("head", "relation", "tial"))


def test_a_carriage_return_within_a_line_does_not_end_it(write):
    with pytest.raises(BadLine, match="line 2: contains a carriage return"):
        read_graph(write("a\tr\tb\nx\tr\ty\rc\tr\td\n"))


def test_a_blank_line_before_an_overlong_one_is_a_line(write, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 64)
    text = "a\tr\t" + "b" * 59 + "\n\n" + "x" * 500 + "\tr\tb\nc\tr\td\n"
    with pytest.raises(BadLine, match="line 3: is longer than"):
        read_graph(write(text))


def test_tabs_within_quotes_do_not_make_a_file_tab_separated(write):
    text = '"a\tb\tx",r,"c, d"\n'
    assert rows(read_graph(write(text, "graph.txt"))) == [("a\tb\tx", "r", "c, d")]


@pytest.mark.parametrize("length", [63, 64, 65, 127, 128, 129])
def test_the_line_after_an_overlong_one_is_read(write, monkeypatch, length):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 64)
    path = write("a\tr\tb\n" * 8 + "\n" * 8 + "x" * length + "\nc\tr\td\n")
    with pytest.warns(GraphWarning, match=r"1 bad line skipped \(line 17\)"):
        graph = read_graph(path, on_bad_line="skip")
    assert rows(graph) == [("a", "r", "b"), ("c", "r", "d")]
