"""Values of options about graphs; importing them is fast, as the command line needs."""

from __future__ import annotations

from typing import Literal

HeaderChoice = Literal["auto", "yes", "no"]
BadLineChoice = Literal["error", "skip"]
LiteralChoice = Literal["drop", "keep"]
TypeChoice = Literal["types", "triples"]
# All entities; those seen on that side of the relation; or those that share a type with one seen.
CandidateChoice = Literal["all", "observed", "types"]
FormatName = Literal[
    "text",
    "nt",
    "nq",
    "ttl",
    "trig",
    "rdf",
    "jsonld",
    "srj",
    "srx",
    "parquet",
    "arrow",
    "openke",
]
