"""5★E is fully expressive: for every ranking of all triples there are embeddings that give it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from fivestar.errors import SettingsError
from fivestar.geometry.complex_pairs import Complex, to_row
from fivestar.models.fivestar import FiveStarE

# Below the rounding of single precision, so that z ↦ λ z is computed exactly.
_EPSILON = 1e-30
# All integers and halves up to this are exact in single precision.
_LARGEST = 2**23


def construct(levels: npt.ArrayLike) -> FiveStarE:
    """Return a 5★E without reciprocals whose score of each triple is its level, exactly.

    Levels are truth values (true triples score 1, all others 0), or integers: any total preorder of
    all triples, with ties, and so any total preorder of the tails of each query (h, r, ?). Its
    dimension is 2n² for n entities, however many relations there are.

    An n × n matrix X of the levels of a relation is a sum over pairs i < j of symmetric parts
    (X_ij + X_ji)/2, of antisymmetric parts (X_ij − X_ji)/2, and of a diagonal. Each is the score of
    one dimension, in which the relation is z ↦ λ z and all entities but i and j are 0:

        symmetric:      hᵢ = hⱼ = 1,        λ = a      scores a for all pairs of i and j
        antisymmetric:  hᵢ = 1, hⱼ = √−1,   λ = a √−1  scores a for (i, j), −a for (j, i)
        diagonal:       hᵢ = 1,             λ = a      scores a for (i, i)

    A Möbius map needs λ ≠ 0, so each dimension is doubled, with λ of a + k and −k for a large k.

    Args:
        levels: (n, m, n) truth values or integers of (head, relation, tail).

    Returns:
        The model; all of its maps are Möbius maps.

    Raises:
        SettingsError: The shape is another one, or the levels are not integers or too large for
            exact scores in single precision.

    >>> import torch
    >>> model = construct([[[2, 1, 1]], [[0, 5, 0]], [[3, 3, 3]]])  # 3 entities, 1 relation
    >>> model.score_tails(torch.arange(3), torch.zeros(3, dtype=torch.int64)).tolist()
    [[2.0, 1.0, 1.0], [0.0, 5.0, 0.0], [3.0, 3.0, 3.0]]
    """
    x = _checked(levels)
    entities, relations, _ = x.shape
    first, second = np.triu_indices(entities, 1)
    there, back = x[first, :, second].T, x[second, :, first].T  # (m, pairs)
    symmetric = (there + back) / 2
    diagonal = 2 * np.einsum("iki->ki", x) - (x.sum(axis=2).T + x.sum(axis=0)) / 2
    sizes = np.concatenate([symmetric, (there - back) / 2, diagonal], axis=1)  # (m, n²)
    shift = float(np.abs(sizes).max()) + 1
    if 4 * entities * (2 * shift) > _LARGEST:
        raise SettingsError("the levels are too large for exact scores; use smaller ones")
    num_pairs = len(first)
    directions = np.ones(entities**2, complex)
    directions[num_pairs : 2 * num_pairs] = 1j
    factors = np.concatenate([sizes + shift, np.full_like(sizes, -shift)], axis=1)
    factors = factors * np.tile(directions, 2)
    model = FiveStarE(entities, relations, 2 * entities**2, epsilon=_EPSILON)
    zeros = torch.zeros(relations, 4 * entities**2)
    one = zeros.clone()
    one[:, : 2 * entities**2] = 1
    with torch.no_grad():
        points = _points(entities, first, second)
        model.entities.copy_(_row(np.concatenate([points, points], axis=1)))
        model.relations.copy_(torch.cat([_row(factors), zeros, zeros, one], dim=1))
    return model.eval()


def _checked(levels: npt.ArrayLike) -> npt.NDArray[np.float64]:
    array = np.asarray(levels)
    if array.ndim != 3 or array.shape[0] != array.shape[2] or array.size == 0:
        raise SettingsError(
            f"levels must have the shape (entities, relations, entities), not {array.shape}"
        )
    if array.dtype.kind not in "biu":
        raise SettingsError(f"levels must be truth values or integers, not {array.dtype}")
    return array.astype(np.float64)


def _points(
    entities: int, first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]
) -> npt.NDArray[np.complexfloating]:
    """Return the coordinates (n, n²) of entities: symmetric, antisymmetric, diagonal."""
    pairs = np.arange(len(first))
    symmetric, antisymmetric = np.zeros((2, entities, len(first)), complex)
    symmetric[first, pairs] = symmetric[second, pairs] = antisymmetric[first, pairs] = 1
    antisymmetric[second, pairs] = 1j
    return np.concatenate([symmetric, antisymmetric, np.eye(entities)], axis=1)


def _row(values: npt.NDArray[np.complexfloating]) -> torch.Tensor:
    return to_row(Complex(torch.tensor(values.real), torch.tensor(values.imag)))
