from __future__ import annotations

import io
import json
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fivestar.errors import BadSource
from fivestar.graph.readers import guards
from fivestar.graph.readers.guards import GuardedStream, JsonGuard, TurtleGuard, XmlGuard
from fivestar.graph.reading import read_graph

JSON = st.recursive(
    st.text(st.sampled_from('"\\[]{}a')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("\\[{"), inner),
)


def depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (not isinstance(value, str)) + max(map(depth, inner), default=0)


@settings(max_examples=50)
@given(JSON, st.integers(1, 7))
def test_the_depth_of_json_does_not_depend_on_chunks(value, size):
    text = json.dumps(value).encode()
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards, "MAX_JSON_DEPTH", 2)
        refused = pytest.raises(BadSource) if depth(value) > 2 else nullcontext()
        with refused:
            inspect_all(JsonGuard("file"), [*pieces, b""])


def inspect_all(guard, pieces):
    for piece in pieces:
        guard.inspect(piece)


@given(st.binary(max_size=20), st.integers(1, 5))
def test_guards_pass_the_content_through(content, size):
    guarded = GuardedStream(io.BytesIO(b"\xef\xbb\xbf" + content), TurtleGuard("file"))
    passed = b"".join(iter(lambda: guarded.read(size), b""))
    assert passed == content


def test_deep_json_is_refused(tmp_path):
    for name, text in (
        ("g.jsonld", '{"http://x/":' * 300 + '{"@id":"http://y/"}' + "}" * 300),
        ("g.srj", '{"a":' * 300),
        ("g.jsonld", "[" * 100_000),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(BadSource, match="is nested deeper than 250 levels"):
            read_graph(tmp_path / name)


def test_deep_xml_is_refused(tmp_path):
    (tmp_path / "g.rdf").write_text("<a>" * 1000)
    with pytest.raises(BadSource, match="is nested deeper than 500 levels"):
        read_graph(tmp_path / "g.rdf")


def test_many_triple_terms_are_refused_before_they_exhaust_the_stack(tmp_path, monkeypatch):
    text = "<a:b> <a:c> " + "<<( <a:a> <a:b> " * 30_000 + "<a:e>" + " )>>" * 30_000 + " ."
    for kind in ("ttl", "trig"):
        (tmp_path / f"g.{kind}").write_text(text)
        with pytest.raises(BadSource, match="more than 1,000 triple terms"):
            read_graph(tmp_path / f"g.{kind}")
    (tmp_path / "g.nt").write_text(text)
    with pytest.raises(BadSource, match="quoted triple"):
        read_graph(tmp_path / "g.nt")
    monkeypatch.setattr(guards, "MAX_TRIPLE_TERMS", 3)
    inspect_all(TurtleGuard("file"), [b"<<(", b"<<(<", b"<(", b""])
    inspect_all(TurtleGuard("file"), [bytes([byte]) for byte in b"<<( <<( <<( a"])
    bytewise = [bytes([byte]) for byte in b"<<(<<(<<(<<("]
    with pytest.raises(BadSource, match="triple terms"):
        inspect_all(TurtleGuard("file"), bytewise)


def xml(entities, use):
    return (
        f'<?xml version="1.0"?><!DOCTYPE r [{entities}]><rdf:RDF xmlns:e="http://e/" '
        'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        f'<rdf:Description rdf:about="http://x/"><e:p>{use}</e:p>'
        '<e:q rdf:resource="http://y/"/></rdf:Description></rdf:RDF>'
    )


@pytest.mark.parametrize("use", ["&a8;", "unused"])
def test_entity_expansion_is_limited(tmp_path, use):
    bomb = '<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 9)
    )
    (tmp_path / "g.rdf").write_text(xml(bomb, use))
    with pytest.raises(BadSource, match="expands to more than 64 KiB"):
        read_graph(tmp_path / "g.rdf")


def test_limits_are_inclusive():
    for guard, text in (
        (XmlGuard, f'<!DOCTYPE r [<!ENTITY a "{"x" * guards.MAX_ENTITY_LENGTH}">]><r/>'),
        (XmlGuard, "<a>" * 500 + "</a>" * 500),
        (JsonGuard, "[" * 250 + "]" * 250 + "[" * 250),
        (TurtleGuard, "<<(" * 1000),
    ):
        inspect_all(guard("file"), [text.encode(), b""])
    for guard, text in (
        (XmlGuard, f'<!DOCTYPE r [<!ENTITY a "{"x" * (guards.MAX_ENTITY_LENGTH + 1)}">]><r/>'),
        (XmlGuard, "<a>" * 501),
        (JsonGuard, "[" * 251),
        (TurtleGuard, "<<(" * 1001),
    ):
        with pytest.raises(BadSource, match="file: "):
            guard("file").inspect(text.encode())


def test_many_uses_of_a_large_entity(tmp_path):
    (tmp_path / "g.rdf").write_text(xml(f'<!ENTITY a "{"x" * 60_000}">', "&a;" * 20_000))
    with pytest.raises(BadSource, match="amplification"):
        read_graph(tmp_path / "g.rdf")


def test_internal_entities_are_allowed_and_external_ones_refused(tmp_path):
    (tmp_path / "g.rdf").write_text(xml('<!ENTITY x "http://x/">', "&x;"))
    assert len(read_graph(tmp_path / "g.rdf").train) == 1
    (tmp_path / "g.rdf").write_text(xml('<!ENTITY x SYSTEM "file:///etc/passwd">', "&x;"))
    with pytest.raises(BadSource, match="external entity 'x'"):
        read_graph(tmp_path / "g.rdf")


def test_an_xml_guard_stops_at_the_end():
    guarded = GuardedStream(io.BytesIO(b"<a/>"), XmlGuard("file"))
    assert guarded.read() == b"<a/>"
    guarded.finish()
    assert guarded.read() == b""


def test_siblings_do_not_count_as_depth():
    inspect_all(XmlGuard("file"), [b"<r>" + b"<a/>" * 1000 + b"</r>", b""])
    inspect_all(JsonGuard("file"), [b"[" + b"[]," * 1000 + b"[]]", b""])
    with pytest.raises(BadSource, match="nested deeper"):
        inspect_all(JsonGuard("file"), [b"[]" * 1000 + b"[" * 251])
    with pytest.raises(BadSource, match="nested deeper"):
        inspect_all(XmlGuard("file"), [b"<r>" + b"<a/>" * 1000 + b"<a>" * 500])
