"""Likely triples as RDF: each triple, and a statement about it that holds its confidence.

Reified as `rdf:Statement`, which every tool reads; N-Triples, so it can be streamed. Names that are
IRIs stay as they are, others become IRIs of their own.
"""

from __future__ import annotations

import pyarrow as pa

from fivestar.graph.rdf_terms import RDF, name_as_iri

_DECIMAL = "http://www.w3.org/2001/XMLSchema#decimal"
CONFIDENCE = "urn:fivestar:confidence"


def iri(name: str, kind: str) -> str:
    """A name as an IRI. Text files may hold IRIs in their brackets, which are no part of them.

    >>> iri("<http://example.org/x>", "entity"), iri("New York", "entity")
    ('http://example.org/x', 'urn:fivestar:entity:New%20York')
    """
    bare = name.removeprefix("<").removesuffix(">")
    return bare if name_as_iri(bare, kind) == bare else name_as_iri(name, kind)


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
            f"{RDF}type": f"<{RDF}Statement>",
            f"{RDF}subject": s,
            f"{RDF}predicate": p,
            f"{RDF}object": o,
            CONFIDENCE: f'"{row["probability"]:.6f}"^^<{_DECIMAL}>',
        }
        lines += [f"{about} <{key}> {value} .\n" for key, value in told.items()]
    return "".join(lines)
