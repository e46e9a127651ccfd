"""Scores of whole triples, as both directions of a relation see them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from fivestar.graph.triples import Triples
from fivestar.models.base import Model

_AT_ONCE = 4096


@torch.no_grad()
def triple_scores(model: Model, triples: Triples, relations: int) -> npt.NDArray[np.float32]:
    """The score of each (h, r, t), or its mean with that of (t, r⁻¹, h) if the model has such."""
    rows = torch.as_tensor(triples.array.astype(np.int64), device=model.entities.device)
    found = []
    for part in rows.split(_AT_ONCE):  # type: ignore[no-untyped-call]
        h, r, t = part.unbind(dim=1)
        scores = model.score(h, r, t)
        if len(model.relations) > relations:
            scores = (scores + model.score(t, r + relations, h)) / 2
        found.append(scores)
    of_all: npt.NDArray[np.float32] = torch.cat(found).cpu().numpy()
    return of_all
