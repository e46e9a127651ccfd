"""What every writer is: pieces of triples in, one file out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from fivestar.graph.readers.base import Annotations, TripleColumns

SplitColumn = Literal["told", "untold"]


@dataclass(frozen=True)
class WriteChoices:
    """How things are written that could be written in two ways.

    `splits` are told apart where the format can; `blanks` and `literals` become again what they
    were in RDF ("nodes", "literals"), or IRIs as other names do ("names"). Blank nodes mean nothing
    outside of their file, so they must be names where a graph is several files.
    """

    splits: SplitColumn = "untold"
    blanks: Literal["nodes", "names"] = "nodes"
    literals: Literal["literals", "names"] = "names"


class Sink(Protocol):
    """A file that is being written."""

    def write(self, piece: TripleColumns) -> None:
        """Add triples."""
        ...

    def tell(self, told: Annotations) -> None:
        """Add what is said about names, if the format can hold that."""
        ...

    def close(self) -> None:
        """End the file."""
        ...
