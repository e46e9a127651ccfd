"""Models by name: built-in ones, those of installed packages, and those registered by a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fivestar.errors import RegistrationError
from fivestar.plugins import Registry

if TYPE_CHECKING:
    from fivestar.models.base import Model

M = TypeVar("M", bound="Model")


def _check_model(name: str, model: Any) -> None:
    """Refuse what cannot be built, trained, saved and loaded like any other model."""
    from fivestar.models.base import Model  # noqa: PLC0415  (slow to import)
    from fivestar.models.options import options_of  # noqa: PLC0415

    if not (isinstance(model, type) and issubclass(model, Model)):
        raise RegistrationError(
            f"the model {name!r} is not a subclass of fivestar.Model: {model!r}"
        )
    if inspect.isabstract(model):
        missing = ", ".join(sorted(model.__abstractmethods__))
        raise RegistrationError(f"the model {name!r} ({model.__name__}) must define {missing}")
    parameters = inspect.signature(model).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(positional) != 3:
        raise RegistrationError(
            f"{model.__name__}.__init__ takes {', '.join(positional) or 'no arguments'}; it must "
            "take num_entities, num_relations, dim, and options as keyword-only arguments"
        )
    options_of(model)


MODELS: Registry[type[Model]] = Registry(
    "model",
    "fivestar.models",
    {
        "fivestar": "fivestar.models.fivestar:FiveStarE",
        "complex": "fivestar.models.bilinear:ComplEx",
        "conve": "fivestar.models.neural:ConvE",
        "cp": "fivestar.models.bilinear:CP",
        "distmult": "fivestar.models.bilinear:DistMult",
        "mure": "fivestar.models.translation:MuRE",
        "murp": "fivestar.models.hyperbolic:MuRP",
        "protate": "fivestar.models.rotation:PRotatE",
        "quate": "fivestar.models.rotation:QuatE",
        "rescal": "fivestar.models.bilinear:RESCAL",
        "rotate": "fivestar.models.rotation:RotatE",
        "simple": "fivestar.models.bilinear:SimplE",
        "transe": "fivestar.models.translation:TransE",
        "tucker": "fivestar.models.neural:TuckER",
    },
    _check_model,
)


@overload
def register_model(name: str) -> Callable[[type[M]], type[M]]: ...
@overload
def register_model(name: str, model: type[M]) -> type[M]: ...
def register_model(name: str, model: type[M] | None = None) -> Any:
    """Register a model class under a name, by a call or as a decorator.

    The name can then be used wherever a model is named, in this process. For the command line,
    declare the class as an entry point of the group `fivestar.models` instead.

    Args:
        name: Lower-case letters, digits, - and _.
        model: A subclass of `fivestar.Model` whose constructor takes `num_entities`,
            `num_relations`, `dim`, and options as annotated keyword-only arguments.

    Returns:
        The class, or a decorator if no class is given.

    Raises:
        RegistrationError: The name is taken, or the class is not a usable model.

    Example::

        @fivestar.register_model("scaling")
        class Scaling(fivestar.Model):
            def __init__(self, num_entities, num_relations, dim):
                super().__init__(num_entities, num_relations, dim, 1, fivestar.InnerProduct())

            def transform(self, head, relation):
                return head * relation
    """
    if model is None:
        return lambda decorated: MODELS.register(name, decorated)
    return MODELS.register(name, model)


def make_model(name: str, num_entities: int, num_relations: int, dim: int, **options: Any) -> Model:
    """Return a new model by its name; call `reset_parameters` to initialize its tables.

    Raises:
        SettingsError: There is no such model, or an option is unknown or has a wrong value.
    """
    model: Any = MODELS[name]
    resolved = model.resolve_options(options)
    return model(num_entities, num_relations, dim, **resolved)  # type: ignore[no-any-return]
