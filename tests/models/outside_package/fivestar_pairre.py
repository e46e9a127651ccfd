"""PairRE for fivestar: the whole package."""

from typing import Annotated

import torch
from pydantic import Field

from fivestar import AutogradSimilarity, Model

Radius = Annotated[float, Field(gt=0, description="Length of a head.")]


class PairedDistance(AutogradSimilarity):
    def score_pairs(self, query, tails):
        transformed, tail_scale = query.chunk(2, dim=-1)
        return -torch.linalg.vector_norm(transformed - tail_scale * tails, ord=1, dim=-1)


class PairRE(Model):
    """s = −‖h ∘ r_H − t ∘ r_T‖₁ (Chao et al., ACL 2021), with h scaled to `radius`."""

    def __init__(self, num_entities, num_relations, dim, *, radius: Radius = 5.0):
        super().__init__(num_entities, num_relations, dim, 2 * dim, PairedDistance())
        self.radius = radius

    def transform(self, head, relation):
        head_scale, tail_scale = relation.chunk(2, dim=-1)
        head = self.radius * torch.nn.functional.normalize(head, dim=-1)
        return torch.cat([head * head_scale, tail_scale], dim=-1)
