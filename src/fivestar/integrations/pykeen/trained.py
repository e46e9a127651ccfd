"""Trained models of fivestar, of any kind, as models of PyKEEN for its evaluators."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from pykeen.models import Model
from pykeen.triples import KGInfo
from pykeen.utils import NoRandomSeedNecessary
from torch import Tensor, nn

from fivestar.models.scoring import has_reciprocals
from fivestar.runs.run import Run


def from_run(run: Run) -> EvaluationModel:
    """Return a trained model as a model of PyKEEN that is evaluated and predicts, with its ids.

    Reciprocal relations are PyKEEN's inverse relations. The weights are shared, not copied.

    Args:
        run: a trained model of any kind, as `fivestar.train` and `fivestar.load` return it.
    """
    return EvaluationModel(run)


class EvaluationModel(Model):  # type: ignore[no-untyped-call]
    """A trained model of fivestar with PyKEEN's methods; it scores, and cannot be trained.

    To train a 5★E in PyKEEN, use `FiveStarE` or `FiveStarE.from_run`.
    """

    def __init__(self, run: Run) -> None:
        run.model.shard.require_whole()
        num_relations = len(run.graph.relations)
        inverse = has_reciprocals(run.model, num_relations)
        super().__init__(
            triples_factory=KGInfo(len(run.graph.entities), num_relations, inverse),
            random_seed=NoRandomSeedNecessary,  # type: ignore[arg-type]
        )
        # The memo makes a copy that shares the tensors, but needs no gradients.
        weights = run.model.parameters()
        shared = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in weights}
        self.model = deepcopy(run.model, shared).eval()

    def _row(self, relation: Tensor) -> Tensor:
        """Return rows of the relation table: PyKEEN's even ids are relations, odd ones inverses."""
        if not self.use_inverse_triples:
            return relation
        return relation // 2 + relation % 2 * self.num_real_relations

    @torch.no_grad()
    def score_hrt(self, hrt_batch: Tensor, **_: Any) -> Tensor:
        """Return the scores (B, 1) of triples (B, 3)."""
        h, r, t = hrt_batch.T
        return self.model.score(h, self._row(r), t)[:, None]

    @torch.no_grad()
    def score_t(self, hr_batch: Tensor, *, tails: Tensor | None = None, **_: Any) -> Tensor:
        """Return the scores (B, N) of all tails, or (B, n) of some."""
        h, r = hr_batch.T
        if tails is None:
            return self.model.score_tails(h, self._row(r))
        return self._score_grid(h[:, None], self._row(r)[:, None], tails)

    @torch.no_grad()
    def score_h(self, rt_batch: Tensor, *, heads: Tensor | None = None, **_: Any) -> Tensor:
        """Return the scores (B, N) of all heads, or (B, n) of some, by the relation itself."""
        r, t = rt_batch.T
        if heads is not None:
            return self._score_grid(heads, self._row(r)[:, None], t[:, None])
        scores = self.model.entities.new_empty(len(t), self.num_entities)
        rows = self._row(r)
        for row in set(rows.tolist()):
            scores[rows == row] = self.model.score_heads(row, t[rows == row])
        return scores

    @torch.no_grad()
    def score_r(self, ht_batch: Tensor, *, relations: Tensor | None = None, **_: Any) -> Tensor:
        """Return the scores (B, R) of all relations with their inverses, or (B, n) of some."""
        h, t = ht_batch.T
        ids = torch.arange(self.num_relations, device=h.device) if relations is None else relations
        return self._score_grid(h[:, None], self._row(ids), t[:, None])

    def _score_grid(self, *columns: Tensor) -> Tensor:
        """Return the scores (B, n) of ids that broadcast to (B, n)."""
        h, r, t = torch.broadcast_tensors(*columns)  # type: ignore[no-untyped-call]
        return self.model.score(h.reshape(-1), r.reshape(-1), t.reshape(-1)).view(h.shape)

    def _get_entity_len(self, *, mode: Any) -> int:
        del mode
        return self.num_entities

    def collect_regularization_term(self) -> Tensor:
        """Refuse to train."""
        raise RuntimeError(_NOT_TRAINABLE)

    def _reset_parameters_(self) -> None:
        raise RuntimeError(_NOT_TRAINABLE)


_NOT_TRAINABLE = (
    "a trained model of fivestar is evaluated in PyKEEN, not trained; use FiveStarE.from_run to "
    "continue the training of a 5★E"
)
