"""`fivestar models`: the models, their options and their training settings."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fivestar.cli.tables import print_table, prose_column
from fivestar.cli.terminal import out, warn

if TYPE_CHECKING:
    from fivestar.models.base import Model

EXAMPLE = "Example: fivestar models rotate"


def models(
    name: Annotated[
        str | None, typer.Argument(help="Describe this model only.", show_default=False)
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List all models, or describe one with its options and training settings."""
    from fivestar.models.registry import MODELS  # noqa: PLC0415  (slow to import)

    if name is None:
        usable, problems = MODELS.usable()
        for problem in problems.values():
            warn(problem)
    else:
        usable = {name: MODELS[name]}
    described = {each: _describe(each, usable[each]) for each in sorted(usable)}
    if as_json:
        typer.echo(json.dumps(described, indent=2, ensure_ascii=False))
    elif name is not None:
        _show_one(described[name])
    else:
        _show_all(described)


def _show_all(described: dict[str, dict[str, Any]]) -> None:
    rows = []
    for name, model in described.items():
        options = ", ".join(f"{key} {_word(o['default'])}" for key, o in model["options"].items())
        rows.append((name, model["formula"], options, model["training"]["objective"]))
    print_table(("name", prose_column("formula"), prose_column("options"), "objective"), rows)
    out.print("Details of one model: fivestar models NAME", markup=False)


def _show_one(model: dict[str, Any]) -> None:
    lines = [model["formula"], model["description"]]
    if model["package"]:
        lines.append(f"From {model['package']}")
    lines += [_option_line(name, option) for name, option in model["options"].items()]
    source = f" ({model['training_source']})" if model["training_source"] else ""
    lines.append(f"Default training: {_flags(model['training'])}{source}")
    if model["published"]:
        source = model["published_source"]
        lines.append(f"--method published: {_flags(model['published'])} ({source})")
    out.print("\n".join(filter(None, lines)), markup=False, highlight=False)


def _option_line(name: str, option: dict[str, Any]) -> str:
    values = "|".join(map(str, option["choices"])) or option["type"].upper()
    default = "" if option["default"] is None else f" (default: {_word(option['default'])})"
    return f"  --{name.replace('_', '-')} {values}  {option['description']}{default}"


def _flags(training: dict[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', '-')} {_word(value)}" for key, value in training.items())


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _describe(name: str, model: type[Model]) -> dict[str, Any]:
    from fivestar.models.options import options_of  # noqa: PLC0415  (slow to import)
    from fivestar.models.registry import MODELS  # noqa: PLC0415
    from fivestar.runs.defaults import (  # noqa: PLC0415
        default_training,
        published_training,
        source,
    )

    formula, _, description = (inspect.getdoc(model) or "").partition("\n\n")
    return {
        "formula": " ".join(formula.split()),
        "description": " ".join(description.split()),
        "package": MODELS.package(name),
        "options": {
            key: {
                "type": getattr(option.type, "__name__", str(option.type)),
                "choices": list(option.choices),
                "default": option.default,
                "description": option.description,
            }
            for key, option in options_of(model).items()
        },
        "training": {"objective": "softmax"} | default_training(name, {}),
        "training_source": source(name),
        "published": published_training(name),
        "published_source": source(name, "published.toml"),
    }
