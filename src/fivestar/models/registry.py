"""Models by name. Anyone may add one: `MODELS["mine"] = MyModel`."""

from __future__ import annotations

from typing import Any

from fivestar.errors import SettingsError
from fivestar.models.base import Model
from fivestar.models.bilinear import CP, RESCAL, ComplEx, DistMult, SimplE
from fivestar.models.conve import ConvE
from fivestar.models.fivestar import FiveStarE
from fivestar.models.hyperbolic import MuRP
from fivestar.models.quaternion import QuatE
from fivestar.models.rotation import PRotatE, RotatE
from fivestar.models.translation import MuRE, TransE
from fivestar.models.tucker import TuckER
from fivestar.spelling import closest_names

MODELS: dict[str, type[Model]] = {
    "fivestar": FiveStarE,
    "complex": ComplEx,
    "conve": ConvE,
    "cp": CP,
    "distmult": DistMult,
    "mure": MuRE,
    "murp": MuRP,
    "protate": PRotatE,
    "quate": QuatE,
    "rescal": RESCAL,
    "rotate": RotatE,
    "simple": SimplE,
    "transe": TransE,
    "tucker": TuckER,
}


def model_class(name: str) -> type[Model]:
    """A kind of model by its name."""
    if name not in MODELS:
        near = closest_names(name, MODELS) or list(MODELS)
        raise SettingsError(f"no model {name!r}; did you mean {' or '.join(near)}?")
    return MODELS[name]


def make_model(name: str, entities: int, relations: int, dim: int, **options: Any) -> Model:
    """A model by its name, its tables not yet filled."""
    kind = model_class(name)
    known = kind.options({})
    unknown = [option for option in options if option not in known]
    if unknown:
        has = f"its options are {', '.join(known)}" if known else "it has no options"
        raise SettingsError(f"the model {name} has no option {', '.join(unknown)}: {has}")
    built: Any = kind
    return built(entities, relations, dim, **kind.options(options))  # type: ignore[no-any-return]
