"""Models whose score is linear in the head, the relation and the tail."""

from __future__ import annotations

import torch
from torch import Tensor

from fivestar.geometry.complex_pairs import from_row, squared_modulus, times, to_row
from fivestar.models.base import Model
from fivestar.models.similarity import InnerProduct


class DistMult(Model):
    """s = Σ hᵢ rᵢ tᵢ (Yang et al., ICLR 2015).

    d reals per entity and per relation. Homothety, with reflection where rᵢ < 0. Without reciprocal
    relations every relation is symmetric.
    """

    broadcasts = True

    def __init__(self, num_entities: int, num_relations: int, dim: int) -> None:
        super().__init__(num_entities, num_relations, dim, dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return h ∘ r."""
        return head * relation


class ComplEx(Model):
    """s = Re Σ hᵢ rᵢ conj(tᵢ) (Trouillon et al., ICML 2016).

    2d reals per entity and per relation. Rotation and homothety; symmetric, antisymmetric and
    inverse relations.
    """

    broadcasts = True

    def __init__(self, num_entities: int, num_relations: int, dim: int) -> None:
        super().__init__(num_entities, num_relations, 2 * dim, 2 * dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return h ∘ r over ℂ."""
        return to_row(times(from_row(head), from_row(relation)))

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Return squared moduli."""
        return squared_modulus(from_row(points))

    def relation_squared_moduli(self, relation: Tensor) -> Tensor:
        """Return squared moduli."""
        return squared_modulus(from_row(relation))


class CP(Model):
    """s = Σ hᵢ rᵢ tᵢ, with one vector per entity as head and another as tail (Hitchcock 1927).

    2d reals per entity ([as head | as tail]), d per relation. Homothety; the two roles of an entity
    meet only through reciprocal relations (Lacroix et al., ICML 2018).
    """

    broadcasts = True

    def __init__(self, num_entities: int, num_relations: int, dim: int) -> None:
        super().__init__(num_entities, num_relations, 2 * dim, dim, InnerProduct())

    def entity_vectors(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return the vectors as head and as tail."""
        return rows.chunk(2, dim=1)

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return h ∘ r."""
        return head.chunk(2, dim=-1)[0] * relation

    def candidate_columns(self, table: Tensor) -> Tensor:
        """Return entities as tails."""
        return table.chunk(2, dim=-1)[1]

    def head_squared_moduli(self, head: Tensor) -> Tensor:
        """Return squares of entities as heads."""
        return head.chunk(2, dim=-1)[0].square()


class SimplE(Model):
    """s = ½ (Σ hᵢ rᵢ t′ᵢ + Σ tᵢ r′ᵢ h′ᵢ) (Kazemi and Poole, NeurIPS 2018).

    x is an entity as head and x′ the same as tail: 2d reals per entity [x | x′] and per relation
    [r | r′]. Homothety; symmetric, antisymmetric and inverse relations.
    """

    broadcasts = True

    def __init__(self, num_entities: int, num_relations: int, dim: int) -> None:
        super().__init__(num_entities, num_relations, 2 * dim, 2 * dim, InnerProduct())

    def entity_vectors(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return the vectors as head and as tail."""
        return rows.chunk(2, dim=1)

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return ½ [h′ ∘ r′ | h ∘ r], which is compared with [t | t′]."""
        as_head, as_tail = head.chunk(2, dim=-1)
        forward, inverse = relation.chunk(2, dim=-1)
        return torch.cat([as_tail * inverse, as_head * forward], dim=-1) / 2


class RESCAL(Model):
    """s = hᵀ W t (Nickel et al., ICML 2011).

    d reals per entity, d² per relation. Every linear map, so rotation, homothety and reflection in
    all dimensions at once; all relation patterns but the translation.
    """

    def __init__(self, num_entities: int, num_relations: int, dim: int) -> None:
        super().__init__(num_entities, num_relations, dim, dim * dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return hᵀ W."""
        dim = head.shape[-1]
        return torch.bmm(head[:, None], relation.view(-1, dim, dim)).squeeze(1)
