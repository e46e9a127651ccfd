"""`fivestar reproduce table-…`: the results tables and their ledger."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fivestar.cli.terminal import out as screen
from fivestar.cli.terminal import resumable, warn
from fivestar.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Minutes = Annotated[
    float,
    typer.Option(help="Pause after this many minutes (0: no limit); run again to continue.", min=0),
]
RunMinutes = Annotated[
    float,
    typer.Option(help="Maximum minutes per training (0: no limit).", min=0),
]
Dims = Annotated[
    list[int] | None,
    typer.Option(
        "--dim",
        help="Embedding dimension (repeatable). (default: the smallest of the table)",
        min=1,
        show_default=False,
    ),
]
Models = Annotated[
    str | None,
    typer.Option(help="Models, comma-separated. (default: all)", show_default=False),
]
Graphs = Annotated[
    str | None,
    typer.Option(help="Graphs, comma-separated. (default: all)", show_default=False),
]
Seeds = Annotated[int, typer.Option(help="Number of seeds.", min=1)]
SettingsFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--settings",
        help="Settings file of a model, instead of its recipe (repeatable). With --budget, its "
        "settings are not searched.",
        show_default=False,
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        help="Instead of the recipes: search for the settings of each model on each graph at the "
        "smallest --dim and train with the best, all within this time, as in 35m. Further "
        "seeds and dimensions use what the search has found. The same time for every model makes "
        "a fair comparison.",
        show_default=False,
    ),
]
SearchOn = Annotated[
    str | None,
    typer.Option(
        help="With --budget: search on this graph only, and use what was found on all graphs (the "
        "paper: nell-995-h25).",
        show_default=False,
    ),
]
BudgetClock = Annotated[
    Literal["wall", "cpu"],
    typer.Option(
        help="What a --budget counts: wall time, or the CPU time of one thread, which is the same "
        "on an idle machine and a busy one.",
    ),
]
Precision = Annotated[
    Literal["float32", "tf32", "bf16", "auto"] | None,
    typer.Option(
        help="Precision of the matrix products, instead of that of the recipes (auto: bf16 where "
        "the device and the model support it).",
        show_default=False,
    ),
]
Threads = Annotated[int, typer.Option(help="CPU threads (0: all).", min=0)]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder for the table as .md, .tex and .json.", show_default=False),
]
Ledger = Annotated[
    Path | None,
    typer.Option(
        help="Results ledger. (default: results/ledger.jsonl of this checkout, or the user's own)",
        show_default=False,
    ),
]
Runs = Annotated[Path, typer.Option(help="Folder of the runs; unfinished ones are resumed.")]


def ledger_file(given: Path | None) -> Path:
    """Return the given ledger, that of the enclosing checkout, or the user's own."""
    if given is not None:
        return given
    from fivestar.experiments.ledger import default_ledger  # noqa: PLC0415

    return default_ledger()


@dataclass(frozen=True)
class Wanted:
    """The options of a table."""

    name: str
    minutes: float
    run_minutes: float
    dim: list[int] | None
    models: str | None
    graphs: str | None
    seeds: int
    settings: list[Path] | None
    budget: str | None
    search_on: str | None
    clock: Literal["wall", "cpu"]
    precision: str | None
    threads: int
    out: Path | None
    ledger: Path | None
    runs: Path


def run_table(wanted: Wanted) -> None:
    """Train what is missing, then print and save the table."""
    from fivestar.cli.long_work import WatchedJobs, say  # noqa: PLC0415
    from fivestar.experiments.ledger import read_ledger  # noqa: PLC0415  (slow to import)
    from fivestar.experiments.reproduction import Budget, make_jobs, reproduce  # noqa: PLC0415
    from fivestar.experiments.searches import read_searches  # noqa: PLC0415
    from fivestar.experiments.tables import (  # noqa: PLC0415
        as_markdown,
        fill_table,
        published_table,
        write_table,
    )
    from fivestar.graph.reading import read_graph  # noqa: PLC0415
    from fivestar.runs.settings import read_settings  # noqa: PLC0415
    from fivestar.runs.units import parse_duration  # noqa: PLC0415

    table = published_table(wanted.name)
    place = ledger_file(wanted.ledger)
    dims = wanted.dim or [min(table.dims)]
    training: dict[str, Any] = {"threads": wanted.threads}
    if wanted.precision is not None:
        training["precision"] = wanted.precision
    if wanted.run_minutes:
        training["max_minutes"] = wanted.run_minutes
    models = _some_of(table.labels, wanted.models, "--models")
    graphs = _some_of(table.graphs, wanted.graphs, "--graphs")
    files = {read_settings(file).model.name: file for file in wanted.settings or ()}
    idle = sorted(set(files) - set(models))
    if idle:
        raise SettingsError(
            f"--settings for {', '.join(idle)}, which is not among the models to train"
        )
    seconds = 0.0 if wanted.budget is None else parse_duration(wanted.budget)
    _check_search(wanted, seconds, graphs)
    budget = Budget(seconds, wanted.clock, wanted.search_on) if seconds else None
    jobs = make_jobs(graphs, models, dims, range(wanted.seeds), training, files, budget)
    with resumable(f"run the same command again to resume: finished runs are in {place}"):
        outcome = reproduce(
            jobs,
            place,
            wanted.runs,
            table.name,
            read_graph,
            WatchedJobs(),
            wanted.minutes,
        )
    if outcome.remaining:
        say(f"{len(outcome.remaining)} of {len(jobs)} runs left; run the same command again")
    if outcome.failed:
        warn(f"{len(outcome.failed)} runs diverged; their cells stay empty")
    found = fill_table(table, read_ledger(place), dims, read_searches(place))
    typer.echo(as_markdown(found), nl=False)
    if wanted.out is not None:
        for path in write_table(found, wanted.out):
            say(f"saved {path}")


def _check_search(wanted: Wanted, seconds: float, graphs: Sequence[str]) -> None:
    """Raise SettingsError if the options of a search contradict each other."""
    if seconds and wanted.run_minutes:
        raise SettingsError("--budget limits the time of the trainings: omit --run-minutes")
    if wanted.search_on is not None and (not seconds or wanted.search_on not in graphs):
        raise SettingsError("--search-on needs a --budget, and a graph that is among the --graphs")
    if wanted.clock == "cpu" and (not seconds or wanted.threads != 1):
        raise SettingsError("--clock cpu counts the time of one thread: add --budget, --threads 1")


def _some_of(all_names: Iterable[str], text: str | None, option: str) -> list[str]:
    """Return the names in a comma-separated option, or all."""
    known = list(all_names)
    if text is None:
        return known
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    if not wanted or not set(wanted) <= set(known):
        raise SettingsError(f"{option} {text}: choose from {', '.join(known)}")
    return wanted


def compare(
    first: Annotated[str, typer.Argument(help="First model.")],
    second: Annotated[str, typer.Argument(help="Second model.")],
    *,
    graph: Annotated[str | None, typer.Option(help="Only this graph.", show_default=False)] = None,
    ledger: Ledger = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compare two models by a paired test on the ranks recorded in the ledger."""
    from fivestar.experiments.comparisons import (  # noqa: PLC0415  (slow to import)
        COMPARISON_COLUMNS,
        compare_models,
    )
    from fivestar.experiments.ledger import read_ledger  # noqa: PLC0415
    from fivestar.experiments.results import markdown_table  # noqa: PLC0415
    from fivestar.experiments.searches import read_searches  # noqa: PLC0415

    place = ledger_file(ledger)
    graphs = [graph] if graph else []
    searches = read_searches(place)
    found = compare_models(read_ledger(place), place.parent, first, second, graphs, searches)
    if not found:
        raise SettingsError(
            f"{place}: no graph and dimension has a run of both {first} and {second}"
        )
    if as_json:
        typer.echo(json.dumps([each.as_json() for each in found], indent=1))
        return
    typer.echo(markdown_table([list(COMPARISON_COLUMNS), *(each.as_row() for each in found)]))


def results(
    *,
    ledger: Ledger = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write. (default: standard output)", show_default=False),
    ] = None,
) -> None:
    """Generate the results page from the ledger."""
    from fivestar.experiments.results import results_page  # noqa: PLC0415  (slow to import)
    from fivestar.files import write_atomic  # noqa: PLC0415

    page = results_page(ledger_file(ledger))
    if out is None:
        typer.echo(page, nl=False)
    else:
        write_atomic(out, page.encode())


def record(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    *,
    ledger: Ledger = None,
    experiment: Annotated[str, typer.Option(help="Experiment name.")] = "by hand",
    note: Annotated[
        str | None, typer.Option(help="Note for the ledger.", show_default=False)
    ] = None,
) -> None:
    """Evaluate a run on test, once, and add it to the ledger."""
    from fivestar.experiments import ledger as ledgers  # noqa: PLC0415  (slow to import)
    from fivestar.runs.run import load_run  # noqa: PLC0415

    place = ledger_file(ledger)
    more = {} if note is None else {"note": note}
    entry, is_new = ledgers.record(load_run(run), place, experiment, more)
    if not is_new:
        warn("these settings and this seed are in the ledger already; showing the recorded result")
    text = f"test MRR {entry.test.mrr:.4f} (validation {entry.valid.mrr:.4f}), in {place}"
    screen.print(text, markup=False, soft_wrap=True)
