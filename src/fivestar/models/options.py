"""Options of a model: keyword-only arguments of its constructor, validated by their annotations.

    def __init__(self, num_entities, num_relations, dim, *,
                 norm: Annotated[Literal["l1", "l2"], Field(description="Norm.")] = "l1"): ...

Types, choices (`Literal`), ranges and help texts (`pydantic.Field`) are declared there and nowhere
else: settings files, flags and `fivestar models NAME` read them from the signature.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from fivestar.errors import RegistrationError, SettingsError
from fivestar.spelling import closest_names, did_you_mean

# Keys of [model] that every model has; no option may have their names.
RESERVED = ("name", "dim")


class Option(NamedTuple):
    """One option: its type (without None), default, choices and help text."""

    type: Any
    default: Any
    choices: tuple[Any, ...]
    description: str


@cache
def options_of(model: type) -> dict[str, Option]:
    """Return the options of a model class by name, in the order of its signature.

    Raises:
        RegistrationError: An option has no type or no default, or its name is reserved.
    """
    options = {}
    for name, field in _schema(model).model_fields.items():
        kind = _without_none(field.annotation)
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        options[name] = Option(kind, field.default, choices, field.description or "")
    return options


def validate_options(model: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a model class, those not given at their defaults.

    Raises:
        SettingsError: An option is unknown, or has a value of the wrong type or out of range.
    """
    known = options_of(model)
    for name in given:
        if name not in known:
            options = f"its options are {', '.join(known)}" if known else "it has no options"
            hint = did_you_mean(closest_names(name, known)) or f"; {options}"
            raise SettingsError(f"{model.__name__} has no option {name!r}{hint}")
    try:
        values = _schema(model)(**given)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']} (not {problem['input']!r})"
            for problem in error.errors()
        ]
        raise SettingsError(f"options of {model.__name__}: {'; '.join(problems)}") from None
    return {name: getattr(values, name) for name in known}


@cache
def _schema(model: type) -> type[BaseModel]:
    """Return the options of a model class as a pydantic model."""
    own = [p for p in inspect.signature(model).parameters.values() if p.kind is p.KEYWORD_ONLY]
    try:
        hints = get_type_hints(model.__init__, include_extras=True)  # type: ignore[misc]
    except Exception as error:
        raise RegistrationError(
            f"the annotations of {model.__name__}.__init__ cannot be resolved: {error}"
        ) from error
    for parameter in own:
        problem = _problem(parameter, hints)
        if problem:
            raise RegistrationError(f"the option {parameter.name!r} of {model.__name__} {problem}")
    fields: dict[str, Any] = {p.name: (hints[p.name], p.default) for p in own}
    config = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)
    return create_model(f"{model.__name__}Options", __config__=config, **fields)


def _problem(option: inspect.Parameter, hints: Mapping[str, Any]) -> str | None:
    """Return why a keyword-only argument cannot be an option, or None if it can."""
    if option.name in RESERVED or option.name.startswith("_"):
        return "needs another name: name, dim and names that begin with _ are reserved"
    if option.name not in hints:
        return "needs a type annotation"
    if option.default is option.empty:
        return "needs a default"
    if not isinstance(option.default, str | bool | int | float | list | tuple | None):
        return f"has a default that a settings file cannot hold: {option.default!r}"
    try:
        json.dumps(option.default)
    except TypeError:
        return f"has a default that a settings file cannot hold: {option.default!r}"
    return None


def _without_none(annotation: Any) -> Any:
    """Return T of T | None, and any other type as it is."""
    if get_origin(annotation) is Union or type(annotation).__name__ == "UnionType":
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else annotation
    return annotation
