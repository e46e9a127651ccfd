"""Conversion of names to RDF terms and back, for all readers and writers.

Terms are written as in N-Triples. Names that are IRIs remain unchanged; all others become IRIs
`urn:fivestar:entity:…`, which are read back as the same names. Distinct names have distinct terms,
so a graph is preserved in RDF.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_SKOS = "http://www.w3.org/2004/02/skos/core#"

TYPE = f"<{RDF}type>"
LABEL = f"<{RDFS}label>"
DESCRIPTION = f"<{RDFS}comment>"
# In the order of preference.
LABELS = (f"<{_SKOS}prefLabel>", LABEL)
DESCRIPTIONS = (
    DESCRIPTION,
    f"<{_SKOS}definition>",
    "<http://schema.org/description>",
    "<https://schema.org/description>",
    "<http://purl.org/dc/terms/description>",
)
# How weights are written: nodes that represent facts, with this property. The prefix is that of a
# term, with its bracket.
WEIGHT = "<urn:fivestar:weight>"
OWN_STATEMENT = "<urn:fivestar:statement:"
# What a node that represents a fact says about it.
PARTS = (f"<{RDF}subject>", f"<{RDF}predicate>", f"<{RDF}object>")
# Named graphs of the splits in one file.
SPLIT_GRAPHS = {f"<urn:fivestar:split:{split}>": split for split in ("train", "valid", "test")}
# The named graph of predicted links: not read as facts, unless it is selected.
PREDICTION_GRAPH = "<urn:fivestar:predictions>"

_PREFIX = "urn:fivestar:"
_UCS = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14)
)
_UCS += "\U000e1000-\U000efffd"
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_PLAIN = rf"A-Za-z0-9\-._~!$&'()*+,;={_UCS}"
_BYTE = "%[0-9A-Fa-f]{2}"
_IN_PATH = f"(?:[{_PLAIN}:@]|{_BYTE})"
# RFC 3987, without IP addresses in brackets as the host. Valid for Python's engine and for RE2.
IRI = (
    r"[A-Za-z][A-Za-z0-9+.\-]*:"
    f"(?://(?:(?:[{_PLAIN}:]|{_BYTE})*@)?(?:[{_PLAIN}]|{_BYTE})*(?::[0-9]*)?(?:/{_IN_PATH}*)*"
    f"|/(?:{_IN_PATH}+(?:/{_IN_PATH}*)*)?"
    f"|{_IN_PATH}+(?:/{_IN_PATH}*)*"
    "|)"
    rf"(?:\?(?:[{_PLAIN}:@/?{_PRIVATE}]|{_BYTE})*)?"
    f"(?:#(?:[{_PLAIN}:@/?]|{_BYTE})*)?"
)
# A subset of what N-Triples allows, which all tools read as the same node.
BLANK = r"_:[A-Za-z0-9_](?:[A-Za-z0-9_.\-]*[A-Za-z0-9_\-])?"
# Literals as pyoxigraph writes them, so that they read back the same; without types that are
# implicit or need a language.
LITERAL = (
    r'"(?:[^"\\\x00-\x1f\x7f]|\\[tbnrf"\\]|\\u00(?:0[0-7BEF]|1[0-9A-F]|7F))*"'
    rf"(?:@[a-z]{{2,3}}(?:-[a-z]{{2}})?|\^\^<{IRI}>)?"
)
SPECIAL_TYPES = (
    "^^<http://www.w3.org/2001/XMLSchema#string>",
    f"^^<{RDF}langString>",
    f"^^<{RDF}dirLangString>",
)
_IS_IRI = re.compile(IRI)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = {
    **{chr(code): f"\\u{code:04X}" for code in (*range(0x20), 0x7F)},
    **{character: f"\\{letter}" for letter, character in _ESCAPED.items()},
    '"': '\\"',
    "\\": "\\\\",
}
_TO_ESCAPE = str.maketrans(_ESCAPES)


def name_as_iri(name: str, kind: str) -> str:
    """Return the unique IRI of a name.

    >>> name_as_iri("http://example.org/x", "entity"), name_as_iri("New York", "entity")
    ('http://example.org/x', 'urn:fivestar:entity:New%20York')
    """
    if _IS_IRI.fullmatch(name) and not name.startswith(_PREFIX):
        return name
    return f"{_PREFIX}{kind}:{quote(name, safe='')}"


def iri_as_name(iri: str, kind: str) -> str:
    """Return the name of an IRI of `name_as_iri`; any other IRI is its own name.

    >>> iri_as_name("urn:fivestar:entity:New%20York", "entity")
    'New York'
    >>> iri_as_name("urn:fivestar:entity:New%20York", "relation")
    'urn:fivestar:entity:New%20York'
    """
    prefix = f"{_PREFIX}{kind}:"
    if not iri.startswith(prefix):
        return iri
    try:
        name = unquote_to_bytes(iri.removeprefix(prefix)).decode()
    except UnicodeDecodeError:
        return iri
    # Only the canonical form, so that two IRIs never become the same name.
    return name if name and name_as_iri(name, kind) == iri else iri


def literal(text: str, language: str | None = None, datatype: str | None = None) -> str:
    r"""Return a literal as a term.

    Args:
        text: the text.
        language: its language tag, if it has one.
        datatype: the IRI of its type, if it has one and no language.

    >>> print(literal('say "hi"\n', "en"))
    "say \"hi\"\n"@en
    """
    tail = f"@{language}" if language else f"^^<{datatype}>" if datatype else ""
    return f'"{text.translate(_TO_ESCAPE)}"{tail}'


def literal_text(term: str) -> str:
    r"""Return the text of a literal.

    >>> literal_text(r'"caf\u00E9"@fr')
    'café'
    """
    text = term[1 : term.rindex('"')]  # neither a language nor a type contains a quote
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    short, long, letter = match.groups()
    if letter is not None:
        return _ESCAPED.get(letter, letter)
    return chr(int(short or long, 16))
