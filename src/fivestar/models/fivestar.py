"""5★E (Nayyeri, Vahdati, Aykul and Lehmann, AAAI 2021).

An entity is a point of ℂᵈ, a relation a complex 2 × 2 matrix per dimension, which transforms the
head by a Möbius map of the Riemann sphere:

    q = (a h + b) / (c h + d),        s = Re Σ q conj(t)   or   s = −‖q − t‖

2d reals per entity, 8d per relation. All five transformations: translation, rotation, homothety,
inversion and reflection (the last two together).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.geometry.complex_pairs import (
    Complex,
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


def transform_heads(
    head: Complex, m: Matrix, denominator: str, pairing: str, epsilon: float
) -> Complex:
    """Return (a h + b)/(c h + d) in the form of `denominator`, conjugated for `bilinear`."""
    match denominator:
        case "mobius":
            query = apply_softened(m, head, epsilon)
        case "phase":
            query = apply_phase(m, head)
        case _:
            query = apply_affine(m, head)
    return query if pairing == "hermitian" else conjugate(query)


def similarity_of(score: str, norm: str) -> Similarity:
    """Return how transformed heads are compared with tails; `norm` is that of the distance."""
    return InnerProduct() if score == "inner" else _DISTANCES[norm]()


class FiveStarE(Model):
    """s = Re Σ (aᵢ hᵢ + bᵢ)/(cᵢ hᵢ + dᵢ) conj(tᵢ), or minus a distance (Nayyeri et al., AAAI 2021).

    2d reals per entity, 8d per relation. Translation, rotation, homothety, inversion and reflection
    (the last two together). `denominator`: `mobius` is the paper's map, softened at the pole by
    `epsilon`; `phase` is what the authors' code trains; `none` is the affine part alone. `norm` is
    that of the distance score: of the 2d reals, or with `modulus` the sum of moduli.
    `off_diagonal_lr` slows b and c: the first steps of Adagrad are as long as the learning rate
    whatever the gradient, and b and c of that size drown the heads before they have learned.
    """

    broadcasts = True

    def __init__(  # noqa: PLR0913
        self,
        num_entities: int,
        num_relations: int,
        dim: int,
        *,
        denominator: Annotated[
            Denominator,
            Field(description="The exact map (mobius), its phase only, or the affine part (none)."),
        ] = "mobius",
        pairing: Annotated[Pairing, Field(description="Compare with conj(t) or with t.")] = (
            "hermitian"
        ),
        score: Annotated[Score, Field(description="Inner product or negative distance.")] = "inner",
        norm: Annotated[
            Norm, Field(description="Norm of the distance; modulus: the sum of complex moduli.")
        ] = "l2",
        init: Annotated[
            Init,
            Field(description="Initialization of the maps (with denominator phase: small)."),
        ] = "rotation",
        epsilon: Annotated[float, Field(gt=0, description="Softening of the pole.")] = _EPSILON,
        off_diagonal_lr: Annotated[
            float,
            Field(
                ge=0,
                le=1,
                description="Learning rate of b and c relative to lr (with init small: 1).",
            ),
        ] = _OFF_DIAGONAL_LR,
    ) -> None:
        similarity = similarity_of(score, norm)
        super().__init__(num_entities, num_relations, 2 * dim, 8 * dim, similarity)
        self.dim = dim
        self.denominator = denominator
        self.pairing = pairing
        self.init = init
        self.epsilon = epsilon
        self.off_diagonal_lr = off_diagonal_lr

    @classmethod
    def resolve_options(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options; the phase form needs a small init, or its penalty is too large."""
        options = super().resolve_options(given)
        if options["denominator"] == "phase" and "init" not in given:
            options["init"] = "small"
        if options["init"] == "small" and "off_diagonal_lr" not in given:
            options["off_diagonal_lr"] = 1.0  # all entries of a matrix have the same initial size
        if options["score"] == "inner" and options["norm"] != "l2":
            raise SettingsError("norm is that of the distance; use score distance with it")
        if options["denominator"] != "mobius" and options["epsilon"] != _EPSILON:
            raise SettingsError("epsilon softens the pole, which only denominator mobius has")
        return options

    @property
    def resets_shards(self) -> bool:
        """Entities have the default initialization."""
        return True

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize normal × 1e-3; `identity` and `rotation` add a map that fixes 0 and ∞.

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
        """Return (a h + b)/(c h + d), conjugated for the bilinear pairing."""
        m, form = self.matrix(relation), (self.denominator, self.pairing, self.epsilon)
        return to_row(transform_heads(from_row(head), m, *form))

    def matrix(self, relation: Tensor) -> Matrix:
        """Return the matrices of rows of the relation table."""
        return Matrix(*(from_row(entry) for entry in relation.chunk(4, dim=-1)))

    def off_diagonal(self, relations: Tensor) -> Tensor:
        """Return the columns of b and c."""
        return relations[:, 2 * self.dim : 6 * self.dim]

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Return |h|²."""
        return squared_modulus(from_row(points))

    def relation_squared_moduli(self, relation: Tensor) -> Tensor:
        """Return |a|² + |b|² + |c|² + |d|²."""
        return squared_norm(self.matrix(relation))
