"""Triples and their truth as X and y of scikit-learn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.utils.multiclass import type_of_target

from fivestar.errors import BadLine, SettingsError
from fivestar.graph.readers import reader_for
from fivestar.graph.readers.base import ReadOptions, Tally
from fivestar.graph.readers.frames import table_columns


def triple_columns(X: Any) -> tuple[pa.Array, pa.Array, pa.Array]:  # noqa: N803
    """Return triples as three columns of names, in their order.

    Raises:
        BadSource: if they are not triples; the message names the row.
    """
    if hasattr(X, "__arrow_c_stream__"):
        table = X if isinstance(X, pa.Table) else pa.table(X)
        table = table.select(list(table_columns(table.column_names, ReadOptions(), "X")))
        source: Any = table.rename_columns(["head", "relation", "tail"])
    else:
        source = X.tolist() if isinstance(X, np.ndarray) else X
    try:
        pieces = list(reader_for(source).read(source, ReadOptions(), Tally("X", "row")))
    except BadLine as error:
        reason = str(error).partition("\nFix")[0]
        raise BadLine(f"{reason}\nFix this row of X.", source="X", line=error.line) from None
    heads, relations, tails = (
        pa.chunked_array([chunk for piece in pieces for chunk in getattr(piece, name).chunks])
        .cast(pa.large_string())
        .combine_chunks()
        for name in ("heads", "relations", "tails")
    )
    return heads, relations, tails


class Truth(NamedTuple):
    """Which triples are facts (None: all), and the values of false and true in y."""

    values: npt.NDArray[np.bool_] | None
    classes: npt.NDArray[Any]

    @classmethod
    def of(cls, y: Any) -> Truth:
        """Read y.

        Raises:
            SettingsError: if it has other values than 0 and 1, or no triple is a fact.
        """
        if y is None:
            return cls(None, np.array([False, True]))
        values = np.asarray(y)
        if values.dtype.kind not in "biu" or not np.isin(values, (0, 1)).all():
            kind = type_of_target(values, raise_unknown=False)
            raise SettingsError(
                "y says for each triple whether it is a fact, by 0 and 1 or False and True. Only "
                f"binary classification is supported. The type of the target is {kind}."
            )
        if not values.any():
            raise SettingsError("y has no fact, only one class: there is nothing to learn from")
        return cls(values.astype(bool), np.array([0, 1], values.dtype))

    def rows(self, count: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the facts among `count` triples.

        Raises:
            SettingsError: if y has another length.
        """
        if self.values is None:
            return np.ones(count, bool)
        if self.values.shape != (count,):
            shape = self.values.shape
            raise SettingsError(f"y has the shape {shape}, but there are {count} triples")
        return self.values
