"""Triples of ids as three columns, and 64-bit keys to compare them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from fivestar.errors import GraphError
from fivestar.graph.arrow import from_arrow, to_arrow

Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]
FactWeights = npt.NDArray[np.float64]
_KEY_LIMIT = 2**63


@dataclass(frozen=True, eq=False)
class Triples:
    """Facts (head, relation, tail) as three read-only columns (n) of ids, optionally with weights.

    A fact of weight w counts like w copies of it in training; without weights, each counts once.

    >>> facts = Triples.of([(0, 0, 1), (1, 0, 2)])
    >>> len(facts), facts.tails.tolist(), facts.array.tolist()
    (2, [1, 2], [[0, 0, 1], [1, 0, 2]])
    """

    heads: Ids
    relations: Ids
    tails: Ids
    weights: FactWeights | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for column in ("heads", "relations", "tails"):
            values = np.ascontiguousarray(getattr(self, column), dtype=np.int32)
            if values.ndim != 1 or len(values) != len(self.heads):
                raise GraphError("heads, relations and tails must have the same length")
            values.flags.writeable = False
            object.__setattr__(self, column, values)
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked(self.weights, len(self.heads)))

    @classmethod
    def of(cls, rows: npt.ArrayLike) -> Triples:
        """Return triples from an (n, 3) array of ids."""
        table = np.asarray(rows, dtype=np.int32).reshape(-1, 3)
        return cls(table[:, 0], table[:, 1], table[:, 2])

    @property
    def array(self) -> Ids:
        """A copy as an (n, 3) array."""
        return np.stack([self.heads, self.relations, self.tails], axis=1)

    def __len__(self) -> int:
        return len(self.heads)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Triples):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, column), getattr(other, column))
            for column in ("heads", "relations", "tails", "weights")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Triples({len(self):,})"

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Triples:
        """Return the triples at rows (indices or a mask)."""
        weights = None if self.weights is None else self.weights[rows]
        return Triples(self.heads[rows], self.relations[rows], self.tails[rows], weights=weights)

    def __add__(self, other: Triples) -> Triples:
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate([self.weights_or_ones, other.weights_or_ones])
        return Triples(
            np.concatenate([self.heads, other.heads]),
            np.concatenate([self.relations, other.relations]),
            np.concatenate([self.tails, other.tails]),
            weights=weights,
        )

    @property
    def weights_or_ones(self) -> FactWeights:
        """The weights (n); 1 each if there are none."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def with_weights(self, weights: npt.ArrayLike | None) -> Triples:
        """Return the same facts with these weights (n), or with none.

        Raises:
            GraphError: if they are not finite numbers of at least 0, one per fact.
        """
        array = None if weights is None else np.asarray(weights, np.float64)
        return Triples(self.heads, self.relations, self.tails, weights=array)

    def distinct(self) -> Triples:
        """Return each fact once, in the order of first appearance, with its largest weight."""
        (keys,) = comparable_keys(self)
        repeated = _repeated_values(keys)
        if not len(repeated):
            return self
        # Only repeated facts need the expensive search for their first row.
        is_repeated = pc.is_in(to_arrow(keys), value_set=to_arrow(repeated))
        rows = from_arrow(pc.indices_nonzero(is_repeated))
        _, first, fact = np.unique(keys[rows], return_index=True, return_inverse=True)
        keep = np.ones(len(self), dtype=bool)
        keep[rows] = False
        keep[rows[first]] = True
        if self.weights is None:
            return self.take(keep)
        largest = np.zeros(len(first))
        np.maximum.at(largest, fact, self.weights[rows])
        weights = self.weights.copy()
        weights[rows[first]] = largest
        return self.with_weights(weights).take(keep)

    def are_in(self, others: Triples) -> npt.NDArray[np.bool_]:
        """Return a mask (n) of the facts that are among others."""
        mine, theirs = (to_arrow(keys) for keys in comparable_keys(self, others))
        if len(mine) < len(theirs):
            # A hash table of many facts takes long to build; a lookup in a small one does not.
            theirs = theirs.filter(pc.is_in(theirs, value_set=mine))
        is_member = pc.is_in(mine, value_set=theirs)
        return from_arrow(is_member.cast("uint8")).astype(bool)


def _checked(weights: FactWeights, count: int) -> FactWeights:
    """Return weights as a read-only array, or raise `GraphError`."""
    values = np.ascontiguousarray(weights, dtype=np.float64)
    if values.shape != (count,):
        raise GraphError(f"there must be one weight for each of the {count:,} facts")
    if not (np.isfinite(values) & (values >= 0)).all():
        raise GraphError("weights must be finite numbers of at least 0")
    values.flags.writeable = False
    return values


def comparable_keys(*parts: Triples) -> list[Keys]:
    """Return one 64-bit key per fact for each part; equal facts have equal keys in all parts.

    >>> a, b = comparable_keys(Triples.of([(0, 0, 1), (5, 1, 2)]), Triples.of([(5, 1, 2)]))
    >>> bool(a[1] == b[0]), bool(a[0] == b[0])
    (True, False)
    """
    tails = 1 + max((int(part.tails.max()) for part in parts if len(part)), default=0)
    relations = 1 + max((int(part.relations.max()) for part in parts if len(part)), default=0)
    heads = 1 + max((int(part.heads.max()) for part in parts if len(part)), default=0)
    pairs = [part.heads.astype(np.int64) * relations + part.relations for part in parts]
    if heads * relations * tails >= _KEY_LIMIT:
        # Too wide for 64 bits: number the (head, relation) pairs that occur instead.
        _, numbers = np.unique(np.concatenate(pairs), return_inverse=True)
        pairs = np.split(numbers.astype(np.int64), np.cumsum([len(p) for p in pairs])[:-1])
    return [pair * tails + part.tails for pair, part in zip(pairs, parts, strict=True)]


def _repeated_values(keys: Keys) -> Keys:
    # numpy's vectorized sort is an order of magnitude faster than a hash table or argsort here.
    ordered = np.sort(keys)
    repeated: Keys = ordered[1:][ordered[1:] == ordered[:-1]]
    return repeated
