"""Folds of triples for cross-validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fivestar.errors import SettingsError, SplitImpossible
from fivestar.graph.encoding import Encoder
from fivestar.graph.readers.base import TripleColumns
from fivestar.graph.splitting import cross_validation_folds
from fivestar.graph.triples import Triples
from fivestar.integrations.sklearn.triples import Truth, triple_columns


class LinkKFold:
    """Folds of triples for cross_val_score and GridSearchCV, without leaks or unseen entities.

    Every entity and relation of a fold keeps a fact outside of it, and facts between the same two
    entities are in the same fold, as in `fivestar.split_graph`. A triple that cannot be held out is
    trained on in every fold.

    Args:
        n_splits: number of folds.
        random_state: random seed.
        pairs: "together", or "free" to split each fact independently of others between the same
            entities.

    >>> facts = [(a, "next", b) for a in "abcdef" for b in "abcdef" if a != b]
    >>> [len(test) for _, test in LinkKFold(3).split(facts)]
    [10, 10, 10]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        random_state: int = 0,
        pairs: Literal["together", "free"] = "together",
    ) -> None:
        if n_splits < 2:
            raise SettingsError(f"n_splits must be at least 2, not {n_splits}")
        self.n_splits = n_splits
        self.random_state = random_state
        self.pairs = pairs

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: N803
        """Return the number of folds."""
        del X, y, groups
        return self.n_splits

    def split(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        groups: Any = None,
    ) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        """Yield the rows to train on and those to test on, per fold.

        Args:
            X: triples (n, 3).
            y: which of them are facts (n,); None: all. False triples are in some fold at random, if
                their entities and relation have a fact.
            groups: not used.

        Raises:
            SplitImpossible: if a fold is empty.
        """
        del groups
        names = triple_columns(X)
        is_fact = Truth.of(y).rows(len(names[0]))
        heads, relations, tails = (pa.chunked_array([column]) for column in names)
        triples = Encoder().encode([TripleColumns(heads, relations, tails)])
        rows, false_rows = np.flatnonzero(is_fact), _known_negatives(triples, is_fact)
        distinct, same = np.unique(triples.array[rows], axis=0, return_inverse=True)
        shuffled = np.random.default_rng(self.random_state).permutation(false_rows)
        folds = cross_validation_folds(
            Triples.of(distinct), self.n_splits, seed=self.random_state, pairs=self.pairs
        )
        for number, fold in enumerate(folds):
            if not len(fold):
                raise SplitImpossible(
                    f"no fact can be held out for fold {number}: each is the only one of an entity "
                    "or a relation; use fewer folds or more facts"
                )
            test = np.zeros(len(triples), bool)
            test[rows[np.isin(same.reshape(-1), fold)]] = True
            test[shuffled[number :: self.n_splits]] = True
            yield np.flatnonzero(~test), np.flatnonzero(test)


def _known_negatives(triples: Triples, is_fact: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return the rows of false triples whose entities and relation have a fact."""
    facts = triples.take(is_fact)
    ends = np.concatenate([facts.heads, facts.tails])
    known = np.isin(triples.heads, ends) & np.isin(triples.tails, ends)
    return np.flatnonzero(~is_fact & known & np.isin(triples.relations, facts.relations))
