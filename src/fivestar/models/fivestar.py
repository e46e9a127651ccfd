"""5★E (Nayyeri, Vahdati, Aykul and Lehmann, AAAI 2021).

An entity is a point of ℂᵈ, a relation a complex 2 × 2 matrix a dimension; the relation moves the
head on the Riemann sphere:

    q = (a h + b) / (c h + d),        s = Re Σ q conj(t)   or   s = −‖q − t‖

2d reals an entity, 8d a relation. All five transformations: translation, rotation, homothety,
inversion and reflection (the last two together).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.geometry.complex_pairs import (
    Matrix,
    apply_affine,
    apply_phase,
    apply_softened,
    conjugate,
    from_row,
    squared_modulus,
    squared_norm,
    to_row,
)
from fivestar.models.base import Model
from fivestar.models.distances import EuclideanDistance, L1Distance, ModulusDistance
from fivestar.models.similarity import InnerProduct, Similarity

Denominator = Literal["mobius", "phase", "none"]
Pairing = Literal["hermitian", "bilinear"]
Score = Literal["inner", "distance"]
Norm = Literal["l1", "l2", "modulus"]
Init = Literal["rotation", "identity", "small"]

_EPSILON = 1e-6
_OFF_DIAGONAL_LR = 0.1
_DISTANCES: dict[str, type[Similarity]] = {
    "l1": L1Distance,
    "l2": EuclideanDistance,
    "modulus": ModulusDistance,
}


class FiveStarE(Model):
    """s = Re Σ (aᵢ hᵢ + bᵢ)/(cᵢ hᵢ + dᵢ) conj(tᵢ), or minus a distance (Nayyeri et al., AAAI 2021).

    `denominator`: `mobius` is the paper's map, softened at the pole by `epsilon`; `phase` is what
    the authors' code trains; `none` is the affine part alone. `pairing`: `hermitian` compares with
    conj(t), `bilinear` with t. `norm` is that of the distance score: of the 2d reals, or with
    `modulus` the sum of moduli. `off_diagonal_lr` is the learning rate of b and c relative to that
    of all other parameters: the first steps of Adagrad are as long as the learning rate whatever
    the gradient, and b and c of that size drown the heads before these have learned anything.
    """

    broadcasts = True

    def __init__(  # noqa: PLR0913
        self,
        entities: int,
        relations: int,
        dim: int,
        *,
        denominator: Denominator = "mobius",
        pairing: Pairing = "hermitian",
        score: Score = "inner",
        norm: Norm = "l2",
        init: Init = "rotation",
        epsilon: float = _EPSILON,
        off_diagonal_lr: float = _OFF_DIAGONAL_LR,
    ) -> None:
        similarity = InnerProduct() if score == "inner" else _DISTANCES[norm]()
        super().__init__(entities, relations, 2 * dim, 8 * dim, similarity)
        self.dim = dim
        self.denominator = denominator
        self.pairing = pairing
        self.init = init
        self.epsilon = epsilon
        self.off_diagonal_lr = off_diagonal_lr

    @classmethod
    def options(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The phase form begins small: at the identity its regulariser has too much to undo."""
        found = super().options(given)
        if found["denominator"] == "phase" and "init" not in given:
            found["init"] = "small"
        if found["init"] == "small" and "off_diagonal_lr" not in given:
            found["off_diagonal_lr"] = 1.0  # all entries of a matrix start at the same size
        if found["score"] == "inner" and found["norm"] != "l2":
            raise SettingsError("norm is that of the distance; use score distance with it")
        if found["denominator"] != "mobius" and found["epsilon"] != _EPSILON:
            raise SettingsError("epsilon softens the pole, which only denominator mobius has")
        return found

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Normal × 1e-3; `identity` and `rotation` add a map of modulus 1 that fixes 0 and ∞.

        Near the identity score(h, r, h) ≈ |h|², so a head outranks every other tail. Under
        rotations by independent random angles that score has mean 0.
        """
        super().reset_parameters(generator)
        with torch.no_grad():
            a, _, _, d = self.matrix(self.relations)
            if self.init == "identity":
                a.real.add_(1)
                d.real.add_(1)
            elif self.init == "rotation":
                angle = torch.empty_like(a.real).uniform_(0, 2 * math.pi, generator=generator)
                a.real.copy_(angle.cos())
                a.imag.copy_(angle.sin())
                d.real.fill_(1)
                d.imag.zero_()

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """(a h + b)/(c h + d), conjugated for the bilinear pairing."""
        m, h = self.matrix(relation), from_row(head)
        match self.denominator:
            case "mobius":
                moved = apply_softened(m, h, self.epsilon)
            case "phase":
                moved = apply_phase(m, h)
            case "none":
                moved = apply_affine(m, h)
        return to_row(moved if self.pairing == "hermitian" else conjugate(moved))

    def matrix(self, relation: Tensor) -> Matrix:
        """The matrices of rows of the relation table."""
        return Matrix(*(from_row(entry) for entry in relation.chunk(4, dim=-1)))

    def off_diagonal(self, relations: Tensor) -> Tensor:
        """Return the columns of b and c."""
        return relations[:, 2 * self.dim : 6 * self.dim]

    def squared_moduli(self, points: Tensor) -> Tensor:
        """|h|²."""
        return squared_modulus(from_row(points))

    def relation_squared_moduli(self, relation: Tensor) -> Tensor:
        """|a|² + |b|² + |c|² + |d|²."""
        return squared_norm(self.matrix(relation))
