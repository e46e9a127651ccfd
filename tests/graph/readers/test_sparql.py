from __future__ import annotations

import json

import pytest

from fivestar.errors import BadSource, GraphWarning
from fivestar.graph.reading import read_graph

RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


def term(text):
    if text.startswith("_:"):
        return {"type": "bnode", "value": text[2:]}
    kind = "uri" if ":" in text else "literal"
    return {"type": kind, "value": text}


def save(path, rows, variables=("s", "p", "o")):
    if path.suffix == ".srj":
        bindings = [
            {v: term(text) for v, text in zip(variables, row, strict=True) if text} for row in rows
        ]
        path.write_text(
            json.dumps({"head": {"vars": variables}, "results": {"bindings": bindings}})
        )
        return path
    tags = {"bnode": "bnode", "uri": "uri", "literal": "literal"}
    results = ""
    for row in rows:
        results += "<result>"
        for variable, text in zip(variables, row, strict=True):
            if text:
                binding = term(text)
                tag = tags[binding["type"]]
                results += f'<binding name="{variable}"><{tag}>{binding["value"]}</{tag}></binding>'
        results += "</result>"
    head = "".join(f'<variable name="{variable}"/>' for variable in variables)
    path.write_text(
        '<sparql xmlns="http://www.w3.org/2005/sparql-results#">'
        f"<head>{head}</head><results>{results}</results></sparql>"
    )
    return path


@pytest.fixture(params=["srj", "srx"])
def path(request, tmp_path):
    return tmp_path / f"graph.{request.param}"


ROWS = [("a:s", "a:p", "a:o"), ("_:b", "a:p", "text"), ("a:s", RDFS_LABEL, "Ess")]


def test_rows_are_statements(path):
    graph = read_graph(save(path, ROWS))
    report = graph.report.splits["train"]
    assert (report.lines, report.triples, report.literals, report.labels) == (3, 1, 1, 1)
    assert graph.entities.label_of(0) == "Ess"
    assert len(read_graph(path, literals="keep").train) == 2


@pytest.mark.parametrize("variables", [("subject", "predicate", "object"), ("x", "y", "z")])
def test_variables_by_name_and_in_order(path, variables):
    assert len(read_graph(save(path, ROWS, variables)).train) == 1
    turned = [(row[2], row[1], row[0]) for row in ROWS[:1]]
    save(path, turned, variables)
    assert list(read_graph(path, columns=variables[::-1]).entities) == ["a:s", "a:o"]


def test_more_than_three_variables_need_columns(path):
    save(path, [("a:s", "a:p", "a:o", "a:x")], ("a", "b", "c", "d"))
    with pytest.raises(BadSource, match="has 4 columns"):
        read_graph(path)
    assert len(read_graph(path, columns=("a", "b", "c")).train) == 1


def test_rows_that_are_not_statements(path):
    save(path, [("a:s", "a:p", ""), ("text", "a:p", "a:o"), ("a:s", "_:p", "a:o"), *ROWS[:1]])
    with pytest.raises(BadSource, match=r"row 0: has no value for \?o"):
        read_graph(path)
    with pytest.warns(GraphWarning, match=r"3 bad rows skipped \(row 0, 1, 2\)"):
        graph = read_graph(path, on_bad_line="skip")
    reasons = [line.reason for line in graph.report.splits["train"].skipped]
    assert "cannot be a head" in reasons[1]
    assert "cannot be a relation" in reasons[2]


def test_truncated_results_are_refused(path):
    complete = save(path, ROWS * 20).read_bytes()
    path.write_bytes(complete[:-30])
    with pytest.raises(BadSource, match=r"well-formed|SPARQL result"):
        read_graph(path)


def test_results_as_text_are_text_with_a_header(tmp_path):
    (tmp_path / "g.tsv").write_text("?o\t?s\t?p\n<a:o>\t<a:s>\t<a:p>\n")
    graph = read_graph(tmp_path / "g.tsv")
    assert (list(graph.entities), list(graph.relations)) == (["<a:s>", "<a:o>"], ["<a:p>"])


def test_a_quoted_triple_is_a_bad_row(tmp_path):
    parts = {key: term(f"a:{key}") for key in ("subject", "predicate", "object")}
    row = {"s": term("a:s"), "p": term("a:p"), "o": {"type": "triple", "value": parts}}
    results = {"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": [row]}}
    (tmp_path / "g.srj").write_text(json.dumps(results))
    with pytest.raises(BadSource, match="quoted triple"):
        read_graph(tmp_path / "g.srj")


def test_the_format_can_be_given(path):
    save(path, ROWS)
    other = path.rename(path.with_name("results.txt"))
    assert len(read_graph(other, format=path.suffix[1:]).train) == 1


def test_binary_content_is_not_taken_for_results(path):
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(BadSource, match="is not UTF-8 text but a ZIP archive"):
        read_graph(path)
