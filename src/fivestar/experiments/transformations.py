"""Which transformations of space each model's relations are: measured on the models themselves.

A relation drawn at random is a map T of the head. It translates if T(0) ≠ 0. With J its
derivative, it inverts (and reflects: both come together) if J is not the same everywhere; it
scales if J changes lengths, and rotates if what is left of J without that turns some plane.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fivestar.models.registry import make_model

TRANSFORMATIONS = ("translation", "rotation", "homothety", "inversion", "reflection")
MODELS: Mapping[str, str] = {
    "TransE": "transe",
    "DistMult": "distmult",
    "RotatE": "rotate",
    "ComplEx": "complex",
    "QuatE": "quate",
    "5★E": "fivestar",
}
_DIM = 4
_CLEAR = 1e-6


def transformations(name: str, seed: int = 0) -> set[str]:
    """What a relation of this model does to a head."""
    generator = torch.Generator().manual_seed(seed)
    model = make_model(name, 1, 1, _DIM).double()
    width, size = model.entities.shape[1], model.relations.shape[1]
    relation = torch.randn(1, size, dtype=torch.float64, generator=generator)
    heads = torch.randn(2, width, dtype=torch.float64, generator=generator)

    def moved(head: Tensor) -> Tensor:
        return model.transform(head[None], relation)[0]

    origin = torch.zeros(width, dtype=torch.float64)
    slopes = [_slope(moved, head) for head in heads]
    left, stretch, right = torch.linalg.svd(slopes[0])
    turn = torch.linalg.eigvals(left @ right)
    inverts = _differ(*slopes)
    found = {
        "translation": _differ(moved(origin), origin),
        "rotation": _differ(turn.imag, torch.zeros_like(turn.imag)),
        "homothety": _differ(stretch, torch.ones_like(stretch)),
        "inversion": inverts,
        "reflection": inverts,
    }
    return {each for each, is_there in found.items() if is_there}


def table() -> list[list[str]]:
    """A row a model, a star for each transformation that it has; the first row says which."""
    rows = [["model", *TRANSFORMATIONS]]
    for title, name in MODELS.items():
        found = transformations(name)
        rows.append([title, *("★" if each in found else "☆" for each in TRANSFORMATIONS)])
    return rows


def _slope(moved: object, head: Tensor) -> Tensor:
    found: Tensor = torch.autograd.functional.jacobian(moved, head)  # type: ignore[no-untyped-call]
    return found


def _differ(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() > _CLEAR)
