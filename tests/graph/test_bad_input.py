"""The messages for all kinds of bad input, as listed in docs/bad-input.md.

After changing a message on purpose: UPDATE_DOCS=1 python -m pytest tests/graph/test_bad_input.py
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fivestar.cli.terminal import with_flags
from fivestar.errors import FivestarError, GraphWarning
from fivestar.graph.file_conversion import convert_graph
from fivestar.graph.reading import read_graph
from fivestar.graph.splitting import split_graph
from fivestar.graph.storage import save_graph
from fivestar.graph.writing import write_graph

PAGE = Path(__file__).parents[2] / "docs" / "bad-input.md"
GOOD = b"a\tr\tb\nb\tr\tc\n"
NT = b"<a:b> <a:c> <a:d> .\n"
TTL = b"@prefix e: <http://e/> .\ne:a e:b e:c .\n"
RDF_XML = (
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
    b'<rdf:Description rdf:about="http://x/"><e:p>text</e:p></rdf:Description></rdf:RDF>'
)
SRX = (
    b'<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="s"/>'
    b'<variable name="p"/><variable name="o"/></head><results><result><binding name="s">'
    b"<uri>http://x/</uri></binding></result></results></sparql>"
)
OPENKE = {
    "entity2id.txt": b"2\na\t0\nb\t1\n",
    "relation2id.txt": b"1\nr\t0\n",
    "train2id.txt": b"1\n0 1 0\n",
}
HEADING = """# Bad input and its messages

Each row is a test of the message (`DIR` stands for the folder of the test). Errors stop; after
warnings the graph is read. Messages name Python arguments (`on_bad_line='skip'`); the command line
shows its flags instead (`--on-bad-line skip`).

| input | message |
|---|---|
"""


def file(content, name="graph.tsv", **options):
    def source(folder):
        (folder / name).write_bytes(content)
        return read_graph(folder / name, **options)

    return source


def folder(files, **options):
    def source(where):
        (where / "graph").mkdir()
        for name, content in files.items():
            (where / "graph" / name).write_bytes(content)
        return read_graph(where / "graph", **options)

    return source


def as_parquet(columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


PARQUET = as_parquet({"s": ["a"], "p": ["r"], "o": ["b"]})


def converted(original, out):
    def source(where):
        (where / "taken.nt").write_bytes(NT)
        return convert_graph(original, where / out)

    return source


def value(source, **options):
    return lambda _: read_graph(source, **options)


def saved(damage):
    def source(where):
        save_graph(read_graph([("a", "r", "b")]), where / "saved")
        damage(where / "saved")
        return read_graph(where / "saved")

    return source


def edit_manifest(change):
    def damage(where):
        manifest = json.loads((where / "manifest.json").read_text())
        change(manifest)
        (where / "manifest.json").write_text(json.dumps(manifest))

    return damage


def point_outside(manifest):
    manifest["files"]["../entities.parquet"] = manifest["files"].pop("entities.parquet")


def occupied(where):
    (where / "out").mkdir()
    return write_graph(read_graph([("a", "r", "b")]), where / "out")


CASES = {
    "too few fields": file(GOOD + b"c\tr\n"),
    "too many fields": file(GOOD + b"c\tr\td\te\n"),
    "an empty head": file(GOOD + b"\tr\td\n"),
    "an empty relation": file(GOOD + b"c\t\td\n"),
    "an empty tail": file(GOOD + b"c\tr\t\n"),
    "only delimiters": file(GOOD + b"\t\t\n"),
    "invalid UTF-8 (Latin-1)": file(GOOD + "c\tr\tné\n".encode("latin1")),
    "a NUL byte": file(GOOD * 40 + b"c\0\tr\td\n"),
    "lines that end with CR": file(b"a\tr\tb\rb\tr\tc\r"),
    "a line of 2 MiB": file(GOOD + b"x" * (2 << 20) + b"\tr\tc\n"),
    "an unclosed quote": file(b'a,r,b\n"b,r,c\n', "graph.csv"),
    "text after a closing quote": file(b'a,r,b\n"b"x,r,c\n', "graph.csv"),
    "UTF-16": file(GOOD.decode().encode("utf-16")),
    "a binary file": file(bytes(range(256)) * 20),
    "a ZIP archive": file(b"PK\x03\x04" + bytes(100)),
    "a Parquet file": file(b"PAR1" + bytes(100)),
    "an empty file": file(b""),
    "only blank lines": file(b"\n\n  \n"),
    "only a header": file(b"head\trelation\ttail\n"),
    "every line bad, skipping": file(b"\xff\tr\tb\n\xff\tr\tc\n", on_bad_line="skip"),
    "no delimiter": file(b"one\ntwo\n"),
    "the wrong delimiter": file(GOOD, delimiter=";"),
    "five columns, none named": file(b"1\ta\tr\tb\t.5\n2\tb\tr\tc\t.5\n"),
    "a missing column number": file(GOOD, columns=(0, 1, 3)),
    "a missing column name": file(b"s\tp\to\n" + GOOD, columns=("s", "pp", "o")),
    "an ambiguous column name": file(b"s\ts\to\n" + GOOD, columns=("s", "o", "p")),
    "the same column twice": file(GOOD, columns=(0, 0, 1)),
    "names and numbers mixed": file(GOOD, columns=(0, "p", 2)),
    "column names without a header": file(GOOD, columns=("s", "p", "o"), header="no"),
    "a negative column number": file(GOOD, columns=(-1, 0, 1)),
    "an unknown value of an argument": file(GOOD, on_bad_line="ignore"),
    "an empty delimiter": file(GOOD, delimiter=""),
    "a quote of two characters": file(GOOD, quote="''"),
    "a truncated gzip file": file(gzip.compress(GOOD * 1000)[:-20], "graph.tsv.gz"),
    "a damaged xz file": file(lzma.compress(GOOD * 1000)[:-20], "graph.tsv.xz"),
    "a truncated bz2 file": file(bz2.compress(GOOD * 1000)[:-20], "graph.tsv.bz2"),
    "a truncated zstd file": file(
        pa.compress(GOOD * 1000, "zstd", asbytes=True)[:-9], "graph.tsv.zst"
    ),
    "an unknown name": lambda _: read_graph("my graph"),
    "a misspelled name": lambda where: (
        (where / "datasets" / "world").mkdir(parents=True) or read_graph("wrold")
    ),
    "a dataset without permission to download": lambda _: read_graph("WN18RR"),
    "an empty name": value(""),
    "a folder without splits": folder({"triples.tsv": GOOD, "notes.md": b"x"}),
    "an empty folder": folder({}),
    "two files for one split": folder({"train.txt": GOOD, "train.tsv": GOOD}),
    "a bad line in valid": folder({"train.txt": GOOD, "dev.txt": b"a\tr\tb\nbroken\n"}),
    "a bad line in labels": folder({"train.txt": GOOD, "entity_labels.tsv": b"a\tA\nb\n"}),
    "a number instead of a graph": value(42),
    "bytes instead of a path": value(b"graph.tsv"),
    "a mapping without train": value({"test": [("a", "r", "b")]}),
    "a mapping with an unknown split": value({"train": [("a", "r", "b")], "holdout": []}),
    "an iterable of pairs": value([("a", "r", "b"), ("a", "b")]),
    "an iterable of strings": value(["arb"]),
    "a triple with None": value([("a", None, "b")]),
    "no triples at all": value([]),
    "a table with a missing cell": value(
        pa.table({"s": ["a", None], "p": ["r", "r"], "o": ["b", "c"]})
    ),
    "a table of floating-point numbers": value(
        pd.DataFrame({"s": [1.0, np.nan], "p": ["r", "r"], "o": ["b", "c"]})
    ),
    "a table of four columns": value(pa.table({"i": [1], "x": ["a"], "y": ["r"], "z": ["b"]})),
    "a saved graph with a changed file": saved(
        lambda where: (where / "train.parquet").write_bytes(b"PAR1" + bytes(50))
    ),
    "a saved graph with a missing file": saved(lambda where: (where / "train.parquet").unlink()),
    "a saved graph with a broken manifest": saved(
        lambda where: (where / "manifest.json").write_text("{")
    ),
    "a saved graph of a later version": saved(edit_manifest(lambda m: m.update(version=2))),
    "a manifest of another format": saved(edit_manifest(lambda m: m.update(format="model"))),
    "a manifest that points outside": saved(edit_manifest(point_outside)),
    "a manifest without a report": saved(edit_manifest(lambda m: m.pop("report"))),
    "an output folder that exists": occupied,
    "broken Turtle": file(TTL + b"<a:b> <a:c> ; .\n", "graph.ttl"),
    "truncated Turtle": file(TTL[:-3], "graph.ttl"),
    "Turtle with an unknown prefix": file(b"ex:a ex:b ex:c .\n", "graph.ttl"),
    "Turtle with a relative IRI": file(b"<a> <a:b> <a:c> .\n", "graph.ttl"),
    "Turtle in Latin-1": file('<a:b> <a:c> "é" .\n'.encode("latin1"), "graph.ttl"),
    "Turtle that is UTF-16": file(TTL.decode().encode("utf-16"), "graph.ttl"),
    "Turtle that is a ZIP archive": file(b"PK\x03\x04" + bytes(100), "graph.ttl"),
    "Turtle with quoted triples (RDF-star)": file(
        b"<a:b> <a:c> <<( <a:a> <a:b> <a:c> )>> .\n", "graph.ttl"
    ),
    "deeply nested quoted triples": file(b"<a:b> <a:c> " + b"<<( <a:b> <a:c> " * 5000, "graph.ttl"),
    "a bad line of N-Triples": file(NT + b"<a:b> <a:c> d .\n", "graph.nt"),
    "N-Triples without the dot": file(NT + b"<a:b> <a:c> <a:d>\n", "graph.nt"),
    "N-Triples with two statements per line": file(NT[:-1] + b" " + NT, "graph.nt"),
    "N-Triples with a space in an IRI": file(NT + b"<a:b c> <a:c> <a:d> .\n", "graph.nt"),
    "N-Triples with a relative IRI": file(NT + b"<b> <a:c> <a:d> .\n", "graph.nt"),
    "N-Triples in Latin-1": file(NT + "<a:b> <a:c> <a:é> .\n".encode("latin1"), "graph.nt"),
    "N-Triples with a graph (N-Quads)": file(NT[:-2] + b"<a:g> .\n", "graph.nt"),
    "a weight that is not a number": file(b"a\tr\tb\t0.5\nb\tr\tc\thigh\n", weight=3),
    "a negative weight": file(b"a\tr\tb\t0.5\nb\tr\tc\t-1\n", weight=3),
    "a weight that is NaN": file(b"a\tr\tb\t0.5\nb\tr\tc\tnan\n", weight=3),
    "an empty weight": file(b"a\tr\tb\t0.5\nb\tr\tc\t\n", weight=3),
    "a weight column that is missing": file(b"h\tr\tt\tw\na\tr\tb\t1\n", weight="weight"),
    "RDF without the weights it should have": file(NT, "graph.nt", weight="http://e/confidence"),
    "tuples with a weight by name": value([("a", "r", "b", 0.5)], weight="confidence"),
    "N-Triples with a quoted triple": file(
        NT + b"<a:b> <a:c> <<( <a:a> <a:b> <a:c> )>> .\n", "graph.nt"
    ),
    "a text file named .nt": file(GOOD, "graph.nt"),
    "a zip bomb (100 MB of zeros)": file(gzip.compress(bytes(100 << 20), 1), "graph.nt.gz"),
    "a zip bomb (one endless line)": file(gzip.compress(b"x" * (100 << 20), 1), "graph.nt.gz"),
    "RDF with literals only": file(b'<a:b> <a:c> "x" .\n', "graph.nt"),
    "RDF with types only": file(b"<a:b> a <a:c> .\n", "graph.ttl"),
    "a missing named graph": file(NT, "graph.nt", graphs=["a:g"]),
    "no named graph at all": file(NT, "graph.nt", graphs=[]),
    "RDF/XML that is not well-formed": file(RDF_XML.replace(b"</e:p>", b""), "graph.rdf"),
    "truncated RDF/XML": file(RDF_XML[:-10], "graph.rdf"),
    "RDF/XML with a billion laughs": file(
        b"<!DOCTYPE r [<!ENTITY a '" + b"ha" * 9000 + b"'><!ENTITY b '&a;&a;&a;&a;'>]>" + RDF_XML,
        "graph.rdf",
    ),
    "RDF/XML with an external entity": file(
        b"<!DOCTYPE r [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>" + RDF_XML, "graph.rdf"
    ),
    "RDF/XML without rdf:RDF": file(b"<a><b/></a>", "graph.rdf"),
    "SPARQL results named .xml": file(SRX, "graph.xml"),
    "JSON-LD with a context on the web": file(
        b'{"@context": "https://schema.org/", "@id": "a:b"}', "graph.jsonld"
    ),
    "JSON-LD that is not JSON": file(b'{"@id": "a:b", }', "graph.jsonld"),
    "deeply nested JSON-LD": file(b'{"a:b":' * 9000, "graph.jsonld"),
    "JSON-LD with a relative id": file(b'{"@id": "b", "a:p": {"@id": "a:c"}}', "graph.jsonld"),
    "JSON that is not a SPARQL result": file(b'{"nodes": []}', "graph.json"),
    "the result of ASK": file(b'{"head": {}, "boolean": true}', "graph.srj"),
    "SPARQL results with a missing value": file(SRX, "graph.srx"),
    "SPARQL results with two variables": file(
        b'{"head": {"vars": ["s", "o"]}, "results": {"bindings": []}}', "graph.srj"
    ),
    "a truncated Parquet file": file(PARQUET[:-30], "graph.parquet"),
    "a Parquet file of the wrong schema": file(
        as_parquet({"id": [1], "name": ["x"], "size": [0.5], "tags": [["a"]]}), "graph.parquet"
    ),
    "a Parquet column of lists": file(
        as_parquet({"s": [["a"]], "p": ["r"], "o": ["b"]}), "graph.parquet"
    ),
    "a Parquet row with a missing cell": file(
        as_parquet({"s": ["a", None], "p": ["r", "r"], "o": ["b", "c"]}), "graph.parquet"
    ),
    "a Parquet row of an unknown split": file(
        as_parquet({"s": ["a"], "p": ["r"], "o": ["b"], "split": ["holdout"]}), "graph.parquet"
    ),
    "a compressed Parquet file": file(gzip.compress(PARQUET), "graph.parquet.gz"),
    "text named .parquet": file(GOOD, "graph.parquet"),
    "text named .arrow": file(GOOD, "graph.arrow"),
    "an old Feather file": file(b"FEA1" + bytes(100), "graph.feather"),
    "an unknown format": file(GOOD, format="turtle"),
    "a format for an object in memory": value([("a", "r", "b")], format="nt"),
    "a header wider than the lines": file(b"x\ty\thead\trelation\ttail\n" + GOOD),
    "a folder full of other files": folder({f"photo{i}.jpg": b"x" for i in range(12)}),
    "train as text and as RDF": folder({"train.tsv": GOOD, "train.nt": NT}),
    "OpenKE: a wrong count": folder(OPENKE | {"train2id.txt": b"3\n0 1 0\n"}),
    "OpenKE: a number too large": folder(OPENKE | {"train2id.txt": b"1\n0 0 1\n"}),
    "OpenKE: a number twice": folder(OPENKE | {"entity2id.txt": b"2\na\t0\nb\t0\n"}),
    "OpenKE: no names": folder({"train2id.txt": b"1\n0 1 0\n"}),
    "an undirected graph of NetworkX": value(nx.Graph([("a", "b")])),
    "an edge without a relation": value(nx.MultiDiGraph([("a", "b")])),
    "to text: a name with a line break": converted([("a\nb", "r", "c")], "out.tsv"),
    "to text: a name with a tab": converted([("a\tb", "r", "c")], "out.tsv"),
    "to one file: several splits": converted(
        {"train": [("a", "r", "b")], "test": [("b", "r", "a")]}, "out.nt"
    ),
    "to a file that exists": converted([("a", "r", "b")], "taken.nt"),
    "to an unknown format": converted([("a", "r", "b")], "out.xlsx"),
    "to a missing folder": converted([("a", "r", "b")], "no/where/out.nt"),
    "to compressed Parquet": converted([("a", "r", "b")], "out.parquet.gz"),
    "shares that leave no train": lambda _: split_graph(read_graph(), valid=0.5, test=0.5),
    "an invalid share": lambda _: split_graph(read_graph(), valid=5),
    "nothing can be held out": lambda _: split_graph(read_graph([("a", "r", "b")]), test=0.9),
    "warning: bad lines skipped": file(GOOD + b"c\tr\n\tr\tx\n", on_bad_line="skip"),
    "warning: a header read as a triple": file(b"name\trelation\tother\n" + GOOD, header="no"),
    "warning: relations that differ in case": file(b"a\tR\tb\nb\tr\tc\n"),
    "warning: two Unicode forms of a name": file("é\tr\tb\ne\u0301\tr\tc\n".encode()),
    "warning: leading or trailing white space": file(b"a \tr\tb\na\tr\tc\n"),
    "warning: self-loops": value([(str(i), "r", str(i)) for i in range(12)] + [("a", "r", "b")]),
    "warning: columns in another order": value(
        [("ab"[i % 2], f"e{i}", "ab"[i % 3 % 2]) for i in range(30)]
    ),
}


def message_of(case, where):
    """Return the error or the warnings of a case, without what differs between machines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            case(where)
            messages = [str(w.message) for w in caught if issubclass(w.category, GraphWarning)]
        except FivestarError as error:
            messages = [str(error)]
    return " ⏎ ".join(" / ".join(messages).replace(str(where), "DIR").splitlines())


@pytest.mark.parametrize("title", CASES)
def test_messages_are_documented(title, tmp_path):
    message = message_of(CASES[title], tmp_path)
    assert message
    assert " --" not in message, "a library message must name Python arguments, not flags"
    assert not re.search(r"\b[a-z_]+=['(\[]", with_flags(message)), "no flag for an argument"
    row = f"| {title} | {message.replace('|', '¦')} |"
    if os.environ.get("UPDATE_DOCS"):
        rows = {} if title == next(iter(CASES)) else _rows()
        rows[title] = row
        PAGE.write_text(HEADING + "\n".join(rows.values()) + "\n")
    assert _rows()[title] == row


def test_the_page_has_no_other_rows():
    assert list(_rows()) == list(CASES)


def _rows():
    lines = PAGE.read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and "input | message" not in line]
    return {row.split(" | ")[0].removeprefix("| "): row for row in rows}
