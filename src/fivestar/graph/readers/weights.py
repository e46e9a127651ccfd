"""Weights of facts: how a cell of a source becomes a number, and what is wrong with others."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.errors import BadSource, SettingsError
from fivestar.graph.arrow import from_arrow
from fivestar.graph.readers.base import ReadOptions
from fivestar.graph.readers.dialect import weight_position
from fivestar.graph.triples import FactWeights


def weight_of(value: object) -> float:
    """Return a cell as a weight.

    Raises:
        ValueError: if it is no finite number of at least 0; with the reason.

    >>> weight_of("0.25"), weight_of(3)
    (0.25, 3.0)
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError("has no weight; give each fact a number, 1 for an ordinary one")
    text = str(value)
    try:
        weight = float("" if isinstance(value, bool) or "_" in text else text)
    except ValueError:
        raise ValueError(f"has the weight {text[:40]!r}, which is not a number") from None
    if not math.isfinite(weight) or weight < 0:
        raise ValueError(f"has the weight {text[:40]}; use a finite number of at least 0")
    return weight


def weights_of(column: pa.ChunkedArray | pa.Array) -> tuple[FactWeights, dict[int, str]]:
    """Return the weights of a column, and the reasons why rows have none, by row."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no rows
        return np.empty(0), {}
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        numbers = from_arrow(pc.fill_null(column.cast(pa.float64()), math.nan)).copy()
    except pa.ArrowInvalid:
        numbers = np.full(len(column), math.nan)
    reasons = {}
    for row in np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0))).tolist():
        try:
            numbers[row] = weight_of(column[row].as_py())
        except ValueError as reason:
            reasons[row] = str(reason)
    return numbers, reasons


def table_weight(schema: pa.Schema, options: ReadOptions, source: str) -> int | None:
    """Return the position of the weight column of a table.

    Raises:
        BadSource: if there is no such column, or it does not hold numbers.
    """
    if options.weight is None:
        return None
    titles = [str(title) for title in schema.names]
    position = weight_position(titles, len(titles), options.weight, source)
    kind = schema.field(position).type
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(test(inner) for test in (*tests, *texts)):
        raise BadSource(
            f"{source}: column {titles[position]!r} is of type {inner}, not numbers, so it cannot "
            "hold weights"
        )
    return position


def item_weight(options: ReadOptions, width: int = 4) -> int | None:
    """Return the position of the weight in tuples of `width` fields, which have no names.

    Raises:
        SettingsError: if the weight is given by a name, or is no such position.
    """
    weight = options.weight
    if weight is None or (isinstance(weight, int) and weight < width):
        return weight
    raise SettingsError(
        f"weight={weight!r}: facts are tuples here, so pass the position of the weight, from 0 to "
        f"{width - 1}; weight=3 is that of (head, relation, tail, weight)"
    )


def attribute_weight(options: ReadOptions, what: str) -> str | None:
    """Return the name of the weight where it must have one.

    Raises:
        SettingsError: if it is a number.
    """
    if isinstance(options.weight, int):
        raise SettingsError(f"weight={options.weight}: pass the name of {what}, not a number")
    return options.weight
