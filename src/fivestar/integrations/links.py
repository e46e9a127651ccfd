"""Predicted links by name, from what the methods of a trained model return."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fivestar.errors import SettingsError
from fivestar.prediction.completion_file import Completion
from fivestar.prediction.predictions import Predictions

Found = Completion | Predictions | Iterable[Predictions]


class Link(NamedTuple):
    """A predicted triple by name, with its calibrated probability if there is one."""

    head: str
    relation: str
    tail: str
    probability: float | None = None


def links_of(found: Found) -> list[Link]:
    """Return the new links among predictions; facts of the graph are omitted.

    Args:
        found: what `TrainedModel.complete`, `predict_tails`, `predict_heads`, `predict_relations`
            or `predict` returns.

    Raises:
        SettingsError: if it is something else.

    >>> import fivestar
    >>> facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a < b]
    >>> model = fivestar.train(facts, dim=4, epochs=2, valid=1)
    >>> [link.tail for link in links_of(model.predict_tails("b", "next"))]
    ['a']
    """
    if isinstance(found, Completion):
        return [
            Link(row["head"], row["relation"], row["tail"], row.get("probability"))
            for row in found.table.to_pylist()
        ]
    if isinstance(found, Predictions):
        pairs = zip(found.triples(), found, strict=True)
        return [Link(*triple, each.probability) for triple, each in pairs if each.state == "new"]
    if isinstance(found, Iterable) and not isinstance(found, str | bytes):
        return [link for each in found for link in links_of(each)]
    raise SettingsError(
        f"{type(found).__name__} has no predicted links; pass what complete, predict or "
        "predict_tails of a trained model returns"
    )
