"""DistMult (Yang et al. 2015) and ComplEx (Trouillon et al. 2016): the head is stretched."""

from __future__ import annotations

from torch import Tensor

from fivestar.geometry.complex_pairs import from_row, squared_modulus, times, to_row
from fivestar.models.base import Model
from fivestar.models.similarity import InnerProduct


class DistMult(Model):
    """s = Σ hᵢ rᵢ tᵢ: homothety; every relation is symmetric. d reals an entity and a relation."""

    entity_width = 1
    relation_width = 1

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__(entities, relations, dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The product h ∘ r."""
        return head * relation

    def point_sizes(self, points: Tensor) -> Tensor:
        """Squares."""
        return points.square()

    def relation_sizes(self, relation: Tensor) -> Tensor:
        """Squares."""
        return relation.square()


class ComplEx(Model):
    """s = Re Σ hᵢ rᵢ conj(tᵢ): rotation and homothety. 2d reals an entity and a relation."""

    entity_width = 2
    relation_width = 2

    def __init__(self, entities: int, relations: int, dim: int) -> None:
        super().__init__(entities, relations, dim, InnerProduct())

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The product h ∘ r over ℂ."""
        return to_row(times(from_row(head), from_row(relation)))

    def point_sizes(self, points: Tensor) -> Tensor:
        """Squared moduli."""
        return squared_modulus(from_row(points))

    def relation_sizes(self, relation: Tensor) -> Tensor:
        """Squared moduli."""
        return squared_modulus(from_row(relation))
