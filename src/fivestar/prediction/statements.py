"""Likely triples as RDF: each triple, and a statement about it that holds its confidence.

Reified as `rdf:Statement`, which every tool reads; N-Triples, so it can be streamed. Names that are
IRIs stay as they are, others become IRIs of their own.
"""

from __future__ import annotations

import re
from urllib.parse import quote

import pyarrow as pa

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_DECIMAL = "http://www.w3.org/2001/XMLSchema#decimal"
CONFIDENCE = "urn:fivestar:confidence"
_IS_IRI = re.compile(r"<?[A-Za-z][A-Za-z0-9+.-]*:\S+")
# What may not stand in an IRI, and so is written by its bytes.
_SAFE = "!#$%&'()*+,/:;=?@[]~-._"


def iri(name: str, kind: str) -> str:
    """A name as an IRI.

    >>> iri("http://example.org/x y", "entity"), iri("New York", "entity")
    ('http://example.org/x%20y', 'urn:fivestar:entity:New%20York')
    """
    if _IS_IRI.match(name):
        return quote(name.removeprefix("<").removesuffix(">"), safe=_SAFE)
    return f"urn:fivestar:{kind}:{quote(name, safe='')}"


def as_statements(table: pa.Table) -> str:
    """The lines of N-Triples for a table of head, relation, tail and perhaps probability."""
    lines = []
    for number, row in enumerate(table.to_pylist()):
        kinds = (("head", "entity"), ("relation", "relation"), ("tail", "entity"))
        s, p, o = (f"<{iri(row[column], kind)}>" for column, kind in kinds)
        lines.append(f"{s} {p} {o} .\n")
        if "probability" not in row:
            continue
        about = f"_:statement{number}"
        told = {
            f"{_RDF}type": f"<{_RDF}Statement>",
            f"{_RDF}subject": s,
            f"{_RDF}predicate": p,
            f"{_RDF}object": o,
            CONFIDENCE: f'"{row["probability"]:.6f}"^^<{_DECIMAL}>',
        }
        lines += [f"{about} <{key}> {value} .\n" for key, value in told.items()]
    return "".join(lines)
