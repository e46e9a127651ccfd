"""The results ledger: one line per run that was evaluated on test, and each run only once.

One JSON object per line, append-only; the ranks are saved beside it in `ranks/`, so that models can
be compared query by query. `record` is the only way to add a run: it evaluates on test once per
dataset, settings and seed, and returns the recorded line from then on.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from platformdirs import user_data_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fivestar.errors import DamagedLedger, SettingsError
from fivestar.evaluation.report import evaluate
from fivestar.experiments.saved_ranks import save_ranks
from fivestar.files import file_lock, make_folder, write_atomic
from fivestar.runs.defaults import as_saved, baseline
from fivestar.runs.identity import HASH_DIGITS, hash_of, learned_settings, settings_hash
from fivestar.runs.run import Run
from fivestar.runs.settings import Settings, make_settings
from fivestar.version import __version__

METRICS = ("mrr", "hits@1", "hits@3", "hits@10")
_IN_CHECKOUT = Path("results") / "ledger.jsonl"
_TIES = ("mrr_optimistic", "mrr_pessimistic")


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Metrics(_Line):
    """The metrics of a split: realistic ranks of heads and tails together."""

    mrr: float = Field(ge=0, le=1)
    hits_1: float = Field(ge=0, le=1, alias="hits@1")
    hits_3: float = Field(ge=0, le=1, alias="hits@3")
    hits_10: float = Field(ge=0, le=1, alias="hits@10")
    mrr_95: tuple[float, float] | None = None
    # Missing in the first lines.
    mrr_optimistic: float | None = None
    mrr_pessimistic: float | None = None

    def headline(self) -> dict[str, float]:
        """Return MRR and hits by their usual names."""
        return {
            "mrr": self.mrr,
            "hits@1": self.hits_1,
            "hits@3": self.hits_3,
            "hits@10": self.hits_10,
        }


class Entry(_Line):
    """A line of the ledger: a run and its results."""

    experiment: str
    model: str
    data: str
    dim: int = Field(ge=1)
    settings: str = Field(pattern=f"^[0-9a-f]{{{HASH_DIGITS}}}$")
    seed: int = Field(ge=0)
    epochs: int = Field(ge=0)
    best_epoch: int = Field(ge=0)
    minutes: float = Field(ge=0)
    machine: str
    commit: str
    date: str
    valid: Metrics
    test: Metrics
    # `settings` is their hash.
    settings_values: dict[str, dict[str, Any]]
    # Only in the first lines: the hash of the whole settings file, including seed and threads.
    settings_file: str | None = None
    fivestar: str | None = None
    # Validation curve: epoch, minutes, MRR. Missing in the first lines.
    curve: tuple[tuple[int, float, float], ...] | None = None
    # Name of the file in `ranks/`, if the ranks were saved.
    ranks: str | None = None
    # If several candidate settings were compared: the best one, and the validation MRR of all.
    recipe: str | None = None
    valid_mrr_of_all: dict[str, float] | None = None
    failed: dict[str, str] | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _hash_fits(self) -> Entry:
        if hash_of(self.settings_values) != self.settings:
            raise ValueError("settings is not the hash of settings_values")
        return self

    @property
    def key(self) -> tuple[str, str, int]:
        """Dataset, settings and seed, which are evaluated on test once."""
        return (self.data, self.settings, self.seed)

    def as_line(self) -> str:
        """Return the line as JSON, with its line break."""
        values = self.model_dump(by_alias=True, exclude_none=True, mode="json")
        return json.dumps(values, ensure_ascii=False) + "\n"


def settings_of(entry: Entry) -> Settings:
    """Return the settings of a recorded run, with all defaults filled in.

    `settings_of(entry).as_toml()` is a settings file that trains the same way.
    """
    model = {"name": entry.model, "dim": entry.dim, **entry.settings_values["model"]}
    sections = as_saved({"model": model, "training": entry.settings_values["training"]})
    training = {**baseline()["training"], **sections["training"], "seed": entry.seed}
    return make_settings({**sections, "training": training}, entry.experiment)


def read_ledger(path: Path) -> list[Entry]:
    """Read and validate all lines; none if the file does not exist.

    Raises:
        DamagedLedger: A line is invalid, or repeats the dataset, settings and seed of another.
    """
    entries = []
    seen: dict[tuple[str, str, int], int] = {}
    for number, line in enumerate(_lines(path), start=1):
        entry = _parsed(line, path, number)
        if entry.key in seen:
            raise DamagedLedger(
                f"{path}, line {number}: evaluates the data, settings and seed of line "
                f"{seen[entry.key]} again; only the first result counts: remove line {number}"
            )
        seen[entry.key] = number
        entries.append(entry)
    return entries


def find_entry(path: Path, data: str, settings: Settings) -> Entry | None:
    """Return the line of a run with these settings and their seed, if there is one."""
    key = (data, settings_hash(settings), settings.training.seed)
    return next((entry for entry in read_ledger(path) if entry.key == key), None)


def record(
    run: Run, path: Path, experiment: str, more: Mapping[str, Any] | None = None
) -> tuple[Entry, bool]:
    """Evaluate a run on test and add it to the ledger, unless it is recorded already.

    The ledger is locked until the line is written, so that only one of several processes evaluates.

    Args:
        run: A run that was trained from scratch, on a graph with valid and test triples.
        path: The ledger; created if it does not exist.
        experiment: Name of the experiment.
        more: Further fields of the line, as `note`.

    Returns:
        The line, and whether it is new.

    Raises:
        SettingsError: The run was warm-started, or its graph lacks valid or test triples.
    """
    if "started_from" in run.metrics:
        raise SettingsError(
            "the ledger holds runs that were trained from scratch; this one was warm-started from "
            "another run, so its settings do not determine what it has learned"
        )
    if not len(run.graph.valid) or not len(run.graph.test):
        raise SettingsError(f"{run.graph.name} has no validation or no test triples to evaluate")
    make_folder(path.parent)
    with file_lock(_lock_of(path)):
        old = find_entry(path, run.graph.name, run.settings)
        if old is not None:
            return old, False
        entry = _evaluated(run, path, experiment, more or {})
        _append(entry, path)
    return entry, True


def append(entry: Entry, path: Path) -> None:
    """Append a line.

    Raises:
        DamagedLedger: The ledger has a line of the same dataset, settings and seed.
    """
    make_folder(path.parent)
    with file_lock(_lock_of(path)):
        if any(old.key == entry.key for old in read_ledger(path)):
            raise DamagedLedger(f"{path}: already has a line of this data, settings and seed")
        _append(entry, path)


def _evaluated(run: Run, path: Path, experiment: str, more: Mapping[str, Any]) -> Entry:
    evaluation = evaluate(run.model, run.graph, run.graph.test)
    settings, metrics = run.settings, run.metrics
    here = provenance()
    threads = settings.training.threads or torch.get_num_threads()
    line = {
        "experiment": experiment,
        "model": settings.model.name,
        "data": run.graph.name,
        "dim": settings.model.dim,
        "settings": settings_hash(settings),
        "seed": settings.training.seed,
        "epochs": metrics["epochs"],
        "best_epoch": metrics["best_epoch"],
        "minutes": round(metrics["seconds"] / 60, 2),
        **here,
        "machine": f"{here['machine']}, {threads} threads",
        "valid": _recorded_metrics(metrics["valid"]),
        "test": _recorded_metrics(evaluation.metrics()),
        "settings_values": learned_settings(settings),
        "curve": _curve(run.history),
        "fivestar": __version__,
        **more,
    }
    entry = Entry.model_validate(line)
    return entry.model_copy(update={"ranks": save_ranks(evaluation, entry.key, path.parent)})


def _curve(history: Sequence[Mapping[str, Any]]) -> list[tuple[int, float, float]]:
    return [
        (line["epoch"], round(line["seconds"] / 60, 2), round(line["valid_mrr"], 6))
        for line in history
        if "valid_mrr" in line
    ]


def _recorded_metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    rounded = {key: round(metrics[key], 6) for key in (*METRICS, *_TIES)}
    return rounded | {"mrr_95": [round(bound, 6) for bound in metrics["mrr_95"]]}


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _lines(path: Path) -> list[bytes]:
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DamagedLedger(f"{path}: cannot be read: {error.strerror}") from error
    if lines and _is_unfinished(lines[-1]):
        lines.pop()
    return lines


def _is_unfinished(line: bytes) -> bool:
    """Return whether the last line was cut off while it was written, so it was never reported."""
    if line.endswith(b"\n"):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _parsed(line: bytes, path: Path, number: int) -> Entry:
    try:
        return _validated(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the line"
        problem = f"{field}: {first['msg']}"
    except (ValueError, RecursionError) as error:
        problem = f"is not JSON: {error}"
    raise DamagedLedger(f"{path}, line {number}: {problem}; restore the line as it was written")


@cache
def _validated(line: bytes) -> Entry:
    """Validate a line once per process: the ledger is read again before each run."""
    return Entry.model_validate(json.loads(line))


def _append(entry: Entry, path: Path) -> None:
    """Add a line; the file is replaced, so that there is never a part of a line."""
    lines = b"".join(_lines(path))
    if lines and not lines.endswith(b"\n"):
        lines += b"\n"
    write_atomic(path, lines + entry.as_line().encode())


def default_ledger() -> Path:
    """Return the ledger of the checkout around the current folder, or else the user's own."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / _IN_CHECKOUT).is_file():
            return folder / _IN_CHECKOUT
    return user_data_path("fivestar", appauthor=False) / "ledger.jsonl"


def provenance() -> dict[str, str]:
    """Return the commit (outside of a checkout: the version), the machine and the date."""
    return {
        "commit": _commit() or f"version {__version__}",
        "machine": f"{os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}",
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
    }


def _commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "rev-parse", "--short", "HEAD"]
    here = Path(__file__).parent
    done = subprocess.run(command, cwd=here, check=False, capture_output=True, text=True)  # noqa: S603
    return done.stdout.strip() or None
