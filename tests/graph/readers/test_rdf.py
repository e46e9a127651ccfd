from __future__ import annotations

import bz2
import gzip

import pyarrow as pa
import pyoxigraph as ox
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.graph.formats import RDF_FORMATS

from fivestar.errors import BadLine, BadSource, GraphWarning, MissingExtra
from fivestar.graph.readers import rdf_lines, streams
from fivestar.graph.reading import read_graph

RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
TTL = f"""
@prefix : <http://x/> . @prefix rdfs: <{RDFS}> . @prefix skos: <{SKOS}> .
:anne :knows :bert ; a :Person ; :age 5 ; rdfs:label "Anna"@de, "Anne"@en, "A" ;
  rdfs:comment "a person" .
:bert :knows [ :knows :anne ], _:c ; rdfs:label "Bertie" ; skos:prefLabel "Bert"@fr .
:knows rdfs:label "knows"@en-GB .
"""


def rows(graph, split="train"):
    return list(zip(*graph.named(graph.split(split)).to_pydict().values(), strict=True))


def adds_up(report):
    counted = report.headers + report.blanks + report.bad_lines + report.triples + report.duplicates
    return report.lines == counted + report.literals + report.labels + report.types + (
        report.other_graphs
    )


@pytest.fixture
def write(tmp_path):
    def write(content, name):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture(params=RDF_FORMATS)
def path(request, tmp_path):
    """Return the same graph in each format."""
    quads = list(ox.parse(TTL.encode(), format=ox.RdfFormat.TURTLE))
    kind = RDF_FORMATS[request.param]
    items = quads if kind.supports_datasets else [quad.triple for quad in quads]
    ox.serialize(items, output=str(tmp_path / f"g.{request.param}"), format=kind)
    return tmp_path / f"g.{request.param}"


def test_facts_labels_descriptions_types_and_literals(path):
    graph = read_graph(path)
    report = graph.report.splits["train"]
    assert (report.triples, report.literals, report.labels, report.types) == (4, 1, 7, 1)
    assert adds_up(report)
    assert len(graph.entities) == 4
    anne, bert = (graph.entities.id_of(f"http://x/{name}") for name in ("anne", "bert"))
    assert graph.entities.label_of(anne) == "Anne"
    assert graph.entities.label_of(bert) == "Bertie"
    assert graph.entities.description_of(anne) == "a person"
    assert graph.relations.label_of(0) == "knows"
    assert graph.types.of(anne) == ["http://x/Person"]


@pytest.mark.parametrize(
    ("language", "anne", "bert"),
    [("de", "Anna", "Bertie"), ("fr", "A", "Bert"), ("en", "Anne", "Bertie")],
)
def test_labels_prefer_the_language_then_none_then_any(path, language, anne, bert):
    graph = read_graph(path, language=language)
    labels = {name: graph.entities.label_of(i) for i, name in enumerate(graph.entities)}
    assert (labels["http://x/anne"], labels["http://x/bert"]) == (anne, bert)


def test_literals_and_types_as_triples_on_request(path):
    graph = read_graph(path, literals="keep")
    age = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert ("http://x/anne", "http://x/age", age) in rows(graph)
    assert graph.report.splits["train"].literals == 0
    typed = read_graph(path, types="triples")
    assert typed.types is None
    assert "http://www.w3.org/1999/02/22-rdf-syntax-ns#type" in typed.relations
    assert adds_up(typed.report.splits["train"])


def test_the_same_file_is_the_same_graph_each_time(path):
    assert read_graph(path) == read_graph(path)


def test_the_format_can_be_given(path):
    other = path.with_name("file.txt")
    kind = path.suffix[1:]
    path.rename(other)
    assert len(read_graph(other, format=kind).train) == 4


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lambda data: pa.compress(data, "zstd", asbytes=True)]
)
def test_compressed_files(path, pack):
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(pack(path.read_bytes()))
    assert read_graph(packed, name="g") == read_graph(path, name="g")


@pytest.mark.parametrize("kind", ["nq", "trig"])
def test_named_graphs_can_be_selected(tmp_path, kind):
    quads = [
        ox.Quad(ox.NamedNode("a:s"), ox.NamedNode("a:p"), ox.NamedNode(f"a:{name}"), graph)
        for name, graph in (
            ("d", ox.DefaultGraph()),
            ("g", ox.NamedNode("a:g")),
            ("h", ox.NamedNode("a:h")),
        )
    ]
    path = tmp_path / f"g.{kind}"
    ox.serialize(quads, output=str(path), format=RDF_FORMATS[kind])
    for graphs, tails in (
        (None, "dgh"),
        (["default"], "d"),
        (["a:g"], "g"),
        (["<a:g>", "default"], "dg"),
        ("a:h", "h"),
    ):
        graph = read_graph(path, graphs=graphs)
        assert {row[2] for row in rows(graph)} == {f"a:{tail}" for tail in tails}
        assert graph.report.splits["train"].other_graphs == 3 - len(tails)
        assert adds_up(graph.report.splits["train"])
    with pytest.raises(BadSource, match=r"3 of other graphs.*select them with graphs="):
        read_graph(path, graphs=["a:x"])


def test_blank_nodes_of_two_files_are_distinct(tmp_path):
    for kind in ("nt", "ttl"):
        folder = tmp_path / kind
        folder.mkdir()
        for split in ("train", "test"):
            (folder / f"{split}.{kind}").write_text("_:b <a:r> <a:c> .\n")
        graph = read_graph(folder)
        assert list(graph.entities) == ["_:train.b", "a:c", "_:test.b"]
    assert list(read_graph(tmp_path / "nt" / "train.nt").entities) == ["_:b", "a:c"]


def test_labels_of_blank_nodes_belong_to_their_file(tmp_path):
    for split in ("train", "test"):
        (tmp_path / f"{split}.nt").write_text(
            f'_:b <a:r> <a:c> .\n_:b <{RDFS}label> "of {split}" .\n<a:c> <{RDFS}label> "c" .\n'
        )
    entities = read_graph(tmp_path).entities
    assert {name: entities.label_of(i) for i, name in enumerate(entities)} == {
        "_:train.b": "of train",
        "_:test.b": "of test",
        "a:c": "c",
    }


def test_unlabeled_blank_nodes_are_numbered(write):
    graph = read_graph(write("[] <a:r> [ <a:r> [] ] . _:x <a:r> _:x .", "g.ttl"))
    assert sorted(graph.entities) == ["_:[0]", "_:[1]", "_:[2]", "_:x"]


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
IRIS = [
    *("<a:b>", "<http://x/é>", "<a:%41>", "<a:%zz>", "<rel>", "<a:b c>", r"<a:\u0062>"),
    *("<a:b#c#d>", "<http://[::1]/>", "<http://a:b/>", "<urn:fivestar:entity:x%20y>"),
    *(f"<{RDFS}label>", f"<{RDF}type>", "<urn:fivestar:split:valid>"),
]
LITERALS = [
    *('"x"', '"x y <z>"', r'"\"\\\u00e9\t"', '"\t"', '"x"@en', '"x"@en-GB', '"x"@de-de'),
    *('"x"@a-b-c', '"x"^^<a:b>', '"x"^^<rel>', f'"x"^^<{XSD}string>', '"x"^^', '"'),
    *(f'"x"^^<{RDF}langString>', '"\x01\x7f"', '"a"b"', '"x <y"^^<z:z>', r'"\u0008\b"'),
]
OTHERS = ["_:b0", "_:é", "_:b.", "_:", "<<", ">>", "<<( <a:b> <a:c> <a:d> )>>", "#", ".", ""]
TERM = st.sampled_from(IRIS + LITERALS + OTHERS)
SPACE = st.sampled_from([" ", " ", " ", "  ", "\t", ""])
END = st.sampled_from([" .\n", " .\n", " .\r\n", ".\n", " . # x\n", "\n", " . .\n", " .\r", " ."])
LINE = st.tuples(TERM, SPACE, TERM, SPACE, TERM, SPACE, st.one_of(st.just(""), TERM), END).map(
    "".join
)


@pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")
@pytest.mark.parametrize("kind", ["nt", "nq"])
@settings(max_examples=50)
@given(lines=st.lists(LINE, min_size=1, max_size=12), size=st.sampled_from([64, 1 << 16]))
@example(lines=["<a:b> <a:c> <a:d> .\n", "<a:b> <a:c> <a:d> .\r"], size=64)
def test_fast_and_slow_reading_of_lines_agree(tmp_path_factory, kind, lines, size):
    path = tmp_path_factory.mktemp("lines") / f"g.{kind}"
    path.write_text("".join(lines), newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BLOCK_BYTES", size)
        quick = _outcome(path)
        patch.setattr(
            rdf_lines._Lines,
            "plain_statements",
            lambda self, **_: (
                rdf_lines.Statements.of([]),
                rdf_lines.np.zeros(len(self.starts), bool),
            ),
        )
        assert _outcome(path) == quick


def _outcome(path):
    try:
        graph = read_graph(path, on_bad_line="skip", literals="keep")
    except BadSource as error:
        return str(error)
    assert all(adds_up(report) for report in graph.report.splits.values())
    return graph, graph.report


@pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")
@pytest.mark.parametrize("kind", ["nt", "nq"])
@settings(max_examples=50)
@given(lines=st.lists(LINE, min_size=1, max_size=6))
def test_exactly_the_lines_that_pyoxigraph_accepts_are_read(tmp_path_factory, kind, lines):
    accepted = []
    for line in "".join(lines).split("\n"):
        try:
            if "<<" not in line and "\r" not in line.removesuffix("\r"):
                accepted += ox.parse(line.encode(), format=RDF_FORMATS[kind])
        except SyntaxError:
            pass
    path = tmp_path_factory.mktemp("lines") / f"g.{kind}"
    path.write_text("".join(lines), newline="")
    try:
        reports = read_graph(path, on_bad_line="skip").report.splits.values()
    except BadSource:
        reports = []
    read = sum(r.lines - r.blanks - r.bad_lines for r in reports)
    assert read == len(accepted) or not reports


def test_a_bad_line_affects_no_other_line(write):
    lines = [b"<a:b> <a:c> <a:d> .", b"no", b"\xe9", b"<a:b> <a:c> <a:e f> .", b'<a:b> <a:c> "x .']
    path = write(b"\n".join(lines), "g.nt")
    with pytest.raises(BadLine, match="line 2: is not a statement") as caught:
        read_graph(path)
    assert caught.value.line == 2
    with pytest.warns(GraphWarning, match=r"4 bad lines skipped \(line 2, 3, 4, 5\)"):
        graph = read_graph(path, on_bad_line="skip")
    assert rows(graph) == [("a:b", "a:c", "a:d")]


def test_lines_are_numbered_across_blocks(write, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 64)
    path = write("<a:b> <a:c> <a:d> .\n" * 20 + "bad\n", "g.nt")
    with pytest.raises(BadLine, match="line 21"):
        read_graph(path)


def test_errors_in_turtle_have_a_line_and_cannot_be_skipped(write):
    path = write("<a:b> <a:c> <a:d> .\n\n<a:b> <a:c <a:e> .\n", "g.ttl")
    for choice in ("error", "skip"):
        with pytest.raises(BadLine, match="line 3: is not Turtle: ") as caught:
            read_graph(path, on_bad_line=choice)
        assert caught.value.line == 3
        assert "on_bad_line='skip' does not help" in str(caught.value)


@pytest.mark.parametrize("cut", [30, 200, -20, -5])
def test_truncated_xml_is_refused(tmp_path, cut):
    quads = list(ox.parse(TTL.encode(), format=ox.RdfFormat.TURTLE))
    complete = ox.serialize([quad.triple for quad in quads], format=ox.RdfFormat.RDF_XML)
    (tmp_path / "g.rdf").write_bytes(complete[:cut])
    with pytest.raises(BadSource, match="not well-formed XML"):
        read_graph(tmp_path / "g.rdf")


def test_byte_order_marks_are_ignored(write):
    for kind in ("nt", "ttl"):
        assert len(read_graph(write("\ufeff<a:b> <a:c> <a:d> .\n", f"g.{kind}")).train) == 1


def test_without_pyoxigraph_the_error_says_how_to_install_it(write, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyoxigraph", None)
    with pytest.raises(MissingExtra, match=r"reading g.nt needs pyoxigraph: .*\[rdf\]"):
        read_graph(write("<a:b> <a:c> <a:d> .\n", "g.nt"))


def test_splits_as_named_graphs(write):
    path = write(
        "<a:b> <a:c> <a:d> <urn:fivestar:split:test> .\n<a:b> <a:c> <a:e> .\n"
        "<a:b> <a:c> <a:f> <urn:fivestar:split:train> .\n",
        "g.nq",
    )
    graph = read_graph(path)
    assert (len(graph.train), len(graph.valid), len(graph.test)) == (2, 0, 1)
    assert list(graph.entities) == ["a:b", "a:e", "a:f", "a:d"]
    assert all(adds_up(report) for report in graph.report.splits.values())
    assert len(read_graph(path, graphs=["urn:fivestar:split:test"]).train) == 1


@pytest.mark.parametrize("kind", ["nt", "nq", "ttl", "trig"])
def test_quoted_triples_are_bad_statements(write, kind):
    text = "<a:b> <a:c> <a:d> .\n<a:b> <a:c> <<( <a:a> <a:b> <a:c> )>> .\n"
    path = write(text + '<a:b> <a:c> <<( _:a <a:b> "x y" )>> .\n', f"g.{kind}")
    with pytest.raises(BadLine, match="2: has a quoted triple"):
        read_graph(path)
    with pytest.warns(GraphWarning, match="2 bad"):
        graph = read_graph(path, on_bad_line="skip", literals="keep")
    assert rows(graph) == [("a:b", "a:c", "a:d")]


@pytest.mark.parametrize("end", [" x", " ,", "x.", " "])
def test_a_statement_without_its_dot_is_refused(tmp_path, end):
    statement = "<http://a/> <http://b/> <http://c/>"
    (tmp_path / "g.nt").write_text(f"{statement} .\n{statement}{end}\n")
    with pytest.raises(BadLine, match="line 2"):
        read_graph(tmp_path / "g.nt")


@pytest.mark.parametrize("kind", ["nt", "nq"])
def test_a_statement_without_its_object_is_refused(write, kind):
    path = write("<a:b> <a:c> <a:d> .\n<a:b> <a:c> .\n<a:e> <a:c> <a:d> .\n", f"g.{kind}")
    with pytest.raises(BadLine, match="line 2: is not a statement"):
        read_graph(path)
    with pytest.warns(GraphWarning, match=r"1 bad line skipped \(line 2\)"):
        assert len(read_graph(path, on_bad_line="skip").train) == 2


def test_a_label_of_a_regional_language_is_one_of_the_language(write):
    label = f"<a:s> <{RDFS}label>"
    path = write(f'<a:s> <a:p> <a:o> .\n{label} "lift"@en-GB .\n{label} "plain" .\n', "g.nt")
    for language, wanted in (("en", "lift"), ("de", "plain"), ("en-GB", "lift")):
        assert read_graph(path, language=language).entities.label_of(0) == wanted


def test_graphs_of_lines_that_are_not_plain_can_be_selected(write):
    """Two spaces: such lines are parsed by pyoxigraph."""
    path = write("<a:s>  <a:p> <a:d> .\n<a:s>  <a:p> <a:g> <a:n> .\n", "g.nq")
    for graphs, tails in ((["default"], ["a:d"]), (["a:n"], ["a:g"]), (None, ["a:d", "a:g"])):
        assert [row[2] for row in rows(read_graph(path, graphs=graphs))] == tails


@pytest.mark.parametrize("gap", [" ", "  "])
def test_an_overlong_line_is_a_bad_line(write, gap):
    text = "x" * (1 << 20)
    path = write(f'<a:b>{gap}<a:c> "{text}" .\n<a:b> <a:c> <a:d> .\n', "g.nt")
    with pytest.raises(BadLine, match="line 1: is longer than 1 MiB"):
        read_graph(path)
    with pytest.warns(GraphWarning, match=r"1 bad line skipped \(line 1\)"):
        assert rows(read_graph(path, on_bad_line="skip")) == [("a:b", "a:c", "a:d")]


def test_a_file_of_nothing_but_a_byte_order_mark_has_no_triple(write):
    with pytest.raises(BadSource, match="contains no triple"):
        read_graph(write("\ufeff", "g.nt"))


def test_angle_brackets_in_a_literal_are_no_quoted_triple(write):
    path = write('<a:b>  <a:c> "1 << 2" .\n<a:b> <a:c> "1 << 3" .\n', "g.nt")
    assert [row[2] for row in rows(read_graph(path, literals="keep"))] == ['"1 << 2"', '"1 << 3"']
