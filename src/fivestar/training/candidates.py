"""Entities that stand for all: what a step compares its queries with, where all are too many.

The candidates of a step are all answers of its queries, and others drawn from the rest. Each of
these counts for as many entities as there are for one of them, so that the sum over all entities is
estimated without bias, whatever the answers are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Drawn(NamedTuple):
    """The first `size` of some candidates, which were drawn and stand for `each` apiece."""

    size: int
    each: float


class Candidates(NamedTuple):
    """Their entities, those that were drawn first."""

    entities: Tensor
    drawn: Drawn


NOT_DRAWN = Drawn(0, 1.0)


def draw_candidates(answers: Tensor, size: int, entities: int) -> Candidates | None:
    """The answers and so many others; none if that would be all."""
    other = torch.ones(entities, dtype=torch.bool, device=answers.device)
    other[answers] = False
    answers = other.logical_not().nonzero().squeeze(1)
    rest = entities - len(answers)
    if size >= rest:
        return None
    order = torch.randperm(entities, device=answers.device)[: size + len(answers)]
    chosen = order[other[order]][:size]
    return Candidates(torch.cat([chosen, answers]), Drawn(size, rest / size))
