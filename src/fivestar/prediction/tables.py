"""The rows of a trained model with the names they belong to, and how they are written as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.arrow import to_arrow
from fivestar.graph.vocabulary import Vocabulary
from fivestar.runs.run import Run

# Numbers turned into text at once.
_NUMBERS_AT_ONCE = 1 << 20
# A word for the empty name: no other name gives a % without two digits behind it.
_EMPTY = "%"


@dataclass(frozen=True)
class NamedRows:
    """Rows of numbers (n, D), each with the name and the label of what it stands for."""

    rows: npt.NDArray[np.float32]
    names: list[str]
    labels: list[str]


def entity_rows(run: Run) -> NamedRows:
    """The entity table of the model, in the layout that `fivestar models` describes."""
    return _named(run.model.entities.detach().float().cpu().numpy(), run.graph.entities)


def relation_rows(run: Run) -> NamedRows:
    """The rows of relations that ask for tails: (h, r, ?)."""
    table = run.model.relations.detach().float().cpu().numpy()
    return _named(table[: len(run.graph.relations)], run.graph.relations)


def reciprocal_rows(run: Run) -> NamedRows:
    """The rows of relations that ask for heads, (?, r, t); none in a run without reciprocals."""
    table = run.model.relations.detach().float().cpu().numpy()
    return _named(table[len(run.graph.relations) :], run.graph.relations)


def _named(rows: npt.NDArray[np.float32], vocabulary: Vocabulary) -> NamedRows:
    names = vocabulary.names[: len(rows)].to_pylist()
    return NamedRows(rows, names, vocabulary.labels_of(np.arange(len(rows))))


def as_text(rows: npt.NDArray[np.float32], separator: str) -> Iterator[str]:
    """Each row as a line of numbers that read back to the same bits."""
    width = rows.shape[1]
    for block in np.array_split(rows, max(1, -(-rows.size // _NUMBERS_AT_ONCE))):
        numbers = to_arrow(block.ravel()).cast(pa.string())
        starts = to_arrow(np.arange(len(block) + 1, dtype=np.int32) * np.int32(width))
        yield from pc.binary_join(pa.ListArray.from_arrays(starts, numbers), separator).to_pylist()


def word_of(name: str) -> str:
    """A name as one word: whitespace, control characters and % in the way of addresses.

    >>> word_of("New York"), word_of("100%"), word_of("")
    ('New%20York', '100%25', '%')
    """
    return "".join(quote(c, safe="") if _splits(c) else c for c in name) or _EMPTY


def name_of(word: str) -> str:
    """The name that a word stands for.

    >>> name_of("New%20York")
    'New York'
    """
    return "" if word == _EMPTY else unquote(word)


def _splits(character: str) -> bool:
    return character.isspace() or character == "%" or not character.isprintable()


def tsv_line(fields: Iterable[str]) -> str:
    """Fields with tabs between them, quoted as in CSV where they would not come back otherwise."""
    return "\t".join(
        '"' + field.replace('"', '""') + '"' if set(field) & set('\t\n\r"') else field
        for field in fields
    )


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of text, the same on every system."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(line + "\n" for line in lines)


def write_names(folder: Path, run: Run) -> None:
    """entities.tsv and relations.tsv: the id, name and label of each row.

    A relation stands there once for each side that its rows ask for.
    """
    entities, tails, heads = entity_rows(run), relation_rows(run), reciprocal_rows(run)
    lines = [
        (str(number), name, label)
        for number, (name, label) in enumerate(zip(entities.names, entities.labels, strict=True))
    ]
    _write_table(folder / "entities.tsv", ("id", "name", "label"), lines)
    asking = [
        (name, label, side)
        for table, side in ((tails, "tail"), (heads, "head"))
        for name, label in zip(table.names, table.labels, strict=True)
    ]
    rows = [(str(number), *fields) for number, fields in enumerate(asking)]
    _write_table(folder / "relations.tsv", ("id", "name", "label", "asks"), rows)


def _write_table(path: Path, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    write_lines(path, map(tsv_line, [header, *rows]))
