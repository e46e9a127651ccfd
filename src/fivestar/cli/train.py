"""`fivestar train`: learn a graph. Every setting is a flag of the same name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Optional, get_origin

import typer
from pydantic import BaseModel
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fivestar.cli.budget import (
    Budget,
    BudgetDims,
    BudgetModels,
    budget_begins,
    budget_of,
    resume_budget,
    train_in_budget,
)
from fivestar.cli.source import Reading, Source, read_source, reads_a_source
from fivestar.cli.terminal import err, out, warn
from fivestar.errors import SettingsError
from fivestar.runs.settings import ModelSettings, TrainingSettings, make_settings, read_values

EXAMPLE = "Example: fivestar train my_graph --dim 100 --epochs 50 --reg 0.1 --out my_run"
_SECTIONS: dict[str, type[BaseModel]] = {"model": ModelSettings, "training": TrainingSettings}

Out = Annotated[
    Path | None, typer.Option("--out", help="The new folder of the run.", show_default=False)
]
SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="A TOML file of settings; flags win.", show_default=False),
]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", help="Go on with this run instead.", show_default=False),
]

From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        help="Begin with what this run has learned, on its graph or on a changed one.",
        show_default=False,
    ),
]
TensorBoard = Annotated[
    bool, typer.Option("--tensorboard", help="Also write the history for TensorBoard.")
]


@reads_a_source
def _train(  # noqa: PLR0913
    source: Source = None,
    *,
    to: Out = None,
    settings_file: SettingsFile = None,
    resume_from: Resume = None,
    begin_from: From = None,
    tensorboard: TensorBoard = False,
    budget: Budget = None,
    budget_models: BudgetModels = None,
    budget_dims: BudgetDims = None,
    reading: Reading,
    **flags: Any,
) -> None:
    """Train a model on a graph, or (--resume) go on with a run that was stopped.

    The defaults are those of 5★E; other models bring their published ones: fivestar models NAME.
    """
    began = budget_begins()
    given = {flag: value for flag, value in flags.items() if value is not None}
    if resume_from is not None:
        if source or to or settings_file or begin_from or budget or given:
            raise SettingsError(
                "--resume takes the graph and settings of the run: give nothing else"
            )
        metrics = resume_budget(resume_from, began, tensorboard=tensorboard)
        if metrics is None:
            _resume(resume_from, tensorboard=tensorboard)
        else:
            _report(metrics, resume_from)
        return
    limit = budget_of(budget, budget_models, budget_dims, begin_from)
    if to is None:
        raise SettingsError("say where the run should go: --out FOLDER")
    values, where = _values(settings_file or _settings_of(begin_from), given)
    settings = make_settings(values, where)
    graph = read_source(source or (str(begin_from / "graph") if begin_from else None), reading)
    for message in graph.report.warnings:
        warn(message)
    if limit is not None:
        metrics = train_in_budget(graph, values, to, limit, began, tensorboard=tensorboard)
        _report(metrics, to)
        return
    from fivestar.training import loop  # noqa: PLC0415  (slow to import)

    with _shown(settings.training.epochs, to if tensorboard else None) as shown:
        run = loop.train(graph, settings, to, *shown, begin_from)
    _report(run.metrics, to)


def _resume(folder: Path, *, tensorboard: bool) -> None:
    from fivestar.runs.run import read_begun_run  # noqa: PLC0415
    from fivestar.training import loop  # noqa: PLC0415

    _, settings = read_begun_run(folder)
    with _shown(settings.training.epochs, folder if tensorboard else None) as shown:
        run = loop.resume(folder, *shown)
    _report(run.metrics, folder)


def _values(file: Path | None, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the settings that are given by a file and by flags, and where they come from."""
    changes: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for flag, value in given.items():
        section = next(s for s, kind in _SECTIONS.items() if _key(s, flag) in kind.model_fields)
        changes[section][_key(section, flag)] = value
    return (read_values(file, changes), str(file)) if file else (changes, "command line")


def _settings_of(run: Path | None) -> Path | None:
    if run is None:
        return None
    if not (run / "settings.toml").is_file():
        raise SettingsError(f"{run} is not the folder of a run: it has no settings.toml")
    return run / "settings.toml"


def _key(section: str, flag: str) -> str:
    """`--model` is the name of the model; all other flags are called as their setting."""
    return "name" if (section, flag) == ("model", "model") else flag


def _report(metrics: dict[str, Any], folder: Path) -> None:
    for kind in ("entities", "relations"):
        if "started_from" in metrics:
            text = _taken_over(kind, **metrics["started_from"][kind])
            out.print(text, markup=False, soft_wrap=True)
    minutes = metrics["seconds"] / 60
    text = f"{metrics['epochs']} epochs in {minutes:.1f} minutes"
    if "valid" in metrics:
        text += (
            f"; validation MRR {metrics['valid']['mrr']:.3f}, "
            f"H@10 {metrics['valid']['hits@10']:.3f} (epoch {metrics['best_epoch']})"
        )
    out.print(f"{text}; saved in {folder}", markup=False, soft_wrap=True)


def _taken_over(kind: str, kept: int, new: int, vanished: int, some_vanished: list[str]) -> str:
    text = f"{kind}: {kept:,} kept, {new:,} new, {vanished:,} vanished"
    more = ", …" if vanished > len(some_vanished) else ""
    return f"{text} ({', '.join(some_vanished)}{more})" if vanished else text


@contextmanager
def _shown(
    epochs: int, tensorboard: Path | None
) -> Iterator[tuple[Callable[[dict[str, Any]], None], Callable[[float], None]]]:
    """A bar on a terminal, plain lines elsewhere, and TensorBoard if asked for.

    Gives what is to be called after each epoch and after each step.
    """
    write = None
    if tensorboard is not None:
        from fivestar.training.tensorboard import tensorboard_writer  # noqa: PLC0415

        write = tensorboard_writer(tensorboard)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.1f}/{task.total} epochs"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=not err.is_terminal) as bar:
        task = bar.add_task("training", total=epochs)
        best = ""

        def show(line: dict[str, Any]) -> None:
            nonlocal best
            if write is not None:
                write(line)
            if "valid_mrr" in line:
                best = f"  valid MRR {line['valid_mrr']:.3f}"
            text = f"loss {line['loss']:.3f}{best}  {line['triples_per_second']:,.0f} triples/s"
            if err.is_terminal:
                bar.update(task, completed=line["epoch"], description=text)
            else:
                err.print(f"epoch {line['epoch']}/{epochs}  {text}", markup=False, soft_wrap=True)

        yield show, lambda epochs_done: bar.update(task, completed=epochs_done)


def _with_flags() -> Callable[..., None]:
    """The command with a flag for every setting, named and explained by the settings themselves."""
    signature = inspect.signature(_train, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for section, kind in _SECTIONS.items():
        for name, field in kind.model_fields.items():
            flag = "model" if (section, name) == ("model", "name") else name
            default = "" if field.default in (None, ()) else f" (default: {field.default})"
            dashed = flag.replace("_", "-")
            option = typer.Option(
                f"--{dashed}/--no-{dashed}" if field.annotation is bool else f"--{dashed}",
                help=f"{field.description}{default}",
                show_default=False,
                rich_help_panel=f"Settings: {section}",
            )
            # A list is given as one text with commas, which the settings themselves take apart.
            kind_of_value = str if get_origin(field.annotation) is tuple else field.annotation
            optional: Any = Optional[kind_of_value]  # noqa: UP045  (a type made at run time)
            parameters.append(
                inspect.Parameter(
                    flag,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=None,
                    annotation=Annotated[optional, option],
                )
            )

    def command(**arguments: Any) -> None:
        _train(**arguments)

    command.__doc__ = _train.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


train = _with_flags()
