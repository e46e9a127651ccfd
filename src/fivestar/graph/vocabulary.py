"""Names and their ids.

Three words, used the same way everywhere: a *name* is the string that the data uses and is unique;
an *id* is its row number; a *label* is an optional text for people (and need not be unique).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import AmbiguousName, GraphError, UnknownName
from fivestar.graph.arrow import to_arrow, to_texts
from fivestar.spelling import closest_names, names_with_word

# 64-bit offsets: the names of a very large graph pass 2 GiB in all.
NAME_TYPE = pa.large_string()
# Candidates named in an error.
_MOST_SHOWN = 8
_MOST_MEANT = 4
Ids = npt.NDArray[np.int32]


class Vocabulary:
    """The names of one kind of thing in a fixed order, with optional labels and descriptions.

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
                raise GraphError(f"{len(extra)} labels for {len(self.names)} names: give one each")

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return (name.as_py() for name in self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._id_by_name

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
    def _id_by_name(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names.to_pylist())}

    def id_of(self, name: str) -> int:
        """The id of a name."""
        try:
            return self._id_by_name[name]
        except KeyError:
            raise UnknownName(self._unknown(name)) from None

    def find(self, text: str) -> int:
        """The id of what a person calls by its name or its label, in upper or lower case.

        An exact name wins over an exact label, and both over another case. If several things are
        called so, all are listed in the error.

        >>> Vocabulary("entity", ["Q90", "Q142"], ["Paris", "France"]).find("paris")
        0
        """
        if (number := self.lookup(text)) is not None:
            return number
        known = [*self._id_by_name, *self._ids_by_text[0]]
        both = (*closest_names(text, known), *names_with_word(text, known))
        near = list(dict.fromkeys(both))[:_MOST_MEANT]
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UnknownName(f"no {self.kind} {text!r}{hint}", near)

    def lookup(self, text: str) -> int | None:
        """The same, or at once None if nothing is called so."""
        if (number := self._id_by_name.get(text)) is not None:
            return number
        by_label, by_folded = self._ids_by_text
        found = by_label.get(text) or by_folded.get(text.casefold(), [])
        if len(found) > 1:
            shown = ", ".join(self._shown(number) for number in found[:_MOST_SHOWN])
            more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
            raise AmbiguousName(
                f"{len(found)} things are called {text!r}: {shown}{more}; give one of these names",
                [(self.name_of(number), self.label_of(number)) for number in found[:_MOST_SHOWN]],
            )
        return found[0] if found else None

    @cached_property
    def _ids_by_text(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """The ids by exact label, and by name or label in lower case."""
        by_label: dict[str, list[int]] = {}
        by_folded: dict[str, list[int]] = {}
        labels = [None] * len(self) if self.labels is None else self.labels.to_pylist()
        for number, (name, label) in enumerate(zip(self.names.to_pylist(), labels, strict=True)):
            by_folded.setdefault(name.casefold(), []).append(number)
            if label is not None:
                by_label.setdefault(label, []).append(number)
                if label.casefold() != name.casefold():
                    by_folded.setdefault(label.casefold(), []).append(number)
        return by_label, by_folded

    def _shown(self, number: int) -> str:
        name, label = self.name_of(number), self.label_of(number)
        return name if name == label else f"{name} ({label})"

    def ids_of(self, names: Iterable[str] | pa.Array) -> Ids:
        """The ids of many names at once."""
        wanted = _strings(names if isinstance(names, pa.Array) else list(names))
        found = pc.index_in(wanted, value_set=self.names)
        if found.null_count:
            missing = wanted.filter(found.is_null())
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise UnknownName(self._unknown(missing[0].as_py()) + more)
        return np.asarray(found.to_numpy(), dtype=np.int32)

    def ids_in(self, other: Vocabulary) -> Ids:
        """For each name in order: its id in another vocabulary, or −1."""
        found = pc.fill_null(pc.index_in(self.names, value_set=other.names), -1)
        return np.asarray(found.to_numpy(), dtype=np.int32)

    def name_of(self, number: int) -> str:
        """The name of an id."""
        return str(self.names[self._checked(number)].as_py())

    def names_of(self, ids: npt.ArrayLike) -> list[str]:
        """The names of many ids at once."""
        return [str(name) for name in self.names.take(_places(ids)).to_pylist()]

    def labels_of(self, ids: npt.ArrayLike) -> list[str]:
        """The texts for people of many ids at once."""
        if self.labels is None:
            return self.names_of(ids)
        where = _places(ids)
        texts = pc.coalesce(self.labels.take(where), self.names.take(where))
        return [str(text) for text in texts.to_pylist()]

    def label_of(self, number: int) -> str:
        """The text for people: the label where there is one, else the name."""
        label = self.labels[self._checked(number)].as_py() if self.labels is not None else None
        return self.name_of(number) if label is None else str(label)

    def description_of(self, number: int) -> str | None:
        """The longer text for people, where there is one."""
        if self.descriptions is None:
            return None
        text: str | None = self.descriptions[self._checked(number)].as_py()
        return text

    def _checked(self, number: int) -> int:
        if not 0 <= number < len(self):
            raise UnknownName(f"no {self.kind} with id {number}; ids run from 0 to {len(self) - 1}")
        return int(number)

    def _unknown(self, name: object) -> str:
        near = closest_names(str(name), self._id_by_name)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        return f"no {self.kind} {name!r}{hint}"


def _places(ids: npt.ArrayLike) -> pa.Array:
    # An empty list has no kind of numbers of its own.
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
