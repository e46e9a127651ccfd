"""Values of the options of `read_graph`; importing them is fast, as the command line needs."""

from __future__ import annotations

from typing import Literal

HeaderChoice = Literal["auto", "yes", "no"]
BadLineChoice = Literal["error", "skip"]
LiteralChoice = Literal["drop", "keep"]
TypeChoice = Literal["types", "triples"]
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
