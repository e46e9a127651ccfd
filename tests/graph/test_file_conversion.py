from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.graph.formats import PACKED, SOURCES, UNORDERED, WRITTEN, facts

from fivestar.errors import BadSource, GraphWarning, OutputError
from fivestar.graph.file_conversion import convert_graph
from fivestar.graph.readers.base import ReadOptions
from fivestar.graph.reading import read_graph
from fivestar.graph.writing import write_graph

ignore_suspicions = pytest.mark.filterwarnings("ignore::fivestar.errors.GraphWarning")
ODD = [
    ("New York", "lies in", "http://example.org/USA"),
    ('say "hi"', "lies in", "a,b;c|d"),
    ("http://x y", "rel:1", "urn:fivestar:entity:x"),
    ("urn:fivestar:entity:a%20b", "rel:1", "é☆ \U0001f600"),
    ("_:b0", "a\\b", '"text"@en'),
    ("%41", "lies in", "A"),
    ("<http://brackets>", "<r>", "http://example.org/USA"),
    ("mailto:a@b.c", "rel:1", "New York"),
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return every source and its graph, read once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        graphs = {}
        for name, make in SOURCES.items():
            source = make(ODD, tmp_path_factory.mktemp("source"))
            graphs[name] = source, read_graph(source, name="graph")
    return graphs


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_facts(sources, name):
    _, graph = sources[name]
    assert facts(graph) == sorted(ODD)
    if name not in UNORDERED:
        assert graph == read_graph(ODD, name="graph")


@ignore_suspicions
@pytest.mark.parametrize("target", [*WRITTEN, *PACKED])
@pytest.mark.parametrize("name", SOURCES)
def test_every_source_to_every_format_and_back(sources, tmp_path, name, target):
    source, graph = sources[name]
    out = tmp_path / f"graph.{target}"
    done = convert_graph(source, out)
    assert done.triples == {"train": len(ODD)}
    assert read_graph(out, name="graph") == graph


@ignore_suspicions
@pytest.mark.parametrize("target", [*WRITTEN, *PACKED])
def test_every_format_in_a_folder_and_back(tmp_path, target):
    graph = read_graph(
        {"train": ODD, "dev": [*ODD[:2], *ODD[:2]], "test": [("x", "lies in", "_:b0")]}, name="g"
    )
    convert_graph(graph, tmp_path / "g", to=target)
    assert (tmp_path / "g" / f"valid.{target}").is_file()
    assert read_graph(tmp_path / "g") == graph


# All characters, and more often those with a special meaning in a format.
CHARACTER = st.one_of(
    st.sampled_from("\t,\"' \\<>_:#%@^.\ufeff\u2028\u0085é☆a\x7f"),
    st.characters(codec="utf-8"),
)
NAME = st.one_of(
    st.text(CHARACTER, min_size=1, max_size=6),
    st.sampled_from(["_:b0", "_:[0]", '"x"@en', '"x"^^<a:b>', "a:b", "http://é/?q#f", "_:", '"']),
)
TRIPLES = st.lists(st.tuples(NAME, NAME, NAME), min_size=1, max_size=8)


@ignore_suspicions
@settings(max_examples=25)
@pytest.mark.parametrize("target", WRITTEN)
@given(train=TRIPLES, test=st.lists(st.tuples(NAME, NAME, NAME), max_size=4))
@example(train=[("head", "relation", "tail")], test=[])
@example(train=[("\ufeffa", "r", "b")], test=[("a\tb", "r", "c")])
def test_any_graph_is_preserved_or_refused(tmp_path_factory, target, train, test):
    graph = read_graph({"train": train, **({"test": test} if test else {})}, name="graph")
    folder = tmp_path_factory.mktemp("any")
    out = folder / f"graph.{target}"
    single = len(graph.test) == 0 or target in ("nq", "parquet", "arrow", "feather")
    try:
        write_graph(graph, out)
    except OutputError as refused:
        reason = str(refused)
    else:
        reason = ""
    if reason:
        assert not list(folder.iterdir())
        names = "".join(name for triple in train + test for name in triple)
        bad = "\n\r\0" + ("\t" if target == "tsv" else "")
        assert not single or set(bad) & set(names) or "control characters" in reason
        return
    assert single
    assert read_graph(out) == graph
    # What was read from one file is written to another without a graph in between.
    again = folder / "again.parquet"
    convert_graph(out, again)
    assert read_graph(again, name="graph") == graph


@ignore_suspicions
@settings(max_examples=25)
@given(train=TRIPLES, literals=st.sampled_from(["drop", "keep"]))
def test_literals_and_blank_nodes_are_preserved(tmp_path_factory, train, literals):
    graph = read_graph(train, name="graph")
    out = tmp_path_factory.mktemp("any") / "graph.nt"
    write_graph(graph, out, literals="literals" if literals == "keep" else "names")
    assert read_graph(out, literals=literals) == graph


@pytest.fixture
def annotated(tmp_path):
    """A graph with labels, descriptions and types."""
    (tmp_path / "annotated.ttl").write_text("""
        @prefix : <http://x/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
        :b :likes :a . :a :likes _:c . :a rdfs:label "Anne" ; a :Person, :Child .
        :b a :Person ; rdfs:comment "someone else" . :likes rdfs:label "likes" .
        _:c a :Thing .
    """)
    return read_graph(tmp_path / "annotated.ttl", name="graph")


@pytest.mark.parametrize("target", ["nt", "nq.gz", "ttl"])
def test_rdf_preserves_labels_and_types(annotated, tmp_path, target):
    out = tmp_path / f"graph.{target}"
    write_graph(annotated, out)
    assert read_graph(out) == annotated
    convert_graph(tmp_path / "annotated.ttl", tmp_path / "again.nt")
    assert read_graph(tmp_path / "again.nt", name="graph") == annotated


@pytest.mark.parametrize("target", ["tsv", "nt", "parquet"])
def test_folders_preserve_labels_and_types(annotated, tmp_path, target):
    write_graph(annotated, tmp_path / "graph", to=target)
    assert read_graph(tmp_path / "graph") == annotated


@pytest.mark.parametrize("target", ["tsv", "parquet"])
def test_a_table_without_annotations_warns(annotated, tmp_path, target):
    for write in (
        lambda: write_graph(annotated, tmp_path / f"a.{target}"),
        lambda: convert_graph(tmp_path / "annotated.ttl", tmp_path / f"b.{target}"),
    ):
        with pytest.warns(GraphWarning, match="labels and types of the graph are not written"):
            write()


def test_line_breaks_of_labels_become_spaces_in_tables(tmp_path):
    (tmp_path / "in.nt").write_text(
        "<a:b> <a:c> <a:d> .\n"
        '<a:b> <http://www.w3.org/2000/01/rdf-schema#comment> "one\\n\\ttwo" .\n'
    )
    graph = read_graph(tmp_path / "in.nt")
    assert graph.entities.description_of(0) == "one\n\ttwo"
    write_graph(graph, tmp_path / "out")
    assert read_graph(tmp_path / "out").entities.description_of(0) == "one two"


def test_splits_in_one_file(tmp_path):
    graph = read_graph({"train": [("a", "r", "b")], "dev": [("b", "r", "a")]}, name="g")
    for target in ("nq", "parquet", "feather"):
        write_graph(graph, tmp_path / f"g.{target}")
        assert read_graph(tmp_path / f"g.{target}") == graph
        convert_graph(tmp_path / f"g.{target}", tmp_path / f"again.{target}.nq")
        assert read_graph(tmp_path / f"again.{target}.nq", name="g") == graph
    for source in (graph, tmp_path / "g.nq"):
        out = tmp_path / "one.nt"
        with pytest.raises(OutputError, match="merge them with splits='merge'"):
            convert_graph(source, out)
        assert not out.exists()
        convert_graph(source, out, splits="merge")
        assert facts(read_graph(out)) == [("a", "r", "b"), ("b", "r", "a")]
        out.unlink()


def test_files_are_replaced_only_on_request(tmp_path):
    out = tmp_path / "g.nt"
    convert_graph([("a", "r", "b")], out)
    before = out.read_bytes()
    with pytest.raises(OutputError, match="exists already"):
        convert_graph([("c", "r", "d")], out)
    with pytest.raises(OutputError, match="is the source"):
        convert_graph(out, out, existing="replace")
    bad = tmp_path / "bad.tsv"
    bad.write_text("a\tr\tb\nbroken\n")
    with pytest.raises(BadSource):
        convert_graph(bad, out, existing="replace")
    assert out.read_bytes() == before
    convert_graph([("c", "r", "d")], out, existing="replace")
    assert facts(read_graph(out)) == [("c", "r", "d")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tsv", "g.nt"]


def test_read_options_apply_to_conversion(tmp_path):
    (tmp_path / "g.nq").write_text('<a:b> <a:c> <a:d> <a:g> .\n<a:b> <a:c> "x" .\nbad\n')
    options = ReadOptions(graphs=("default",), literals="keep", on_bad_line="skip")
    done = convert_graph(tmp_path / "g.nq", tmp_path / "out.nt", options=options)
    assert (tmp_path / "out.nt").read_text() == '<a:b> <a:c> "x" .\n'
    report = done.report["train"]
    assert (report.lines, report.bad_lines, report.other_graphs, report.triples) == (3, 1, 1, 1)


def test_the_same_graph_gives_the_same_file(tmp_path):
    for name in ("a.nt.gz", "b.nt.gz"):
        write_graph(read_graph([("a", "r", "b")]), tmp_path / name)
    assert (tmp_path / "a.nt.gz").read_bytes() == (tmp_path / "b.nt.gz").read_bytes()


def test_tables_and_graphs_of_other_libraries(annotated):
    assert read_graph(annotated.to_arrow(), name="graph").train == annotated.train
    assert facts(read_graph(annotated.to_pandas())) == facts(annotated)
    network = annotated.to_networkx()
    assert network.nodes["http://x/a"]["label"] == "Anne"
    assert sorted(network.nodes["http://x/a"]["types"]) == ["http://x/Child", "http://x/Person"]
    assert facts(read_graph(network)) == facts(annotated)
    split = read_graph({"train": [("a", "r", "b")], "test": [("b", "r", "a"), ("a", "r", "b")]})
    assert read_graph(split.to_arrow()) == split
    assert read_graph(split.to_pandas()) == split
    again = read_graph(split.to_networkx())
    assert (facts(again), facts(again, "test")) == ([("a", "r", "b")], [("b", "r", "a")])


@pytest.mark.slow
@pytest.mark.parametrize("what", ["read", "convert"])
def test_a_million_triples_in_bounded_memory(tmp_path, what):
    with (tmp_path / "g.nt").open("w") as file:
        for i in range(1_000_000):
            h, t = i % 50_000, i * 7919 % 50_000
            file.write(
                f"<http://x.org/entity/{h}> <http://x.org/r{i % 50}> <http://x.org/entity/{t}> .\n"
            )
    do = {
        "read": "read_graph(sys.argv[1])",
        "convert": "convert_graph(sys.argv[1], sys.argv[1] + '.parquet')",
    }[what]
    code = f"""
import resource, sys, pyoxigraph, pyarrow.parquet
from fivestar.graph.file_conversion import convert_graph
from fivestar.graph.reading import read_graph
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{do}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "g.nt")],
        check=True,
        capture_output=True,
        text=True,
    )
    # A block of 16 MiB is copied several times; reading also keeps the names of a group.
    assert int(done.stdout) < {"read": 600, "convert": 300}[what], done.stdout
