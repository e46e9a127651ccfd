"""Folders of OpenKE: names in entity2id.txt and relation2id.txt, facts as numbers.

The first line of each file is the number of lines that follow. The columns of facts are head, tail,
relation, in this order.
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
    plural,
)
from fivestar.graph.readers.streams import line_blocks, open_bytes, refuse_binary
from fivestar.graph.readers.weights import item_weight, weight_of
from fivestar.graph.vocabulary import NAME_TYPE

_NAMES = {"entity": "entity2id.txt", "relation": "relation2id.txt"}
_SAMPLE_BYTES = 1 << 12


@dataclass(frozen=True)
class NumberedFacts:
    """A file of facts as numbers, next to the files of their names."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


def find_openke(folder: Path) -> dict[str, object]:
    """Return the files of a folder of OpenKE by split; none if it is another folder."""
    files: dict[str, object] = {}
    for split, names in SPLIT_NAMES.items():
        for name in names:
            if (folder / f"{name}2id.txt").is_file():
                files[split] = NumberedFacts(folder / f"{name}2id.txt")
    return files


class OpenKEReader:
    """Read facts as numbers, and look up their names."""

    formats: ClassVar[Formats] = {}

    def accepts(self, source: object) -> bool:
        """Return whether it is a result of `find_openke`."""
        return isinstance(source, NumberedFacts)

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the facts of one split."""
        path = Path(str(source))
        tally.unit = "line"
        entities, relations = (_read_names(path.parent, kind) for kind in ("entity", "relation"))
        lines = _FactLines(len(entities), len(relations), options, tally)
        rows = lines.read(path)
        heads, tails, rels = rows[:, 0], rows[:, 1], rows[:, 2]
        yield TripleColumns(
            _take(entities, heads),
            _take(relations, rels),
            _take(entities, tails),
            weights=None if lines.weight is None else np.array(lines.weights, np.float64),
        )


class _FactLines:
    """Reads and checks the lines of a file of facts."""

    def __init__(self, entities: int, relations: int, options: ReadOptions, tally: Tally) -> None:
        self._counts = {"head": entities, "tail": entities, "relation": relations}
        self._options = options
        self._tally = tally
        self.weight = item_weight(options)
        self.weights: list[float] = []  # of the good lines

    def read(self, path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Return head, tail and relation (n, 3) of the good lines."""
        rows: list[list[int]] = []
        header: tuple[int, bytes] | None = None
        announced: int | None = None
        num_facts = 0
        for line in _lines(path, self._options):
            self._tally.lines += 1
            if not line.strip():
                self._tally.blanks += 1
            elif header is None:
                header = (self._tally.lines, line)
                announced = _count(line, self._tally.source)
            else:
                num_facts += 1
                fact = self._fact(line)
                if isinstance(fact, str):
                    self._reject(self._tally.lines, fact, line)
                else:
                    rows.append(fact)
        if header is None:
            raise BadSource(f"{path}: is empty; its first line should be the number of facts")
        if announced == num_facts:
            self._tally.headers += 1
        else:
            reason = f"announces {plural(announced or 0, 'fact')}, but there are {num_facts:,}"
            self._reject(header[0], f"{reason}; is the file complete?", header[1])
        return np.array(rows, np.int64).reshape(-1, 3)

    def _fact(self, line: bytes) -> list[int] | str:
        fields = line.split()
        width, more = (3, "") if self.weight is None else (4, ", and a weight")
        if len(fields) != width:
            expected = f"{width} are expected: head tail relation{more}"
            return f"has {plural(len(fields), 'field')} where {expected}"
        weight = 1.0
        if self.weight is not None:
            try:
                weight = weight_of(fields.pop(self.weight).decode("utf-8", "replace"))
            except ValueError as reason:
                return str(reason)
        fact = []
        for field, (role, count) in zip(fields, self._counts.items(), strict=True):
            number = _number(field)
            if number is None:
                return f"has a {role} that is not a number"
            if number >= count:
                kind = "relation" if role == "relation" else "entity"
                return (
                    f"has the {role} {number:,}, but {_NAMES[kind]} has {plural(count, 'name')}, "
                    "numbered from 0; the order is head, tail, relation"
                )
            fact.append(number)
        self.weights.append(weight)
        return fact

    def _reject(self, number: int, reason: str, line: bytes) -> None:
        text = line[:1_000].decode("utf-8", "backslashreplace")
        self._tally.reject(number, reason, text, self._options)


def _read_names(folder: Path, kind: str) -> pa.Array:
    """Return the names of entities or relations in the order of their numbers."""
    path = folder / _NAMES[kind]
    if not path.is_file():
        raise BadSource(
            f"{folder}: has facts as numbers (train2id.txt) but no {path.name} with their names; "
            "add it"
        )
    lines = ((n, line) for n, line in enumerate(_lines(path, None), 1) if line.strip())
    _, first = next(lines, (0, None))
    if first is None:
        raise BadSource(f"{path}: is empty; its first line should be the number of names")
    announced = _count(first, str(path))
    names: dict[int, str] = {}
    for line_number, line in lines:
        name, _, digits = line.strip().replace(b"\t", b" ").rpartition(b" ")
        number = _number(digits)
        if number is None or not name:
            raise BadSource(f"{path}, line {line_number}: should be a name and its number")
        if number in names:
            raise BadSource(f"{path}, line {line_number}: the number {number:,} is given twice")
        # The original bytes before the number: a name may contain spaces and tabs.
        try:
            names[number] = line.strip()[: len(name)].strip().decode("utf-8")
        except UnicodeDecodeError:
            raise BadSource(f"{path}, line {line_number}: is not UTF-8") from None
    if len(names) != announced:
        raise BadSource(
            f"{path}: announces {plural(announced, 'name')}, but there are {len(names):,}; "
            "is the file complete?"
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
                raise BadSource(f"{path}: has a line of many megabytes; is this an OpenKE file?")
            yield from block.lines()


def _count(line: bytes, name: str) -> int:
    number = _number(line.strip())
    if number is None:
        raise BadSource(f"{name}: its first line should be the number of lines that follow")
    return number


def _number(field: bytes) -> int | None:
    return int(field) if field.isdigit() and len(field) < 16 else None


def _take(names: pa.Array, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.ChunkedArray:
    return pa.chunked_array([names.take(to_arrow(np.ascontiguousarray(numbers)))], NAME_TYPE)
