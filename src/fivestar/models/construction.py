"""5★E is fully expressive: for every set of triples there are embeddings that score them so."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from fivestar.errors import SettingsError
from fivestar.geometry.complex_pairs import Complex, to_row
from fivestar.models.fivestar import FiveStarE

# The map to 0 is not a Möbius map; this factor is close enough to 0 in a score.
_NEARLY_ZERO = 1e-6


def construct(facts: npt.ArrayLike) -> FiveStarE:
    """Return a 5★E without reciprocals that scores true triples near 1 and all others near 0.

    Args:
        facts: (n, m, n) truth values of (head, relation, tail).

    For one relation, X + iXᵀ is a normal matrix whose real part is X (Trouillon et al., JMLR 2017),
    so X = Re V Λ V* with V unitary. Each relation has n dimensions of its own, in which entities
    are rows of V and its maps are z ↦ λ z; the other relations map these dimensions close to 0.
    """
    truth = np.asarray(facts, dtype=bool)
    if truth.ndim != 3 or truth.shape[0] != truth.shape[2] or truth.size == 0:
        raise SettingsError(
            f"truth values must have the shape (entities, relations, entities), not {truth.shape}"
        )
    entities, relations, _ = truth.shape
    points, factors = [], np.full((relations, relations, entities), _NEARLY_ZERO, complex)
    for number in range(relations):
        x = truth[:, number].astype(float)
        # X + iXᵀ = e^{iπ/4} H with H hermitian, so its eigenvectors are always orthogonal.
        size, vectors = np.linalg.eigh((x + x.T + 1j * (x.T - x)) / np.sqrt(2))
        points.append(vectors)
        eigenvalues = size * np.exp(0.25j * np.pi)
        factors[number, number] = np.where(np.abs(size) < _NEARLY_ZERO, _NEARLY_ZERO, eigenvalues)
    dim = entities * relations
    model = FiveStarE(entities, relations, dim)
    zeros, ones = torch.zeros(relations, dim), torch.ones(relations, dim)
    zero = to_row(Complex(zeros, zeros))
    with torch.no_grad():
        model.entities.copy_(_row(np.concatenate(points, axis=1)))
        a = _row(factors.reshape(relations, dim))
        model.relations.copy_(torch.cat([a, zero, zero, to_row(Complex(ones, zeros))], dim=1))
    return model.eval()


def _row(values: npt.NDArray[np.complexfloating]) -> torch.Tensor:
    return to_row(Complex(torch.tensor(values.real), torch.tensor(values.imag)))
