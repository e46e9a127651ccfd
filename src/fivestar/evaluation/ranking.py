"""Filtered ranking: where does the true answer stand among all entities that are not known answers?

A rank is optimistic if the true answer wins its ties, pessimistic if it loses them, realistic in
the mean. Equal queries are scored once. The score of the true answer is taken from the same matrix
product as those of the others, so a tie is a tie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from fivestar.errors import FivestarError
from fivestar.graph.known_answers import KnownAnswers, query_keys
from fivestar.models.base import TILE, Model

Numbers = npt.NDArray[np.int64]
# Bytes of scores held at once unless a budget says otherwise.
SCORE_BYTES = 64 << 20


class NonFiniteScore(FivestarError):  # noqa: N818
    """A score is not a number, so no rank can be given."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of some true answers, and how many candidates each was ranked among."""

    optimistic: Numbers
    pessimistic: Numbers
    candidates: Numbers

    @property
    def realistic(self) -> npt.NDArray[np.float64]:
        """The mean of both."""
        return (self.optimistic + self.pessimistic) / 2

    def __len__(self) -> int:
        return len(self.optimistic)

    def __add__(self, other: Ranks) -> Ranks:
        return Ranks(
            np.concatenate([self.optimistic, other.optimistic]),
            np.concatenate([self.pessimistic, other.pessimistic]),
            np.concatenate([self.candidates, other.candidates]),
        )

    def take(self, rows: npt.NDArray[np.bool_]) -> Ranks:
        """Some of them."""
        return Ranks(self.optimistic[rows], self.pessimistic[rows], self.candidates[rows])


@torch.no_grad()
def rank_tails(
    model: Model,
    heads: npt.NDArray[np.integer],
    relations: npt.NDArray[np.integer],
    tails: npt.NDArray[np.integer],
    known: KnownAnswers,
    score_bytes: int = SCORE_BYTES,
) -> Ranks:
    """The rank of each tail as the answer to its query (head, relation).

    `known` must hold the ranked facts themselves; its other answers are left out of the ranking.
    """
    entities = len(model.candidates())
    width = int(relations.max(initial=0)) + 1
    keys, query_of = np.unique(query_keys(heads, relations, width), return_inverse=True)
    by_query = np.argsort(query_of, kind="stable")
    pair_start = np.searchsorted(query_of[by_query], np.arange(len(keys) + 1))
    rows_at_once = max(1, score_bytes // (4 * entities))
    found = np.empty((3, len(tails)), np.int64)
    for first in range(0, len(keys), rows_at_once):
        last = min(first + rows_at_once, len(keys))
        pairs = by_query[pair_start[first] : pair_start[last]]
        some = keys[first:last]
        found[:, pairs] = _rank_some(
            model, some // width, some % width, query_of[pairs] - first, tails[pairs], known
        )
    return Ranks(*found)


def _rank_some(
    model: Model,
    heads: Numbers,
    relations: Numbers,
    rows: Numbers,
    targets: npt.NDArray[np.integer],
    known: KnownAnswers,
) -> Numbers:
    """Optimistic rank, pessimistic rank and candidates of (query row, target) pairs."""
    device = model.entities.device
    query = model.query(
        torch.as_tensor(heads, device=device), torch.as_tensor(relations, device=device)
    )
    tiles = list(model.score_tiles(query))
    _refuse_nan(tiles)
    row, target = (
        torch.as_tensor(rows, device=device),
        torch.as_tensor(targets, device=device).long(),
    )
    goal = _pick(tiles, row, target)
    above = torch.zeros(len(row), dtype=torch.int64, device=device)
    level = torch.zeros_like(above)
    every_row_once = len(row) == len(query) and bool(
        (row == torch.arange(len(query), device=device)).all()
    )
    for tile in tiles:
        scores = tile if every_row_once else tile[row]
        above += torch.count_nonzero(scores > goal[:, None], dim=1)
        level += torch.count_nonzero(scores == goal[:, None], dim=1)
    pair, answer = known.of_queries(heads[rows], relations[rows])
    pair_, answer_ = (
        torch.as_tensor(pair, device=device),
        torch.as_tensor(answer, device=device).long(),
    )
    known_scores = _pick(tiles, row[pair_], answer_)
    above.index_add_(0, pair_, -(known_scores > goal[pair_]).long())
    level.index_add_(0, pair_, -(known_scores == goal[pair_]).long())
    hidden = np.bincount(pair, minlength=len(rows)) - 1  # the true answer itself is no rival
    optimistic = above.cpu().numpy() + 1
    candidates = len(model.candidates()) - hidden
    return np.stack([optimistic, optimistic + level.cpu().numpy(), candidates])


def _pick(tiles: list[torch.Tensor], rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """The scores at (row, column), the columns running over all tiles."""
    found = tiles[0].new_empty(len(rows))
    tile_of = columns // TILE
    for number, tile in enumerate(tiles):
        here = torch.nonzero(tile_of == number).squeeze(1)
        if len(here):
            found[here] = tile[rows[here], columns[here] - number * TILE]
    return found


def _refuse_nan(tiles: list[torch.Tensor]) -> None:
    for tile in tiles:
        # A sum is one quick pass; only if it is odd is each score looked at.
        if not torch.isfinite(tile.sum()) and torch.isnan(tile).any():
            raise NonFiniteScore(
                "a score is not a number, so there are no ranks; the model has diverged: train "
                "again with a smaller learning rate or more regularisation"
            )
