"""Models whose score is linear in head, relation and tail."""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.geometry.complex_pairs import from_row, squared_modulus, times, to_row
from fivestar.models.base import Model
from fivestar.models.similarity import InnerProduct


class DistMult(Model):
    """s = Σ hᵢ rᵢ tᵢ (Yang et al., ICLR 2015).

    d reals an entity and a relation. Homothety, with reflection where rᵢ < 0. Without reciprocal
    relations every relation is symmetric.
    """

    broadcasts = True

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__(entities, relations, dim, dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The product h ∘ r."""
        return head * relation


class ComplEx(Model):
    """s = Re Σ hᵢ rᵢ conj(tᵢ) (Trouillon et al., ICML 2016).

    2d reals an entity and a relation. Rotation and homothety; symmetric, antisymmetric and inverse
    relations.
    """

    broadcasts = True

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__(entities, relations, 2 * dim, 2 * dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The product h ∘ r over ℂ."""
        return to_row(times(from_row(head), from_row(relation)))

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Squared moduli."""
        return squared_modulus(from_row(points))

    def relation_squared_moduli(self, relation: Tensor) -> Tensor:
        """Squared moduli."""
        return squared_modulus(from_row(relation))


class CP(Model):
    """s = Σ hᵢ rᵢ tᵢ, an entity being one vector as head and another as tail (Hitchcock 1927).

    2d reals an entity ([as head | as tail]), d a relation. Homothety; the two roles of an entity
    meet only through reciprocal relations (Lacroix et al., ICML 2018).
    """

    broadcasts = True

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__(entities, relations, 2 * dim, dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The product h ∘ r."""
        return head.chunk(2, dim=-1)[0] * relation

    def candidate_columns(self, table: Tensor) -> Tensor:
        """Entities as tails."""
        return table.chunk(2, dim=-1)[1]

    def head_squared_moduli(self, head: Tensor) -> Tensor:
        """Entities as heads."""
        return head.chunk(2, dim=-1)[0].square()


class SimplE(Model):
    """s = ½ (Σ hᵢ rᵢ t′ᵢ + Σ tᵢ r′ᵢ h′ᵢ) (Kazemi and Poole, NeurIPS 2018).

    x is an entity as head and x′ the same as tail: 2d reals an entity [x | x′] and a relation
    [r | r′]. Homothety; symmetric, antisymmetric and inverse relations.
    """

    broadcasts = True

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__(entities, relations, 2 * dim, 2 * dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """½ [h′ ∘ r′ | h ∘ r], to be compared with [t | t′]."""
        as_head, as_tail = head.chunk(2, dim=-1)
        forward, inverse = relation.chunk(2, dim=-1)
        return torch.cat([as_tail * inverse, as_head * forward], dim=-1) / 2


class RESCAL(Model):
    """s = hᵀ W t (Nickel et al., ICML 2011).

    d reals an entity, d² a relation. Every linear map, so rotation, homothety and reflection in all
    dimensions at once; all relation patterns but the translation.
    """

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__(entities, relations, dim, dim * dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The product hᵀ W."""
        dim = head.shape[-1]
        return torch.bmm(head[:, None], relation.view(-1, dim, dim)).squeeze(1)
