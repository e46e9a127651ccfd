"""Flags for the options of all models, those of installed packages included.

Which options there are is known only once the models are loaded, which takes as long as importing
torch. So the flags are added when the command is parsed, not when the command line is built.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer
from typer.core import TyperCommand

from fivestar.cli.terminal import warn

if TYPE_CHECKING:
    from fivestar.models.options import Option

_GIVEN = "fivestar.model_options"
_FLAG_TYPES = (bool, int, float, str)


class ModelOptionsCommand(TyperCommand):
    """A command with a flag for every option of every model."""

    _flags: list[Any] | None = None

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command and the flags of the models."""
        own = super().get_params(ctx)
        if self._flags is None:
            taken = {parameter.name for parameter in own}
            self._flags = [flag for flag in _model_flags() if flag.name not in taken]
        *parameters, help_option = own
        return [*parameters, *self._flags, help_option]


def given_model_options(context: typer.Context) -> dict[str, Any]:
    """Return the model options that were given as flags."""
    return dict(context.meta.get(_GIVEN, {}))


def _model_flags() -> list[Any]:
    """Return one flag per option name; models that share a name share its flag."""
    from fivestar.models.options import options_of  # noqa: PLC0415  (slow to import)
    from fivestar.models.registry import MODELS  # noqa: PLC0415

    by_name: dict[str, dict[str, Option]] = {}
    models, problems = MODELS.usable()
    for problem in problems.values():
        warn(problem)
    for model, kind in models.items():
        for name, option in options_of(kind).items():
            by_name.setdefault(name, {})[model] = option
    app = typer.Typer()
    app.command()(_with_signature([_parameter(*item) for item in by_name.items()]))
    parameters: list[Any] = typer.main.get_command(app).params
    return [parameter for parameter in parameters if parameter.name in by_name]


def _parameter(name: str, options: dict[str, Option]) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    kind = _flag_type(list(options.values()))
    declared = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=_help(options),
        show_default=False,
        rich_help_panel="Advanced: model options",
        expose_value=False,
        callback=_store,
    )
    optional: Any = Optional[kind]  # noqa: UP045  (a type made at run time)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[optional, declared],
    )


def _store(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    if value is not None:
        context.meta.setdefault(_GIVEN, {})[parameter.name] = value
    return value


def _flag_type(options: list[Option]) -> Any:
    """Return a type that fits all models; their own validation does the rest."""
    if all(option.choices for option in options):
        choices = dict.fromkeys(choice for option in options for choice in option.choices)
        if all(isinstance(choice, str) for choice in choices):
            return Literal[tuple(choices)]
    kinds = {option.type for option in options}
    only = kinds.pop() if len(kinds) == 1 else str
    return only if only in _FLAG_TYPES else str


def _help(options: dict[str, Option]) -> str:
    """Return the longest description, with the models that have the option and their defaults."""
    models = sorted(options)
    description = max((options[model].description for model in models), key=len)
    defaults = {model: options[model].default for model in models}
    shown = {model: default for model, default in defaults.items() if default is not None}
    text = f"{', '.join(models)}: {description}".rstrip()
    if not shown:
        return text
    if len(set(map(repr, shown.values()))) == 1:
        return f"{text} (default: {next(iter(shown.values()))})"
    return f"{text} (default: {', '.join(f'{m} {value}' for m, value in shown.items())})"


def _with_signature(parameters: list[inspect.Parameter]) -> Any:
    def command(**_: Any) -> None:
        """Do nothing: only the flags are used."""

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command
