"""The folder of OpenKE: names in entity2id.txt and relation2id.txt, facts in numbers.

Each file begins with how many lines follow. The columns of facts are head, tail, relation: in this
order, unlike anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from fivestar.errors import BadSource
from fivestar.graph.arrow import to_arrow
from fivestar.graph.readers.base import (
    SPLIT_NAMES,
    Formats,
    ReadOptions,
    Tally,
    TripleColumns,
)
from fivestar.graph.readers.blocks import line_blocks
from fivestar.graph.readers.compression import open_bytes, refuse_binary
from fivestar.graph.readers.dialect import counted
from fivestar.graph.vocabulary import NAME_TYPE

_NAMES = {"entity": "entity2id.txt", "relation": "relation2id.txt"}
_SAMPLE_BYTES = 1 << 12


@dataclass(frozen=True)
class NumberedFacts:
    """A file of facts in numbers, beside the files of their names."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


def find_openke(folder: Path) -> dict[str, object]:
    """The splits of a folder of OpenKE; none if it is no such folder."""
    found: dict[str, object] = {}
    for split, names in SPLIT_NAMES.items():
        for name in names:
            if (folder / f"{name}2id.txt").is_file():
                found[split] = NumberedFacts(folder / f"{name}2id.txt")
    return found


class OpenKEReader:
    """Reads facts in numbers, and looks their names up."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Only what `find_openke` has found."""
        return isinstance(source, NumberedFacts)

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """The facts of one split."""
        path = Path(str(source))
        tally.unit = "line"
        entities, relations = (_read_names(path.parent, kind) for kind in ("entity", "relation"))
        numbers = _Numbers(len(entities), len(relations), options, tally)
        rows = numbers.read(path)
        heads, tails, thirds = rows[:, 0], rows[:, 1], rows[:, 2]
        yield TripleColumns(
            _taken(entities, heads), _taken(relations, thirds), _taken(entities, tails)
        )


class _Numbers:
    """The lines of a file of facts, each checked."""

    def __init__(self, entities: int, relations: int, options: ReadOptions, tally: Tally) -> None:
        self._most = {"head": entities, "tail": entities, "relation": relations}
        self._options = options
        self._tally = tally

    def read(self, path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Head, tail and relation of each good line."""
        rows: list[list[int]] = []
        begun: tuple[int, bytes] | None = None
        said: int | None = None
        followed = 0
        for line in _lines(path, self._options):
            self._tally.lines += 1
            if not line.strip():
                self._tally.blanks += 1
            elif begun is None:
                begun = (self._tally.lines, line)
                said = _count(line, self._tally.source)
            else:
                followed += 1
                fact = self._fact(line)
                if isinstance(fact, str):
                    self._reject(self._tally.lines, fact, line)
                else:
                    rows.append(fact)
        if begun is None:
            raise BadSource(f"{path}: is empty; its first line should say how many facts follow")
        if said == followed:
            self._tally.headers += 1
        else:
            reason = f"says that {counted(said or 0, 'fact')} follow, but there are {followed:,}"
            self._reject(begun[0], f"{reason}; is the file whole?", begun[1])
        return np.array(rows, np.int64).reshape(-1, 3)

    def _fact(self, line: bytes) -> list[int] | str:
        fields = line.split()
        if len(fields) != 3:
            return f"has {counted(len(fields), 'field')} where 3 are expected: head tail relation"
        fact = []
        for field, (role, most) in zip(fields, self._most.items(), strict=True):
            number = _number(field)
            if number is None:
                return f"has a {role} that is no number"
            if number >= most:
                kind = "relation" if role == "relation" else "entity"
                return (
                    f"has the {role} {number:,}, but {_NAMES[kind]} has {counted(most, 'name')}, "
                    "numbered from 0; the order is head, tail, relation"
                )
            fact.append(number)
        return fact

    def _reject(self, number: int, reason: str, line: bytes) -> None:
        shown = line[:1_000].decode("utf-8", "backslashreplace")
        self._tally.reject(number, reason, shown, self._options)


def _read_names(folder: Path, kind: str) -> pa.Array:
    """The names of a kind in the order of their numbers."""
    path = folder / _NAMES[kind]
    if not path.is_file():
        raise BadSource(
            f"{folder}: has facts in numbers (train2id.txt) but no {path.name} with their names; "
            "put it there"
        )
    lines = ((at, line) for at, line in enumerate(_lines(path, None), 1) if line.strip())
    _, first = next(lines, (0, None))
    if first is None:
        raise BadSource(f"{path}: is empty; its first line should say how many names follow")
    said = _count(first, str(path))
    names: dict[int, str] = {}
    for at, line in lines:
        name, _, digits = line.strip().replace(b"\t", b" ").rpartition(b" ")
        number = _number(digits)
        if number is None or not name:
            raise BadSource(f"{path}, line {at}: should be a name and its number")
        if number in names:
            raise BadSource(f"{path}, line {at}: the number {number:,} is given twice")
        # The bytes in front of the number as they are: a name may hold blanks and tabs.
        try:
            names[number] = line.strip()[: len(name)].strip().decode("utf-8")
        except UnicodeDecodeError:
            raise BadSource(f"{path}, line {at}: is not UTF-8") from None
    if len(names) != said:
        raise BadSource(
            f"{path}: says that {counted(said, 'name')} follow, but there are {len(names):,}; "
            "is the file whole?"
        )
    if names and max(names) != len(names) - 1:
        raise BadSource(f"{path}: the numbers do not run from 0 to {len(names) - 1:,}")
    return pa.array([names[number] for number in range(len(names))], NAME_TYPE)


def _lines(path: Path, options: ReadOptions | None) -> Iterator[bytes]:
    with open_bytes(path, options.progress if options else None) as stream:
        for number, block in enumerate(line_blocks(stream)):
            if number == 0:
                sample = bytes(memoryview(block.buffer)[block.start : block.end][:_SAMPLE_BYTES])
                refuse_binary(sample, str(path))
            if block.overlong:
                raise BadSource(f"{path}: has a line of many megabytes; is this a file of OpenKE?")
            yield from block.lines()


def _count(line: bytes, name: str) -> int:
    number = _number(line.strip())
    if number is None:
        raise BadSource(f"{name}: its first line should be a number, how many lines follow")
    return number


def _number(field: bytes) -> int | None:
    return int(field) if field.isdigit() and len(field) < 16 else None


def _taken(names: pa.Array, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.ChunkedArray:
    return pa.chunked_array([names.take(to_arrow(np.ascontiguousarray(numbers)))], NAME_TYPE)
