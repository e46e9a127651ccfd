"""The words by which people choose how a source is read; the command line needs nothing else."""

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
