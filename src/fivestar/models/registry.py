"""Models by name. Anyone may add one: `MODELS["mine"] = MyModel`."""

from __future__ import annotations

from typing import Any

from fivestar.errors import SettingsError
from fivestar.models.base import Model
from fivestar.models.bilinear import ComplEx, DistMult
from fivestar.models.fivestar import FiveStarE
from fivestar.spelling import nearest

MODELS: dict[str, type[Model]] = {
    "fivestar": FiveStarE,
    "complex": ComplEx,
    "distmult": DistMult,
}


def make_model(name: str, entities: int, relations: int, dim: int, **options: Any) -> Model:
    """A model by its name, its tables not yet filled."""
    if name not in MODELS:
        near = nearest(name, MODELS) or list(MODELS)
        raise SettingsError(f"no model {name!r}; did you mean {' or '.join(near)}?")
    return MODELS[name](entities, relations, dim, **options)
