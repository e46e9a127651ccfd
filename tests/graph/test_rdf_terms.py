from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox
from hypothesis import example, given
from hypothesis import strategies as st

from fivestar.graph.rdf_terms import (
    BLANK,
    IRI,
    LITERAL,
    iri_as_name,
    literal,
    literal_text,
    name_as_iri,
)
from fivestar.graph.vocabulary import NAME_TYPE

TEXT = st.text(st.characters(codec="utf-8"))
PIECE = st.sampled_from(
    [
        "a",
        "http:",
        "//",
        "/",
        ":",
        "@",
        "?",
        "#",
        "%41",
        "%",
        "[",
        "]",
        "é",
        "\ue000",
        "8",
        ".",
        " ",
    ]
)
LIKE_AN_IRI = st.lists(PIECE, max_size=9).map("".join)


def accepted(iri):
    try:
        ox.NamedNode(iri)
    except ValueError:
        return False
    return True


@given(st.one_of(LIKE_AN_IRI, TEXT, TEXT.map("a:".__add__)))
@example("a:")
@example("http://[::1]/")
@example("a://b:c@d:1/")
def test_iris_are_valid_and_both_regex_engines_agree(text):
    ours = re.fullmatch(IRI, text) is not None
    is_iri = pc.match_substring_regex(pa.array([text], NAME_TYPE), f"^(?:{IRI})$")[0].as_py()
    assert is_iri == ours
    assert accepted(text) or not ours
    # The other way round only addresses in brackets are missing.
    assert ours or not accepted(text) or "[" in text


@given(st.one_of(LIKE_AN_IRI, TEXT).filter(bool), st.sampled_from(["entity", "relation"]))
@example("urn:fivestar:entity:x", "entity")
@example("urn:fivestar:entity:%C3", "entity")
@example("urn:fivestar:entity:", "entity")
def test_names_are_preserved_as_iris(name, kind):
    iri = name_as_iri(name, kind)
    assert accepted(iri)
    assert iri_as_name(iri, kind) == name


@given(st.one_of(LIKE_AN_IRI, TEXT.map("urn:fivestar:entity:".__add__)))
@example("urn:fivestar:entity:a%2fb")
@example("urn:fivestar:entity:%ff")
def test_two_iris_never_become_one_name(iri):
    name = iri_as_name(iri, "entity")
    assert name == iri or name_as_iri(name, "entity") == iri


@given(TEXT, st.sampled_from([None, "en", "zh-yue"]))
def test_literals_agree_with_pyoxigraph_and_are_preserved(text, language):
    term = literal(text, language)
    assert term == str(ox.Literal(text, language=language))
    assert literal_text(term) == text
    line = f"<a:b> <a:c> {term} ."
    (quad,) = ox.parse(line.encode(), format=ox.RdfFormat.N_TRIPLES)
    assert quad.object.value == text


TERM_PIECE = st.sampled_from(
    [
        *"\"\\tbnrfu'@^<>_:.-a5",
        "\\u0000",
        "\\u0008",
        "\\u007F",
        "\\u00e9",
        "\x7f",
        "@en",
        "@en-gb",
        "^^<a:b>",
    ]
)


@given(st.lists(TERM_PIECE, max_size=8).map("".join), st.sampled_from(['"', '"a', "_:", "_:a", ""]))
def test_unescaped_terms_are_preserved(text, start):
    for term in (start + text, f'{start}{text}"'):
        if re.fullmatch(LITERAL, term) or re.fullmatch(BLANK, term):
            (quad,) = ox.parse(f"<a:b> <a:c> {term} .".encode(), format=ox.RdfFormat.N_TRIPLES)
            assert str(quad.object) == term
