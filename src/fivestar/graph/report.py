"""What became of every line that was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fivestar.graph.readers.base import SkippedLine, Tally


@dataclass(frozen=True)
class SplitReport:
    """What became of the lines of one split.

    `lines` = headers + blanks + bad lines + triples + duplicates, and in RDF + literals that were
    dropped + labels (descriptions, too) + types + statements of other graphs.
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

    @classmethod
    def of(cls, tally: Tally, triples: int, distinct: int) -> SplitReport:
        """The report of a split that holds this many triples, and this many different ones."""
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
        )


@dataclass(frozen=True)
class ReadReport:
    """What became of every line, split by split, and what looked suspicious."""

    splits: Mapping[str, SplitReport] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain dicts and lists."""
        return {
            "splits": {name: asdict(split) for name, split in self.splits.items()},
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReadReport:
        """The report that `as_json` wrote down."""
        splits = {}
        for name, fields in data["splits"].items():
            skipped = tuple(SkippedLine(**line) for line in fields["skipped"])
            splits[name] = SplitReport(**{**fields, "skipped": skipped})
        return cls(splits, tuple(map(str, data["warnings"])))
