"""Which negatives a triple is compared with: sampled ones, typed ones, and known false ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.graph.known_answers import KnownAnswers, query_keys, with_reciprocals
from fivestar.graph.relation_candidates import RelationCandidates
from fivestar.graph.triples import Triples

# How often a negative that is a known answer is replaced by another sample.
_RETRIES = 10
# Numbers below any size are the remainder of a number below this.
_LARGE = 2**62


class _Lists(NamedTuple):
    """Lists of entity ids: list i is `ids[start[i] : start[i + 1]]`."""

    start: Tensor
    ids: Tensor

    def to(self, device: torch.device) -> _Lists:
        return _Lists(self.start.to(device), self.ids.to(device))

    def sample(self, lists: Tensor, size: int) -> Tensor:
        """Return ids (T, size), sampled with replacement from the lists (T,), none empty."""
        begin, count = self.start[lists], self.start[lists + 1] - self.start[lists]
        numbers = torch.randint(_LARGE, (len(lists), size), device=lists.device)
        return self.ids[begin[:, None] + numbers % count[:, None]]


class NegativeSampler:
    """Samples negatives uniformly from all entities, or from the candidates of a relation.

    Args:
        num_negatives: negatives per triple.
        num_entities: number of entities of the graph.
        known: facts with reciprocals that are never sampled; None: any entity may be.
        candidates: the entities to sample from, by relation and side; None: all.
        share: share of the negatives that are sampled from `candidates`, rounded up; the others
            from all entities.
        own: known false answers. Half of the negatives of a query that has some, rounded up, are
            sampled from them.
    """

    def __init__(
        self,
        num_negatives: int,
        num_entities: int,
        known: Triples | None = None,
        *,
        candidates: RelationCandidates | None = None,
        share: float = 1.0,
        own: KnownAnswers | None = None,
    ) -> None:
        self.num_negatives = num_negatives
        self.num_entities = num_entities
        self._num_relations = 0
        self._keys: Tensor | None = None
        if known is not None:
            self._num_relations = int(known.relations.max(initial=0)) + 1
            queries = query_keys(known.heads, known.relations, self._num_relations)
            self._keys = torch.as_tensor(queries * num_entities + known.tails).sort().values
        self._candidates: _Lists | None = None
        if candidates is not None:
            self._candidates = _lists(candidates.start, candidates.ids)
        self._num_typed = math.ceil(share * num_negatives)
        self._own: _Lists | None = None
        if own is not None:
            self._own, self._own_keys = _lists(own.start, own.tails), torch.as_tensor(own.keys)
            self._own_relations = own.relations

    def sample(self, entities: Tensor, side_relations: Tensor) -> Tensor:
        """Return negatives (T, k) for queries, from torch's default generator."""
        if self._candidates is not None:
            self._candidates = self._candidates.to(entities.device)
        negatives = self._sample(entities, side_relations)
        if self._own is not None:
            self._replace_half(negatives, entities, side_relations)
        return negatives

    def _sample(self, entities: Tensor, side_relations: Tensor) -> Tensor:
        negatives = self._draw(side_relations)
        if self._keys is None:
            return negatives
        self._keys = self._keys.to(entities.device)
        queries = (entities * self._num_relations + side_relations) * self.num_entities
        queries = queries[:, None]
        for _ in range(_RETRIES):
            known = self._are_known(queries + negatives)
            if not known.any():
                return negatives
            negatives = torch.where(known, self._draw(side_relations), negatives)
        # Almost every entity answers the query: sample from the few that do not.
        every = torch.arange(self.num_entities, device=entities.device)
        known = self._are_known(queries + negatives)
        for row in torch.nonzero(known.any(dim=1)).flatten().tolist():
            unknown = every[~self._are_known(queries[row] + every)]
            if self._candidates is not None:
                start, ids = self._candidates
                relation = int(side_relations[row])
                own = ids[int(start[relation]) : int(start[relation + 1])]
                own = own[~self._are_known(queries[row] + own)]
                unknown = own if len(own) else unknown
            if len(unknown):
                index = torch.randint(len(unknown), (self.num_negatives,), device=every.device)
                negatives[row] = torch.where(known[row], unknown[index], negatives[row])
        return negatives

    def _draw(self, side_relations: Tensor) -> Tensor:
        typed = 0 if self._candidates is None else self._num_typed
        size = len(side_relations), self.num_negatives - typed
        negatives = torch.randint(self.num_entities, size, device=side_relations.device)
        if self._candidates is None:
            return negatives
        return torch.cat([negatives, self._candidates.sample(side_relations, typed)], dim=1)

    def _replace_half(self, negatives: Tensor, entities: Tensor, side_relations: Tensor) -> None:
        """Replace every second negative by a known false answer, where a query has some.

        Every second one, so that the others are typed ones and any ones in the same proportion.
        """
        assert self._own is not None  # noqa: S101  (checked by the caller)
        self._own, keys = self._own.to(entities.device), self._own_keys.to(entities.device)
        queries = entities * self._own_relations + side_relations
        number = torch.searchsorted(keys, queries).clamp_max_(len(keys) - 1)
        # A relation without negatives may have the key of another query.
        has_own = (keys[number] == queries) & (side_relations < self._own_relations)
        rows = has_own.nonzero()[:, 0]
        half = (self.num_negatives + 1) // 2
        negatives[rows, ::2] = self._own.sample(number[rows], half)

    def _are_known(self, keys: Tensor) -> Tensor:
        known = self._keys
        assert known is not None  # noqa: S101  (called only if there are some)
        return known[torch.searchsorted(known, keys).clamp_max_(len(known) - 1)] == keys


def own_negatives(negatives: Triples, facts: Triples, num_relations: int) -> KnownAnswers:
    """Return the known false answers of tail and head queries.

    Raises:
        SettingsError: if no query of the training facts has any, so that they have no effect.
    """
    own, train = (with_reciprocals(each, num_relations) for each in (negatives, facts))
    count = 2 * num_relations
    queries = query_keys(train.heads, train.relations, count)
    if not np.isin(query_keys(own.heads, own.relations, count), queries).any():
        raise SettingsError(
            "the negatives would have no effect: none has the head and relation, or the relation "
            "and tail, of a training fact"
        )
    return KnownAnswers.of(own)


def _lists(start: np.ndarray, ids: np.ndarray) -> _Lists:
    return _Lists(torch.as_tensor(start), torch.as_tensor(ids.astype(np.int64)))
