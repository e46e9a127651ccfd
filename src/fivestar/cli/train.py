"""`fivestar train`: train a model. Every setting is a flag of the same name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, get_origin

import typer
from pydantic import BaseModel

import fivestar
from fivestar.cli import run_argument
from fivestar.cli.budget import (
    Budget,
    BudgetDims,
    BudgetModels,
    budget_begins,
    budget_of,
    resume_budget,
    train_in_budget,
)
from fivestar.cli.model_options import given_model_options
from fivestar.cli.processes import (
    Processes,
    agreed_folder,
    launch,
    launched,
    refuse_launched,
    restarted_run,
)
from fivestar.cli.run_folder import new_run_folder
from fivestar.cli.source import Reading, Source, read_source, reads_a_source
from fivestar.cli.terminal import err, out, resumable_run, warn
from fivestar.cli.training_display import training_display
from fivestar.errors import SettingsError
from fivestar.runs.defaults import GRAPH_DEFAULTS, default_training
from fivestar.runs.settings import ModelSettings, TrainingSettings, make_settings, read_values

if TYPE_CHECKING:
    from fivestar.graph.knowledge_graph import KnowledgeGraph

EXAMPLE = "Example: fivestar train my_graph.csv"
_ADVANCED = "Advanced"
# Shown first by --help, together with --out and --budget.
_COMMON = ("model", "dim", "epochs", "batch_size", "lr", "reg_weight", "num_candidates", "seed")
_SECTIONS: dict[str, type[BaseModel]] = {"model": ModelSettings, "training": TrainingSettings}

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="New folder for the run. (default: runs/GRAPH-MODEL-DATE)",
        show_default=False,
    ),
]
Valid = Annotated[
    float | None,
    typer.Option(
        "--valid",
        help="Facts to hold out for validation if the graph has no valid split: a share (0.1), a "
        "number (2000), or 0 for none. (default: 5 %, at least 100, at most 10,000, and never "
        "more than a fifth)",
        show_default=False,
        rich_help_panel=_ADVANCED,
    ),
]
Negatives = Annotated[
    Path | None,
    typer.Option(
        "--negatives",
        help="File of triples that are false, as negatives of negative-sampling or margin.",
        show_default=False,
        rich_help_panel=_ADVANCED,
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        help="TOML file of settings; flags take precedence.",
        show_default=False,
        rich_help_panel=_ADVANCED,
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        "--resume", help="Resume this run.", show_default=False, rich_help_panel=_ADVANCED
    ),
]

From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="PATH",
        parser=run_argument.path,
        help="Warm start from this run (folder or address), on its graph or a changed one.",
        show_default=False,
        rich_help_panel=_ADVANCED,
    ),
]
Vectors = Annotated[
    str | None,
    typer.Option(
        "--entity-vectors",
        help="Start from these vectors of entities: a file (.parquet, .npz, .npy, .safetensors, or "
        "word2vec as .txt, .vec, .bin) or the folder of a run. Entities without a training fact "
        "are predicted from theirs; labels: only that, from vectors of the labels.",
        metavar="FILE|labels",
        show_default=False,
        rich_help_panel=_ADVANCED,
    ),
]
Freeze = Annotated[
    bool,
    typer.Option(
        "--freeze-entities",
        help="Do not train the vectors of --entity-vectors.",
        rich_help_panel=_ADVANCED,
    ),
]
Method = Annotated[
    Literal["default", "published", "paper"],
    typer.Option(
        "--method",
        "--recipe",
        help="Settings that are not given: our defaults, those that the model was published with, "
        "or those of the 5★E paper (--denominator phase: of its released code).",
        rich_help_panel=_ADVANCED,
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        help="Log each epoch: csv[:FILE], tensorboard[:FOLDER], mlflow[:URI], "
        "wandb[:PROJECT], or a tracker of a package. Repeatable.",
        metavar="NAME[:TARGET]",
        show_default=False,
        rich_help_panel=_ADVANCED,
    ),
]
TensorBoard = Annotated[
    bool,
    typer.Option(
        "--tensorboard", help="The same as --track tensorboard.", rich_help_panel=_ADVANCED
    ),
]


@reads_a_source
def _train(  # noqa: PLR0913
    context: typer.Context,
    source: Source = None,
    *,
    to: Out = None,
    valid: Valid = None,
    negatives: Negatives = None,
    settings_file: SettingsFile = None,
    resume_from: Resume = None,
    begin_from: From = None,
    entity_vectors: Vectors = None,
    freeze_entities: Freeze = False,
    method: Method = "default",
    track: Track = None,
    tensorboard: TensorBoard = False,
    budget: Budget = None,
    budget_models: BudgetModels = None,
    budget_dims: BudgetDims = None,
    processes: Processes = 1,
    reading: Reading,
    **flags: Any,
) -> None:
    """Train a model on a graph, or resume an interrupted run (--resume).

    Defaults depend on the model (fivestar models NAME) and on the size of the graph.
    """
    began = budget_begins()
    if processes > 1 and not launched():
        launch(processes)
    trackers = [*(track or []), *(["tensorboard"] if tensorboard else [])]
    given = {flag: value for flag, value in flags.items() if value is not None}
    restarted = restarted_run(to)
    if restarted is not None:
        _resume_run(restarted, began, trackers, given.get("query_groups"))
        return
    options = given_model_options(context)
    if resume_from is not None:
        if (
            source
            or to
            or settings_file
            or begin_from
            or entity_vectors
            or freeze_entities
            or budget
            or set(given) - {"query_groups"}
            or options
            or valid is not None
            or negatives is not None
        ):
            raise SettingsError(
                "--resume uses the graph and settings of the run: omit all other options but "
                "--processes and --query-groups"
            )
        _resume_run(resume_from, began, trackers, given.get("query_groups"))
        return
    if begin_from is not None:
        begin_from = run_argument.local_folder(begin_from)
    limit = budget_of(budget, budget_models, budget_dims, begin_from)
    if limit is not None and (entity_vectors or freeze_entities):
        raise SettingsError("--budget trains from scratch: omit --entity-vectors")
    refuse_launched(budget, "--budget compares settings")
    file = settings_file or _settings_of(begin_from)
    values, where = _values(file, given, options, method)
    settings = make_settings(values, where)
    graph = _graph(source, begin_from, reading, negatives)
    graph = _with_validation(graph, valid, begin_from, refit=settings.training.refit)
    settings = settings.for_graph(graph)
    if to is None:
        to = new_run_folder(graph.name, settings.model.name, date.today())  # noqa: DTZ011
        to = agreed_folder(to)
        err.print(f"Writing the run to {to}", markup=False, soft_wrap=True)
    if limit is not None:
        with resumable_run(to):
            metrics = train_in_budget(graph, values, to, limit, began, trackers)
        _report(metrics, to)
        return
    from fivestar.training import train as training  # noqa: PLC0415  (slow to import)

    with resumable_run(to), training_display(settings.training.epochs) as shown:
        on_epoch, on_step, on_stage = shown.on_epoch, shown.on_step, shown.on_stage
        run = training.train(
            graph,
            settings,
            to,
            on_epoch,
            on_step,
            begin_from,
            on_stage,
            trackers=trackers,
            entity_vectors=entity_vectors,
            freeze_entities=freeze_entities,
        )
    _report(run.metrics, to)


def _graph(
    source: str | None, begin_from: Path | None, reading: Reading, negatives: Path | None
) -> KnowledgeGraph:
    """Read the graph, or load the one of the run to start from, and print its warnings."""
    from fivestar.graph.negatives import with_negatives  # noqa: PLC0415  (slow to import)
    from fivestar.graph.storage import load_graph  # noqa: PLC0415  (slow to import)

    if source is None and begin_from is not None:
        graph = load_graph(begin_from / "graph")
    else:
        graph = read_source(source, reading)
    for message in graph.report.warnings:
        warn(message)
    return graph if negatives is None else with_negatives(graph, negatives)


def _with_validation(
    graph: KnowledgeGraph, valid: float | None, begin_from: Path | None, *, refit: bool
) -> KnowledgeGraph:
    """Hold out validation facts if the graph has none, and print that."""
    from fivestar.training.validation import with_validation  # noqa: PLC0415  (slow to import)

    validated = with_validation(graph, valid, begin_from)
    if validated.warning:
        warn(validated.warning)
    if validated.held_out:
        text = f"Holding out {validated.held_out:,} of {len(graph.train):,} facts for validation"
        rest = (
            "; only the refit trains on them."
            if refit
            else ". They are not trained on; --refit trains on them afterwards, --valid 0 turns "
            "this off."
        )
        err.print(text + rest, markup=False, soft_wrap=True)
    return validated.graph


def _resume_run(folder: Path, began: float, trackers: list[str], query_groups: int | None) -> None:
    """Resume a run, or a training within a time budget, and report it."""
    if (folder / "manifest.json").exists():
        text = f"{folder} is complete: there is nothing to resume"
        err.print(text, markup=False, soft_wrap=True)
        _report(fivestar.resume(folder).metrics, folder)
        return
    with resumable_run(folder):
        metrics = resume_budget(folder, began, trackers)
        if metrics is None:
            metrics = _resume(folder, trackers, query_groups)
    _report(metrics, folder)


def _resume(folder: Path, trackers: list[str], query_groups: int | None) -> dict[str, Any]:
    from fivestar.runs.run import read_begun_run  # noqa: PLC0415

    _, settings = read_begun_run(folder)
    with training_display(settings.training.epochs) as shown:
        callbacks = {name: getattr(shown, name) for name in ("on_epoch", "on_step", "on_stage")}
        model = fivestar.resume(
            folder, progress=False, trackers=trackers, query_groups=query_groups, **callbacks
        )
        return model.metrics


def _values(
    file: Path | None, given: dict[str, Any], options: dict[str, Any], method: str
) -> tuple[dict[str, Any], str]:
    """Return the settings that are given by a file and by flags, and where they come from."""
    changes: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for flag, value in given.items():
        section = next(s for s, kind in _SECTIONS.items() if _key(s, flag) in kind.model_fields)
        changes[section][_key(section, flag)] = value
    changes["model"] |= options
    if file is None:
        return {**changes, "method": method}, "command line"
    if method != "default":
        raise SettingsError(f"{file} has its own settings; omit --method {method}")
    return read_values(file, changes), str(file)


def _settings_of(run: Path | None) -> Path | None:
    if run is None:
        return None
    if not (run / "settings.toml").is_file():
        raise SettingsError(f"{run} is not the folder of a run: it has no settings.toml")
    return run / "settings.toml"


def _key(section: str, flag: str) -> str:
    """Return the setting of a flag: `--model` is the name, all others have equal names."""
    return "name" if (section, flag) == ("model", "model") else flag


def _report(metrics: dict[str, Any], folder: Path) -> None:
    for kind in ("entities", "relations"):
        if "started_from" in metrics:
            text = _taken_over(kind, **metrics["started_from"][kind])
            out.print(text, markup=False, soft_wrap=True)
    if "entity_vectors" in metrics:
        text = _vectors_used(metrics["entity_vectors"], metrics.get("valid"))
        out.print(text, markup=False, soft_wrap=True)
    text = f"{metrics['epochs']} epochs in {metrics['seconds'] / 60:.1f} minutes"
    if "valid" in metrics:
        text += _validation(metrics)
    if "refit" in metrics:
        refit = metrics["refit"]
        text += (
            f"; refit on {refit['train_triples']:,} facts for {refit['epochs']} epochs (the "
            "validation metrics are those before the refit)"
        )
    out.print(f"{text}; saved {folder}", markup=False, soft_wrap=True)


def _vectors_used(used: dict[str, Any], valid: dict[str, Any] | None) -> str:
    """Return what was taken of given vectors, and what entities without facts got of them."""
    use = "to predict those without a training fact" if used["use"] == "prediction" else used["use"]
    dimension, own = used["dimension"], used["used_dimension"]
    reduced = f", reduced to {own} ({used['explained_variance']:.0%} of the variance)"
    text = (
        f"vectors of {used['source']}: {used['entities']:,} entities "
        f"({use}), {used['without']:,} entities without one, "
        f"{used['unknown_names']:,} unknown names; dimension {dimension}"
        + (reduced if own < dimension else "")
    )
    if used["filled"]:
        text += f"\n{used['filled']:,} entities without a training fact got predicted embeddings"
        if valid is not None:
            before = used["valid_before_filling"]["mrr"]
            text += f": validation MRR {before:.3f} → {valid['mrr']:.3f}"
    return text


def _validation(metrics: dict[str, Any]) -> str:
    size = metrics["validation"]
    sampled = size["ranked"] < size["triples"]
    sample = f", {size['ranked']:,} of {size['triples']:,} validation facts ranked"
    return (
        f"; validation MRR {metrics['valid']['mrr']:.3f}, H@10 {metrics['valid']['hits@10']:.3f} "
        f"(epoch {metrics['best_epoch']}{sample if sampled else ''})"
    )


def _taken_over(kind: str, kept: int, new: int, vanished: int, some_vanished: list[str]) -> str:
    text = f"{kind}: {kept:,} kept, {new:,} new, {vanished:,} vanished"
    more = ", …" if vanished > len(some_vanished) else ""
    return f"{text} ({', '.join(some_vanished)}{more})" if vanished else text


def _shown_default(name: str, default: Any) -> Any:
    """Return the default of a setting for 5★E, as its help text shows it."""
    if name in GRAPH_DEFAULTS:
        return "from the graph"
    return default_training("fivestar", {}).get(name, default)


def _with_flags() -> Callable[..., None]:
    """Return the command with one flag per setting, with its help text and default."""
    signature = inspect.signature(_train, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for section, kind in _SECTIONS.items():
        for name, field in kind.model_fields.items():
            flag = "model" if (section, name) == ("model", "name") else name
            shown = _shown_default(name, field.default)
            default = "" if shown in (None, ()) else f" (default: {shown})"
            dashed = flag.replace("_", "-")
            option = typer.Option(
                f"--{dashed}/--no-{dashed}" if field.annotation is bool else f"--{dashed}",
                help=f"{field.description}{default}",
                show_default=False,
                rich_help_panel=None if flag in _COMMON else f"{_ADVANCED}: {section}",
            )
            # A list is one comma-separated string, which the settings parse.
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

    first = ("to", "budget", *_COMMON)
    parameters.sort(key=lambda p: (p.kind, first.index(p.name) if p.name in first else len(first)))

    def command(**arguments: Any) -> None:
        _train(**arguments)

    command.__doc__ = _train.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


train = _with_flags()
