"""The tables beside a graph: labels and descriptions for people, types of entities."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fivestar.graph.readers.base import ReadOptions, Tally
from fivestar.graph.readers.blocks import line_blocks
from fivestar.graph.readers.compression import SUFFIXES, open_bytes
from fivestar.graph.readers.dialect import counted


def find_annotations(folder: Path, stem: str) -> Path | None:
    """The file `stem`.tsv of a folder, packed or not."""
    for ending in ("", *SUFFIXES):
        path = folder / f"{stem}.tsv{ending}"
        if path.is_file():
            return path
    return None


def read_annotations(
    path: Path, options: ReadOptions, tally: Tally, most_fields: int
) -> Iterator[list[str]]:
    """The rows of a tab-separated file: a name, then one or more fields about it."""
    with open_bytes(path, options.progress) as stream:
        for block in line_blocks(stream):
            for raw in block.lines():
                tally.lines += 1
                if tally.lines == 1:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")  # noqa: PLW2901
                row = _row(raw.removesuffix(b"\r"), most_fields)
                if isinstance(row, str):
                    tally.reject(tally.lines, row, raw[:1_000].decode("utf-8", "replace"), options)
                elif row:
                    yield row
                else:
                    tally.blanks += 1


def _row(line: bytes, most_fields: int) -> list[str] | str:
    """The fields of a line, or why it has none."""
    if not line.strip():
        return []
    try:
        fields = line.decode("utf-8").split("\t")
    except UnicodeDecodeError:
        return "is not UTF-8; convert the file: iconv -f latin1 -t utf-8"
    if not 2 <= len(fields) <= most_fields:
        wanted = "2" if most_fields == 2 else f"2 to {most_fields}"
        return f"has {counted(len(fields), 'field')} where {wanted} are expected (delimiter: tab)"
    if not fields[0]:
        return "has an empty name"
    return fields
