"""Vocabularies: names and their ids.

A *name* is the unique string in the data; an *id* is its row number; a *label* is an optional text
for people, which need not be unique.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import AmbiguousName, GraphError, UnknownName
from fivestar.graph.arrow import from_arrow, to_arrow, to_text, to_texts
from fivestar.graph.folded_texts import MAX_LENGTH, FoldedTexts, well_formed
from fivestar.spelling import did_you_mean

# 64-bit offsets: the names of a very large graph exceed 2 GiB in total.
NAME_TYPE = pa.large_string()
# Maximum number of candidates and of suggestions in an error.
_MAX_CANDIDATES = 8
_MAX_SUGGESTIONS = 4
_MAX_SIMILAR = 3
# Similarity (in percent) from which a name is suggested.
_MIN_SIMILARITY = 70
# Larger vocabularies have no dictionary of their names.
MAX_INDEXED = 200_000
# Scans for a name before the names are sorted.
_MAX_SCANS = 16
Ids = npt.NDArray[np.int32]


class Vocabulary:
    """The names of entities, relations or types in a fixed order.

    Args:
        kind: "entity", "relation" or "type", for messages.
        names: the names (n), all distinct.
        labels: a label or None for each name.
        descriptions: a description or None for each name.

    >>> entities = Vocabulary("entity", ["Paris", "France"])
    >>> entities.id_of("France"), entities.name_of(0)
    (1, 'Paris')
    >>> entities.id_of("Pariss")
    Traceback (most recent call last):
    fivestar.errors.UnknownName: no entity 'Pariss'; did you mean 'Paris'?
    """

    def __init__(
        self,
        kind: str,
        names: Sequence[str] | pa.Array,
        labels: Sequence[str | None] | pa.Array | None = None,
        descriptions: Sequence[str | None] | pa.Array | None = None,
    ) -> None:
        self.kind = kind
        self.names = _strings(names)
        self.labels = None if labels is None else _strings(labels)
        self.descriptions = None if descriptions is None else _strings(descriptions)
        for extra in (self.labels, self.descriptions):
            if extra is not None and len(extra) != len(self.names):
                raise GraphError(
                    f"{len(extra)} labels for {len(self.names)} names; pass one per name"
                )

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return (name.as_py() for name in self.names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._lookup.name(name) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return all(
            _equal(getattr(self, field), getattr(other, field))
            for field in ("names", "labels", "descriptions")
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, and content is large

    def __repr__(self) -> str:
        return f"Vocabulary({self.kind!r}, {len(self):,} names)"

    @cached_property
    def folded(self) -> FoldedTexts:
        """The names and labels without regard to case."""
        return FoldedTexts(self.names, self.labels)

    @cached_property
    def _lookup(self) -> _IndexedNames | _ScannedNames:
        return (_IndexedNames if len(self) <= MAX_INDEXED else _ScannedNames)(self)

    def id_of(self, name: str) -> int:
        """Return the id of a name.

        Raises:
            UnknownName: if there is no such name; the message suggests similar ones.
        """
        if (number := self._lookup.name(name)) is None:
            raise UnknownName(self._unknown(name))
        return number

    def find(self, text: str) -> int:
        """Return the id of a name or label, ignoring case.

        An exact name wins over an exact label, and both over a match that differs in case.

        Args:
            text: a name or label.

        Raises:
            UnknownName: if there is no such name or label; `suggestions` are similar ones.
            AmbiguousName: if several have this label; `candidates` are the first of them.

        >>> Vocabulary("entity", ["Q90", "Q142"], ["Paris", "France"]).find("paris")
        0
        """
        if (number := self.lookup(text)) is not None:
            return number
        matches = (*self._closest(text), *self._with_word(text))
        suggestions = list(dict.fromkeys(matches))[:_MAX_SUGGESTIONS]
        message = f"no {self.kind} {text!r}{did_you_mean(suggestions)}"
        raise UnknownName(message, suggestions)

    def lookup(self, text: str) -> int | None:
        """Return the id of a name or label like `find`, but None if there is no such.

        Raises:
            AmbiguousName: if several have this label.
        """
        if (number := self._lookup.name(text)) is not None:
            return number
        ids = self._lookup.label(text) or self._lookup.folded(text)
        if len(ids) > 1:
            first = ids[:_MAX_CANDIDATES]
            listed = ", ".join(self._described(number) for number in first)
            more = f" and {len(ids) - len(first)} more" if len(ids) > len(first) else ""
            raise AmbiguousName(
                f"{text!r} is ambiguous, it matches {len(ids)} names: {listed}{more}; use one of "
                "these names",
                [(self.name_of(number), self.label_of(number)) for number in first],
            )
        return ids[0] if ids else None

    def _described(self, number: int) -> str:
        name, label = self.name_of(number), self.label_of(number)
        return name if name == label else f"{name} ({label})"

    def ids_of(self, names: Iterable[str] | pa.Array) -> Ids:
        """Return the ids (n) of names (n).

        Raises:
            UnknownName: if a name is missing.
        """
        strings = _strings(names if isinstance(names, pa.Array) else list(names))
        ids = pc.index_in(strings, value_set=self.names)
        if ids.null_count:
            missing = strings.filter(ids.is_null())
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise UnknownName(self._unknown(missing[0].as_py()) + more)
        return np.asarray(ids.to_numpy(), dtype=np.int32)

    def ids_in(self, other: Vocabulary) -> Ids:
        """Return for each name its id in another vocabulary, or −1."""
        ids = pc.fill_null(pc.index_in(self.names, value_set=other.names), -1)
        return np.asarray(ids.to_numpy(), dtype=np.int32)

    def name_of(self, number: int) -> str:
        """Return the name of an id."""
        return str(self.names[self._check_range(number)].as_py())

    def names_of(self, ids: npt.ArrayLike) -> list[str]:
        """Return the names of ids."""
        return [str(name) for name in self.names.take(_indices(ids)).to_pylist()]

    def labels_of(self, ids: npt.ArrayLike) -> list[str]:
        """Return the labels of ids; the name where there is no label."""
        if self.labels is None:
            return self.names_of(ids)
        indices = _indices(ids)
        texts = pc.coalesce(self.labels.take(indices), self.names.take(indices))
        return [str(text) for text in texts.to_pylist()]

    def label_of(self, number: int) -> str:
        """Return the label of an id; its name if it has no label."""
        label = self.labels[self._check_range(number)].as_py() if self.labels is not None else None
        return self.name_of(number) if label is None else str(label)

    def description_of(self, number: int) -> str | None:
        """Return the description of an id, or None."""
        if self.descriptions is None:
            return None
        text: str | None = self.descriptions[self._check_range(number)].as_py()
        return text

    def _check_range(self, number: int) -> int:
        if not 0 <= number < len(self):
            raise UnknownName(f"no {self.kind} with id {number}; ids run from 0 to {len(self) - 1}")
        return int(number)

    def _unknown(self, name: object) -> str:
        suggestions = self._closest(str(name), columns=1)
        return f"no {self.kind} {name!r}{did_you_mean(suggestions)}"

    def _closest(self, text: str, columns: int = 2) -> list[str]:
        """Return the names, and with two columns the labels, that are spelled most like a text."""
        folded = text[:MAX_LENGTH].casefold()
        found = self.folded.similar_to(folded, _MAX_SIMILAR, _MIN_SIMILARITY)
        texts = [self._spelled(number, column) for _, number, column in found if column < columns]
        return list(dict.fromkeys(texts))[:_MAX_SIMILAR]

    def _with_word(self, text: str) -> list[str]:
        """Return the shortest names and labels that contain a text as a word."""
        found = [
            (len(folded), column, int(number))
            for column, (ids, texts) in enumerate(self.folded.containing_word(text))
            for number, folded in zip(ids, texts.to_pylist(), strict=True)
        ]
        return [self._spelled(number, column) for _, column, number in sorted(found)[:_MAX_SIMILAR]]

    def _spelled(self, number: int, column: int) -> str:
        return self.label_of(number) if column else self.name_of(number)


class _IndexedNames:
    """Finds the ids of names and labels in dictionaries."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._names = {name: number for number, name in enumerate(vocabulary.names.to_pylist())}
        self._vocabulary = vocabulary

    def name(self, text: str) -> int | None:
        return self._names.get(text)

    def label(self, text: str) -> list[int]:
        return self._labels[0].get(text, [])

    def folded(self, text: str) -> list[int]:
        return self._labels[1].get(text.casefold(), [])

    @cached_property
    def _labels(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Ids by exact label, and by case-folded name or label."""
        by_label: dict[str, list[int]] = {}
        by_folded: dict[str, list[int]] = {}
        labels = self._vocabulary.labels
        texts = [None] * len(self._names) if labels is None else labels.to_pylist()
        for number, (name, label) in enumerate(zip(self._names, texts, strict=True)):
            by_folded.setdefault(name.casefold(), []).append(number)
            if label is not None:
                by_label.setdefault(label, []).append(number)
                if label.casefold() != name.casefold():
                    by_folded.setdefault(label.casefold(), []).append(number)
        return by_label, by_folded


class _ScannedNames:
    """Finds the ids of names and labels by scanning them; names by bisection after a few scans.

    A dictionary of 5 million names would take a gigabyte and three seconds, a scan takes 25 ms.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._scans = 0

    def name(self, text: str) -> int | None:
        self._scans += 1
        names = self._vocabulary.names
        if self._scans <= _MAX_SCANS:
            number = pc.index(names, to_text(well_formed(text))).as_py()
            return None if number < 0 else int(number)
        wanted = well_formed(text).encode()  # Arrow sorts texts by their bytes
        place = bisect_left(self._order, wanted, key=lambda n: names[int(n)].as_py().encode())
        if place == len(names) or names[int(self._order[place])].as_py() != text:
            return None
        return int(self._order[place])

    @cached_property
    def _order(self) -> npt.NDArray[np.uint64]:
        return np.asarray(from_arrow(pc.array_sort_indices(self._vocabulary.names)))

    def label(self, text: str) -> list[int]:
        labels = self._vocabulary.labels
        if labels is None:
            return []
        found = pc.indices_nonzero(pc.equal(labels, to_text(well_formed(text))))
        return [int(number) for number in from_arrow(found)]

    def folded(self, text: str) -> list[int]:
        return [int(number) for number in self._vocabulary.folded.equal_to(text)]


def _indices(ids: npt.ArrayLike) -> pa.Array:
    # An empty list has no integer type.
    return to_arrow(np.asarray(ids, dtype=np.int64))


def _strings(values: Sequence[str | None] | pa.Array) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return values if values.type == NAME_TYPE else values.cast(NAME_TYPE)
    return to_texts(values)


def _equal(mine: pa.Array | None, theirs: pa.Array | None) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    return bool(mine.equals(theirs))
