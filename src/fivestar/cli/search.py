"""`fivestar search`: hyperparameter search by validation MRR."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import fivestar
from fivestar.cli.tables import print_table, prose_column
from fivestar.cli.terminal import out as screen
from fivestar.cli.terminal import resumable, warn

if TYPE_CHECKING:
    from fivestar.prediction.train import SearchResult
    from fivestar.runs.settings import Settings

EXAMPLE = "Example: fivestar search nell-995-h25 --dim 100 --trials 12 --minutes 60 --out best.toml"


def search(  # noqa: PLR0913
    graph: Annotated[str, typer.Argument(help="Graph, as for fivestar train.")],
    *,
    model: Annotated[
        str | None,
        typer.Option(help="Model. (default: fivestar, or the one in --settings)"),
    ] = None,
    space: Annotated[
        str, typer.Option(help="Search space: paper, small, or a TOML file.")
    ] = "small",
    trials: Annotated[int, typer.Option(help="Total number of trials in the study.", min=1)] = 12,
    minutes: Annotated[
        float, typer.Option(help="Stop after this many minutes (0: no limit).", min=0)
    ] = 0,
    trial_minutes: Annotated[
        float, typer.Option(help="Maximum minutes per trial (0: no limit).", min=0)
    ] = 0,
    sampler: Annotated[
        Literal["tpe", "grid"],
        typer.Option(help="Sampler: TPE or the full grid."),
    ] = "tpe",
    pruner: Annotated[
        Literal["median", "halving", "none"],
        typer.Option(
            help="median: stop trials below the median. halving: keep about the best third after "
            "1/9 and 1/3 of the epochs. none: train all trials to the end."
        ),
    ] = "median",
    settings_file: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            help="TOML file with the settings that are not searched.",
            show_default=False,
        ),
    ] = None,
    dim: Annotated[
        int | None,
        typer.Option(help="Embedding dimension (not searched).", min=1, show_default=False),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Maximum epochs per trial.", min=1, show_default=False)
    ] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(help="Epochs between validations.", min=1, show_default=False)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Random seed of the trials and the sampler.", show_default=False),
    ] = None,
    storage: Annotated[
        Path | None,
        typer.Option(
            help="Study journal, shared by all processes of the search. "
            "(default: searches/GRAPH-MODEL.journal)",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="TOML file for the best settings, updated after each trial.", show_default=False
        ),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(
            help="Folder for plots of the history and parameter importance.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Search hyperparameters by validation MRR; resume a study or join a running one."""
    from fivestar.cli.long_work import WatchedTrials  # noqa: PLC0415
    from fivestar.graph.reading import read_graph  # noqa: PLC0415
    from fivestar.training.search.space import read_space  # noqa: PLC0415

    training = {"epochs": epochs, "evaluate_every": evaluate_every, "seed": seed}
    read = read_graph(graph)
    base = _base(read.name, settings_file, {"name": model, "dim": dim}, training)
    searched = read_space(space, read.name)
    storage = storage or Path("searches") / f"{read.name}-{base.model.name}.journal"
    with resumable(f"run the same command again to resume: the trials so far are in {storage}"):
        result = fivestar.search(
            read,
            base,
            space=searched if dim is None else searched.without("model.dim"),
            trials=trials,
            minutes=minutes,
            trial_minutes=trial_minutes,
            sampler=sampler,
            pruner=pruner,
            storage=storage,
            out=out,
            watcher=WatchedTrials(),
        )
    if plots is not None:
        _draw(result, plots)
    if as_json:
        listed = [asdict(trial) for trial in result.trials]
        typer.echo(json.dumps({"trials": listed, "importance": result.importances}, indent=1))
        return
    _show(result, out)


def _base(
    graph: str, file: Path | None, model: dict[str, Any], training: dict[str, Any]
) -> Settings:
    from fivestar.experiments.reproduction import recipe  # noqa: PLC0415  (slow to import)

    changes = {
        "model": {name: value for name, value in model.items() if value is not None},
        "training": {name: value for name, value in training.items() if value is not None},
    }
    return recipe(graph, model["name"] or "fivestar", changes, file)


def _show(result: SearchResult, out: Path | None) -> None:
    from fivestar.cli.long_work import describe_settings  # noqa: PLC0415

    rows = []
    for tried in sorted(result.trials, key=lambda t: (t.state != "complete", -(t.mrr or 0))):
        mrr = "" if tried.mrr is None else f"{tried.mrr:.4f}"
        epochs = "" if tried.epochs is None else str(tried.epochs)
        rows.append((str(tried.number), tried.state, mrr, epochs, describe_settings(tried.point)))
    print_table(("trial", "", "valid MRR", "epochs", prose_column("settings")), rows)
    best = result.best
    if best is None:
        warn("no trial is complete yet")
        return
    where = f"; its settings are in {out}" if out else ""
    text = f"best: trial {best.number}, validation MRR {best.mrr:.4f}{where}"
    screen.print(text, markup=False, soft_wrap=True)


def _draw(result: SearchResult, folder: Path) -> None:
    from fivestar.analysis.plots.search import history, importance  # noqa: PLC0415
    from fivestar.analysis.plots.style import save_figure  # noqa: PLC0415  (slow to import)

    folder.mkdir(parents=True, exist_ok=True)
    save_figure(history(result.trials), folder / "history.png")
    if result.importances:
        save_figure(importance(result.importances), folder / "importance.png")
    else:
        warn("too few different trials to estimate parameter importance")
