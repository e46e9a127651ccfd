"""The best candidates of many queries at once, in bounded memory: tile by tile of candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.evaluation.ranking import Progress, refuse_nan
from fivestar.graph.known_answers import KnownAnswers
from fivestar.models.base import Model
from fivestar.models.similarity import TILE

Ids = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]
# Which answers are wanted: all, only those that the graph does not hold, or only those it holds.
Which = Literal["all", "new", "known"]
# Queries scored at once.
ROWS = 512
# Columns whose largest score is sought first.
_BLOCK = 64


@dataclass(frozen=True)
class Wanted:
    """What may be an answer: known or new ones, and of which entities.

    `itself`: for each relation, whether an entity may be the answer to a question about itself;
    a known answer always may. None: always.
    """

    known: KnownAnswers
    which: Which = "all"
    entities: npt.NDArray[np.bool_] | None = None  # None: all of them
    itself: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Best:
    """The best answers (queries, k), best first; −1 where there are fewer than k.

    `log_shares` are log p(answer | query), by a softmax over all entities, wanted or not.
    """

    ids: Ids
    scores: Scores
    log_shares: Scores
    known: npt.NDArray[np.bool_]


@torch.no_grad()
def best_tails(
    model: Model,
    heads: Ids,
    relations: Ids,
    top: int,
    wanted: Wanted,
    progress: Progress | None = None,
) -> Best:
    """The best tails of queries (head, relation).

    A relation r + R, where the model has only R relations, asks for the heads of (?, r, head).
    `progress` is called with (queries done, queries in all).
    """
    parts = []
    for i in range(0, len(heads), ROWS):
        parts.append(_best(model, heads[i : i + ROWS], relations[i : i + ROWS], top, wanted))
        if progress is not None:
            progress(min(i + ROWS, len(heads)), len(heads))
    if not parts:
        none = np.zeros((0, top), np.float32)
        return Best(none.astype(np.int64), none, none, none.astype(bool))
    return Best(*(np.concatenate([getattr(p, key) for p in parts]) for key in Best.__annotations__))


@torch.no_grad()
def log_shares(model: Model, heads: Ids, relations: Ids, tails: Ids) -> Scores:
    """Log p(tail | head, relation) of triples; relations as for `best_tails`."""
    found = [np.zeros(0, np.float32)]
    for first in range(0, len(heads), ROWS):
        some = slice(first, first + ROWS)
        score = scorer(model, heads[some], relations[some])
        goal = torch.as_tensor(tails[some], device=model.entities.device)
        total = model.entities.new_full((len(goal),), -torch.inf)
        own = torch.zeros_like(total)
        for start, scores in _tiles(model, len(goal)):
            score(start, scores)
            total = torch.logaddexp(total, scores.logsumexp(dim=1))
            here = ((goal >= start) & (goal < start + scores.shape[1])).nonzero()[:, 0]
            own[here] = scores[here, goal[here] - start]
        found.append((own - total).float().cpu().numpy())
    return np.concatenate(found)


def _tiles(model: Model, rows: int) -> Iterator[tuple[int, Tensor]]:
    """Empty tiles of scores, and where each begins; the fewer rows, the wider they are."""
    entities = len(model.entities)
    width = TILE * max(1, ROWS // max(1, rows))
    buffer = model.entities.new_empty(rows, min(width, entities))
    for start in range(0, entities, width):
        yield start, buffer[:, : entities - start]


def _best(model: Model, heads: Ids, relations: Ids, top: int, wanted: Wanted) -> Best:
    device, entities = model.entities.device, len(model.entities)
    rows, known = wanted.known.of_queries(heads, relations)
    row, column = (torch.as_tensor(x.astype(np.int64), device=device) for x in (rows, known))
    allowed = None
    if wanted.entities is not None:
        allowed = torch.as_tensor(wanted.entities, device=device)
    alone = _not_itself(heads, relations, wanted.itself, rows, known, entities)
    own_row, own_column = (torch.as_tensor(x, device=device) for x in (alone, heads[alone]))
    score = scorer(model, heads, relations)
    top = min(top, entities)
    best = model.entities.new_full((len(heads), top), -torch.inf)
    ids = torch.full((len(heads), top), -1, device=device)
    log_total = best.new_full((len(heads),), -torch.inf)
    for start, scores in _tiles(model, len(heads)):
        score(start, scores)
        log_total = torch.logaddexp(log_total, scores.logsumexp(dim=1))
        here = (column >= start) & (column < start + scores.shape[1])
        _hide(scores, row[here], column[here] - start, wanted.which)
        here = (own_column >= start) & (own_column < start + scores.shape[1])
        scores[own_row[here], own_column[here] - start] = -torch.inf
        if allowed is not None:
            scores[:, ~allowed[start : start + scores.shape[1]]] = -torch.inf
        best, ids = _merged(best, ids, scores, start)
    refuse_nan(log_total.cpu().numpy())  # every score is part of it
    ids[best == -torch.inf] = -1
    found = ids.cpu().numpy()
    log_shares = (best - log_total[:, None]).float().cpu().numpy()
    is_known = _are_known(found, rows, known, entities)
    return Best(found, best.float().cpu().numpy(), log_shares, is_known)


def _not_itself(
    heads: Ids,
    relations: Ids,
    itself: npt.NDArray[np.bool_] | None,
    rows: npt.NDArray[np.int64],
    known: npt.NDArray[np.int32],
    entities: int,
) -> Ids:
    """The queries whose own entity is no answer."""
    if itself is None:
        return np.zeros(0, np.int64)
    own_known = _are_known(heads[:, None], rows, known, entities)[:, 0]
    return np.flatnonzero(~itself[relations % len(itself)] & ~own_known)


def scorer(model: Model, heads: Ids, relations: Ids) -> Callable[[int, Tensor], None]:
    """Writes the scores of a tile of candidates, from `start` on, into a tensor."""
    given = torch.as_tensor(heads, device=model.entities.device)
    own = len(model.relations)
    if (relations < own).all():
        query = model.query(given, torch.as_tensor(relations, device=given.device))
        return lambda start, out: model.score_tile(query, start, out)

    def each(start: int, out: Tensor) -> None:
        for relation in np.unique(relations):
            which = torch.as_tensor(relations == relation, device=given.device)
            some = given[which]
            part = out.new_empty(len(some), out.shape[1])
            if relation < own:
                query = model.query(some, torch.full_like(some, int(relation)))
                model.score_tile(query, start, part)
            else:
                model.score_head_tile(int(relation) - own, some, start, part)
            out[which] = part

    return each


def _hide(scores: Tensor, row: Tensor, column: Tensor, which: Which) -> None:
    """Leave only the wanted candidates."""
    if which == "new":
        scores[row, column] = -torch.inf
    elif which == "known":
        kept = scores[row, column]
        scores.fill_(-torch.inf)
        scores[row, column] = kept


def _merged(best: Tensor, ids: Tensor, scores: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """The best of those so far and of a tile."""
    k = best.shape[1]
    tile, place = _largest(scores, k)
    both = torch.cat([best, tile], dim=1)
    numbers = torch.cat([ids, place + start], dim=1)
    # Stable, so that of equal scores those of lower ids, which came before, stay before.
    ordered, order = both.sort(dim=1, descending=True, stable=True)
    return ordered[:, :k], numbers.gather(1, order[:, :k])


def _largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, and where they are.

    They are in the k blocks with the largest maxima, so most columns are looked at only once.
    """
    blocks = scores.shape[1] // _BLOCK
    if blocks < 4 * k:
        return scores.topk(min(k, scores.shape[1]), dim=1)
    whole = scores[:, : blocks * _BLOCK].reshape(len(scores), blocks, _BLOCK)
    # In order of place, so that of equal scores the first are found first.
    chosen = whole.amax(dim=2).topk(k, dim=1).indices.sort(dim=1).values
    inside = whole.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    rest = scores[:, blocks * _BLOCK :]
    best, place = torch.cat([inside, rest], dim=1).topk(k, dim=1)
    is_inside = place < inside.shape[1]
    block = chosen.gather(1, (place // _BLOCK).clamp(max=k - 1))
    there = torch.where(is_inside, block * _BLOCK, blocks * _BLOCK - inside.shape[1])
    return best, there + torch.where(is_inside, place % _BLOCK, place)


def _are_known(
    ids: Ids, rows: npt.NDArray[np.int64], known: npt.NDArray[np.int32], entities: int
) -> npt.NDArray[np.bool_]:
    """Which of the ids (queries, k) are among the known (row, answer) pairs."""
    keys = rows * entities + known
    mine = np.arange(len(ids))[:, None] * entities + ids
    return np.isin(mine, keys) & (ids >= 0)
