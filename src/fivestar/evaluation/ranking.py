"""Filtered ranking: the rank of the true answer among all entities that are not known answers.

A rank is optimistic if the true answer wins its ties, pessimistic if it loses them; the realistic
rank is their mean. Equal queries are scored once. The score of the true answer comes from the same
matrix product as those of the others, so ties are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from fivestar.errors import NonFiniteScore, SettingsError
from fivestar.evaluation.ranks import Numbers, Ranks
from fivestar.graph.known_answers import KnownAnswers, query_keys
from fivestar.graph.queries import Queries
from fivestar.graph.relation_candidates import RelationCandidates
from fivestar.models.base import Model
from fivestar.models.scoring import Tile, score_parts
from fivestar.models.sharding import Shard
from fivestar.models.similarity import TILE
from fivestar.runs.units import format_bytes, parse_bytes
from fivestar.threads import coarse_threads, run_parts, split_work

# Default for the bytes of scores held at once, unless the table is large (`default_score_bytes`).
SCORE_BYTES = 64 << 20
# Measured: code and buffers of the matrix products; bytes a fact for queries and known answers.
BASE_BYTES = 96 << 20
FACT_BYTES = 160
Progress = Callable[[int, int], None]


def check_no_nan(scores: npt.NDArray[np.floating]) -> None:
    """Raise NonFiniteScore if a score is NaN: that is an error, never a rank."""
    if np.isnan(scores).any():
        raise NonFiniteScore(
            "a score is not a number, so there are no ranks; the model has diverged: train again "
            "with a smaller learning rate or more regularization"
        )


def rank_answers(
    model: Model,
    queries: Queries,
    answers: npt.NDArray[np.integer],
    known: KnownAnswers,
    score_bytes: int = SCORE_BYTES,
    progress: Progress | None = None,
) -> Ranks:
    """Rank the true answer of each query among all entities that are not known answers.

    Args:
        model: the model.
        queries: B queries for heads or tails.
        answers: (B,) the true answers.
        known: known answers to filter out; they must include `answers`.
        score_bytes: bytes of scores held at once.
        progress: called with (queries done, number of queries).

    Returns:
        One rank per answer, in the order given.

    Raises:
        NonFiniteScore: if a score is NaN.
    """
    return rank_answers_twice(model, queries, answers, known, None, score_bytes, progress)[0]


@torch.no_grad()
@coarse_threads()
def rank_answers_twice(
    model: Model,
    queries: Queries,
    answers: npt.NDArray[np.integer],
    known: KnownAnswers,
    candidates: RelationCandidates | None,
    score_bytes: int = SCORE_BYTES,
    progress: Progress | None = None,
) -> tuple[Ranks, Ranks | None]:
    """Rank as `rank_answers` does, and also among the candidates of each relation only.

    Args:
        model: the model.
        queries: B queries for heads or tails.
        answers: (B,) the true answers.
        known: known answers to filter out; they must include `answers`.
        candidates: the candidates by relation. A true answer that is none of them is ranked among
            them nevertheless. None: there is no second ranking.
        score_bytes: bytes of scores held at once.
        progress: called with (queries done, number of queries).

    Returns:
        The ranks among all entities, and those among the candidates, both of the same scores.
    """
    # Ordered by side and relation, so that queries scored together are contiguous.
    keys = query_keys(queries.reciprocal_relation, queries.entity, model.num_entities)
    _, first_of, query_of = np.unique(keys, return_index=True, return_inverse=True)
    distinct = queries[first_of]
    by_query = np.argsort(query_of, kind="stable")
    pair_start = np.searchsorted(query_of[by_query], np.arange(len(distinct) + 1))
    scores = _Scores(model, score_bytes, len(distinct))
    found = [Ranks.empty(len(answers)) for _ in range(1 if candidates is None else 2)]
    for first in range(0, len(distinct), scores.rows):
        batch = distinct[first : first + scores.rows]
        pairs = by_query[pair_start[first] : pair_start[first + len(batch)]]
        known_row, known_id = known.of_queries(batch.entity, batch.reciprocal_relation)
        scores.fill(batch)
        rows = query_of[pairs] - first
        target = scores.at(rows, answers[pairs])
        scores.mask(known_row, known_id)
        others = model.num_entities - np.bincount(known_row, minlength=len(batch))
        for ranks in found:
            if candidates is not None and ranks is not found[0]:
                others = scores.keep(candidates, batch, known_row, known_id)
            # Masked scores are NaN now, so known answers and the target compare as EXCLUDED.
            own = _compare_self(scores.at(rows, queries.entity[pairs]), target)
            ranks.set(pairs, scores.compare(rows, target), others[rows], own)
        if progress is not None:
            progress(first + len(batch), len(distinct))
    return found[0], found[1] if len(found) > 1 else None


def _compare_self(own: torch.Tensor, target: torch.Tensor) -> npt.NDArray[np.int8]:
    """Return the `SelfCandidate` of each own score against its target; NaN means excluded."""
    order = (~own.isnan()).to(torch.int8) + (own >= target).to(torch.int8)
    return (order + (own > target).to(torch.int8)).cpu().numpy()


def _check_tiles(tiles: Iterator[Tile]) -> None:
    """Raise NonFiniteScore if a score of some tiles is NaN."""
    for _, scores in tiles:
        # A sum is one quick pass; each score is checked only if the sum is not finite.
        if not torch.isfinite(scores.sum()):
            check_no_nan(scores.cpu().numpy())


class _Scores:
    """The scores of some queries with all entities, in tiles: one buffer for all batches.

    Masked scores are NaN, which is neither above, below nor equal to anything. Processes that share
    the entity table each have the scores of their own entities; all return the same.
    """

    def __init__(self, model: Model, score_bytes: int, num_queries: int) -> None:
        self.model, self.shard = model, model.shard
        self.device = model.entities.device
        self.entities = len(model.candidates())
        # By the size of the largest shard, so that all processes rank the same queries at once.
        largest = len(Shard(model.num_entities, 0, self.shard.size))
        self.width = min(TILE, largest)
        tiles = -(-largest // self.width)
        # A quarter is for comparisons: a tile of rows, and the marks of where they are above.
        size = model.entities.element_size() * self.width
        self.rows = max(1, min(num_queries, score_bytes * 3 // 4 // (tiles * size)))
        self.pairs = max(1, score_bytes // 8 // size)
        self.buffer = model.entities.new_full((tiles, self.rows, self.width), torch.nan)

    def fill(self, queries: Queries) -> None:
        """Compute the scores of queries."""
        starts = range(0, self.entities, self.width)
        tiles = [
            (start, tile[: len(queries), : self.entities - start])
            # A smaller shard than the first one may have fewer tiles.
            for start, tile in zip(starts, self.buffer, strict=False)
        ]
        parts = [tiles[part] for part in self._split(len(queries))]
        score_parts(self.model, queries, parts, _check_tiles)

    def _split(self, num_rows: int) -> list[slice]:
        """Return the tiles of each part of the work."""
        return split_work(len(self.buffer), num_rows * self.entities, self.device)

    def at(self, rows: npt.NDArray[np.integer], entities: npt.NDArray[np.integer]) -> torch.Tensor:
        """Return the scores of (row, entity) pairs."""
        if self.shard.is_whole:
            return self.buffer.view(-1)[self._flat_index(rows, entities)]
        own = self._owned(entities)
        scores = self.buffer.new_zeros(len(rows))
        scores[self._tensor(own)] = self.buffer.view(-1)[self._flat_index(rows[own], entities[own])]
        return self.shard.sum(scores)

    def mask(self, rows: npt.NDArray[np.integer], entities: npt.NDArray[np.integer]) -> None:
        """Exclude (row, entity) pairs from comparisons."""
        if not self.shard.is_whole:
            own = self._owned(entities)
            rows, entities = rows[own], entities[own]
        self.buffer.view(-1)[self._flat_index(rows, entities)] = torch.nan

    def keep(
        self,
        candidates: RelationCandidates,
        queries: Queries,
        known_row: npt.NDArray[np.integer],
        known_id: npt.NDArray[np.integer],
    ) -> Numbers:
        """Exclude all entities but the candidates of each query from comparisons.

        Returns:
            The number of candidates (rows,) that are not known answers.
        """
        others = np.zeros(len(queries), np.int64)
        for rows, mask in candidates.by_relation(queries):
            own = mask[self.shard.start : self.shard.stop]
            index = self._tensor(rows)[:, None]
            for tile, start in zip(self.buffer, range(0, self.entities, self.width), strict=False):
                excluded = np.flatnonzero(~own[start : start + self.width])
                tile[index, self._tensor(excluded)] = torch.nan
            others[rows] = mask.sum()
        is_candidate = candidates.contain(queries.reciprocal_relation[known_row], known_id)
        return others - np.bincount(known_row[is_candidate], minlength=len(queries))

    def compare(self, rows: Numbers, target: torch.Tensor) -> tuple[Numbers, Numbers]:
        """Return how many scores of each row are above its target, and how many equal it."""
        counts = np.empty((2, len(rows)), np.int64)
        for first in range(0, len(rows), self.pairs):
            batch = slice(first, first + self.pairs)
            counts[:, batch] = self._compare(rows[batch], target[batch, None])
        return counts[0], counts[1]

    def _compare(self, rows: Numbers, target: torch.Tensor) -> Numbers:
        contiguous = len(rows) == rows[-1] - rows[0] + 1
        index = slice(rows[0], rows[-1] + 1) if contiguous else self._tensor(rows)

        def count(tiles: slice) -> torch.Tensor:
            # Marks are floats, because torch adds floats much faster than booleans.
            marks = self.buffer.new_empty(len(rows), self.width)
            counts = torch.zeros(2, len(rows), dtype=torch.int64, device=self.device)
            for tile in self.buffer[tiles]:
                scores = tile[index]
                torch.gt(scores, target, out=marks)
                counts[0] += marks.sum(dim=1).long()
                torch.eq(scores, target, out=marks)
                counts[1] += marks.sum(dim=1).long()
            return counts

        parts = [partial(count, tiles) for tiles in self._split(len(rows))]
        counts = torch.stack(run_parts(parts, self.device)).sum(dim=0)
        return self.shard.sum(counts).cpu().numpy()

    def _owned(self, entities: npt.NDArray[np.integer]) -> Numbers:
        """Return the positions of the entities of this process."""
        return np.flatnonzero((entities >= self.shard.start) & (entities < self.shard.stop))

    def _flat_index(
        self, rows: npt.NDArray[np.integer], entities: npt.NDArray[np.integer]
    ) -> torch.Tensor:
        """Return the positions of (row, entity) pairs in the flat buffer."""
        tile, column = np.divmod(entities.astype(np.int64) - self.shard.start, self.width)
        return self._tensor((tile * self.rows + rows) * self.width + column)

    def _tensor(self, numbers: npt.NDArray[np.integer]) -> torch.Tensor:
        return torch.as_tensor(numbers, device=self.device)


def table_bytes(model: Model) -> int:
    """What the tables of a model take."""
    return sum(table.numel() * table.element_size() for table in model.parameters())


def default_score_bytes(model: Model) -> int:
    """Return the bytes of scores held at once without a bound of the memory.

    A quarter of a large table: every pass over it serves as many queries as there is room for. With
    five million entities, 64 MiB have room for two.
    """
    candidates = model.candidates()
    return max(SCORE_BYTES, candidates.numel() * candidates.element_size() // 4)


def score_bytes_within(memory: str, model: Model, facts: int) -> int:
    """The bytes of scores that keep the working set of a ranking within the bound."""
    fixed = BASE_BYTES + FACT_BYTES * facts + table_bytes(model)
    least = 8 * len(model.entities)
    rest = parse_bytes(memory) - fixed
    if rest < least:
        raise SettingsError(
            f"memory {memory} is too little: ranking needs at least {format_bytes(fixed + least)}"
        )
    return min(default_score_bytes(model), rest)
