"""`fivestar train --budget`: options, display and report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from fivestar.cli.long_work import describe_settings, epoch_lines, say
from fivestar.cli.terminal import err, out
from fivestar.errors import SettingsError

if TYPE_CHECKING:
    from fivestar.graph.knowledge_graph import KnowledgeGraph
    from fivestar.training.search.budget_state import BudgetWatcher, Clock, Finalist
    from fivestar.training.search.trials import Tried

    Callbacks = tuple[Callable[[dict[str, Any]], None], Callable[[float], None]]

_PANEL = "Advanced"
Budget = Annotated[
    str | None,
    typer.Option(
        help="Search for settings by validation and train with the best, all within this time, "
        "as in 90s, 10m or 1h30m. Settings given as flags are not searched.",
        show_default=False,
    ),
]
BudgetModels = Annotated[
    str | None,
    typer.Option(
        help="With --budget: models to choose from, as in fivestar,complex.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
BudgetDims = Annotated[
    str | None,
    typer.Option(
        help="With --budget: dimensions to choose from, as in 50,100,200.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


_counted_from: list[float] = []


def count_from(called_at: float | None) -> None:
    """Let the time of a budget count from the call of the command, before its modules load."""
    _counted_from[:] = [] if called_at is None else [called_at]


def budget_begins() -> float:
    """Return from when the time of a budget counts, on the clock `time.monotonic`."""
    return _counted_from[0] if _counted_from else time.monotonic()


class BudgetOptions(NamedTuple):
    """The values of the flags."""

    budget: str
    models: tuple[str, ...]
    dims: tuple[int, ...]


def budget_of(
    budget: str | None, models: str | None, dims: str | None, begin_from: Path | None
) -> BudgetOptions | None:
    """Return the budget that the flags give; None if they give none."""
    if budget is None:
        if models or dims:
            raise SettingsError("--budget-models and --budget-dims need a --budget, as in 10m")
        return None
    if begin_from is not None:
        raise SettingsError("--budget trains from scratch: omit --from")
    names = tuple(name.strip() for name in (models or "").split(",") if name.strip())
    return BudgetOptions(budget, names, _numbers(dims))


def train_in_budget(
    graph: KnowledgeGraph,
    values: Mapping[str, Any],
    to: Path,
    options: BudgetOptions,
    began: float,
    trackers: Sequence[str],
) -> dict[str, Any]:
    """Run `fivestar train --budget` and return the metrics; the time counts from `began`."""
    from fivestar.training.search.time_budget import train_within  # noqa: PLC0415  (slow to import)
    from fivestar.training.trackers.tracking import Tracking  # noqa: PLC0415
    from fivestar.training.train import track_trained  # noqa: PLC0415

    tracking = Tracking(trackers)
    with _display() as display:
        used = time.monotonic() - began
        run = train_within(
            graph, values, options.budget, to, display, options.models, options.dims, used
        )
    track_trained(run, to, tracking)
    _report(run.metrics["budget"])
    return run.metrics


def resume_budget(folder: Path, began: float, trackers: Sequence[str]) -> dict[str, Any] | None:
    """Continue a run within its budget and return the metrics; None if it has no budget."""
    from fivestar.training.search.time_budget import (  # noqa: PLC0415  (slow to import)
        has_budget,
        resume_within,
    )
    from fivestar.training.trackers.tracking import Tracking  # noqa: PLC0415
    from fivestar.training.train import track_trained  # noqa: PLC0415

    if not has_budget(folder):
        return None
    tracking = Tracking(trackers)
    with _display() as display:
        run = resume_within(folder, display, time.monotonic() - began)
    track_trained(run, folder, tracking)
    _report(run.metrics["budget"])
    return run.metrics


def _report(budget: dict[str, Any]) -> None:
    from fivestar.runs.units import format_duration  # noqa: PLC0415

    used, seconds = format_duration(budget["seconds_used"]), format_duration(budget["seconds"])
    chosen = ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in budget["winner"].items()
    )
    text = f"{used} of {seconds} used, {budget['trials']} settings tried; best: {chosen}"
    default = budget["default_valid_mrr"]
    if budget["winner_is_default"]:
        text += " (the defaults)"
    elif default is not None:
        text += f" (the defaults: validation MRR {default:.3f})"
    out.print(text, markup=False, soft_wrap=True)


def _numbers(text: str | None) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in (text or "").split(",") if part)
    except ValueError:
        numbers = (0,)
    if any(number < 1 for number in numbers):
        raise SettingsError(f"--budget-dims {text}: give whole numbers above 0, as in 50,100,200")
    return numbers


@contextmanager
def _display() -> Iterator[_Display]:
    columns = (TextColumn("{task.fields[time]}"), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        yield _Display(bar, bar.add_task("measuring the speed", time="", total=1.0))


def budget_lines() -> BudgetWatcher:
    """Return a display of lines only, for one of many runs."""
    bar = Progress(console=err, disable=True)
    return _Display(bar, bar.add_task(""))


class _Display:
    """A bar of the time on a terminal, and a line per trial everywhere."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task = bar, task
        self._clock: Clock | None = None
        # The best validation MRR of the longest trials, after how many epochs.
        self._best = (0, 0.0)

    def clock(self, clock: Clock) -> None:
        """Take the clock of the run."""
        self._clock = clock

    def message(self, text: str) -> None:
        """Print a line with the time."""
        say(f"{self._time()}  {text}")

    def begins(self, number: int, point: dict[str, Any], epochs: int) -> Callbacks:
        """Show which trial is trained."""
        best = f"; best {self._best[1]:.4f}" if self._best[0] else ""
        return self._training(f"trial {number}: {describe_settings(point)}", epochs, best)

    def ended(self, tried: Tried) -> None:
        """Print the result of a trial."""
        if tried.rungs:
            last = tried.rungs[-1]
            self._best = max(self._best, (last["epochs"], last["valid_mrr"]))
            text = f"validation MRR {last['valid_mrr']:.4f} after {last['epochs']} epochs"
        else:
            text = tried.state
        why = f": {tried.why}" if tried.why else ""
        self.message(f"trial {tried.number} ({describe_settings(tried.point)}): {text}{why}")

    def final(self, finalist: Finalist) -> Callbacks:
        """Announce a training to the end."""
        epochs = finalist.settings.training.epochs
        whose = "the defaults" if finalist.is_default else describe_settings(finalist.point)
        self.message(f"training with {whose} for {epochs} epochs")
        return self._training(f"training with {whose}", epochs, "")

    def _training(self, text: str, epochs: int, best: str) -> Callbacks:
        if not err.is_terminal:
            on_epoch, on_step = epoch_lines(epochs)
            # The result of a trial is a line of its own.
            return (lambda _: None) if text.startswith("trial") else on_epoch, on_step

        def step(done: float) -> None:
            share = self._clock.used() / self._clock.seconds if self._clock else 0.0
            shown = f"{text}, {done:.1f} of {epochs} epochs{best}"
            self._bar.update(self._task, completed=share, description=shown, time=self._time())

        def epoch(line: dict[str, Any]) -> None:
            nonlocal best
            if "valid_mrr" in line:
                best = f"; validation MRR {line['valid_mrr']:.4f}"

        return epoch, step

    def _time(self) -> str:
        from fivestar.runs.units import format_duration  # noqa: PLC0415

        if self._clock is None:
            return ""
        used, seconds = format_duration(self._clock.used()), format_duration(self._clock.seconds)
        return f"{used} of {seconds}"
