"""Reports of how every line of a source was used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fivestar.graph.readers.base import SkippedLine, Tally


@dataclass(frozen=True)
class SplitReport:
    """How the lines of one split were used.

    `lines` = headers + blanks + bad_lines + triples + duplicates, and for RDF + literals (dropped)
    + labels (and descriptions) + types + other_graphs + weights (statements that give weights).
    """

    source: str = ""
    lines: int = 0
    headers: int = 0
    blanks: int = 0
    bad_lines: int = 0
    triples: int = 0
    duplicates: int = 0
    literals: int = 0
    labels: int = 0
    types: int = 0
    other_graphs: int = 0
    skipped: tuple[SkippedLine, ...] = ()
    weights: int = 0

    @classmethod
    def of(cls, tally: Tally, triples: int, distinct: int) -> SplitReport:
        """Return the report of a split with this number of triples and of distinct ones."""
        return cls(
            source=tally.source,
            lines=tally.lines,
            headers=tally.headers,
            blanks=tally.blanks,
            bad_lines=tally.bad,
            triples=distinct,
            duplicates=triples - distinct,
            literals=tally.literals,
            labels=tally.labels,
            types=tally.types,
            other_graphs=tally.other_graphs,
            skipped=tuple(tally.skipped),
            weights=tally.weights,
        )


@dataclass(frozen=True)
class ReadReport:
    """How all lines were used, per split, and warnings about suspicious content."""

    splits: Mapping[str, SplitReport] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {
            "splits": {name: asdict(split) for name, split in self.splits.items()},
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReadReport:
        """Return the report of the result of `as_json`."""
        splits = {}
        for name, fields in data["splits"].items():
            skipped = tuple(SkippedLine(**line) for line in fields["skipped"])
            splits[name] = SplitReport(**{**fields, "skipped": skipped})
        return cls(splits, tuple(map(str, data["warnings"])))
