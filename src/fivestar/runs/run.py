"""The folder of a run: self-contained, hashed, and never half written.

settings.toml         every setting, defaults filled in
graph/                the graph that was trained on, in our own form
checkpoint.safetensors  where training can go on
origin.safetensors    what a run with --from and --refit begins with, until it is complete
model.safetensors     the trained tables
metrics.json  history.jsonl  README.md
snapshots/            the tables at chosen epochs
trials.jsonl          the settings that were compared, if there was a time budget
tensorboard/          the history for TensorBoard, if asked for
manifest.json         the hashes of the files that matter; written last
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, load_file

from fivestar.errors import DamagedRun, SourceNotFound
from fivestar.files import atomic_folder, write_atomic
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.storage import load_graph, save_graph
from fivestar.models.base import Model
from fivestar.models.registry import make_model
from fivestar.runs.defaults import as_saved
from fivestar.runs.settings import Settings, make_settings, read_values
from fivestar.runs.tensors import write_tensors
from fivestar.version import __version__

CHECKPOINT = "checkpoint.safetensors"
HISTORY = "history.jsonl"
MANIFEST = "manifest.json"
SNAPSHOTS = "snapshots"
# Of a training within a time budget: all trials, and what it works with until it ends.
TRIALS = "trials.jsonl"
WORK = "search"
FORMAT = "fivestar-run"
VERSION = 1
_HITS = ("hits@1", "hits@3", "hits@10")


@dataclass(frozen=True)
class Run:
    """A trained model with the graph and settings it comes from."""

    graph: KnowledgeGraph
    settings: Settings
    model: Model
    metrics: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the run into a new folder, for `load` and every command."""
        save_run(self, begin_run(self.graph, self.settings, folder))


def build_model(graph: KnowledgeGraph, settings: Settings) -> Model:
    """The model that these settings describe, for this graph."""
    chosen = settings.model
    relations = len(graph.relations) * (2 if settings.training.reciprocals else 1)
    model = make_model(chosen.name, len(graph.entities), relations, chosen.dim, **chosen.options)
    return model.eval()


def begin_run(graph: KnowledgeGraph, settings: Settings, folder: str | os.PathLike[str]) -> Path:
    """Make the folder of a run that is about to be trained; an existing one is never touched."""
    with atomic_folder(folder) as draft:
        save_graph(graph, draft / "graph")
        write_atomic(draft / "settings.toml", settings.as_toml().encode())
    return Path(folder)


def read_begun_run(folder: Path) -> tuple[KnowledgeGraph, Settings]:
    """The graph and settings of a run, whether its training has ended or not."""
    if not (folder / "settings.toml").is_file():
        raise SourceNotFound(f"{folder} is not the folder of a run: it has no settings.toml")
    path = folder / "settings.toml"
    settings = make_settings(as_saved(read_values(path)), str(path))
    return load_graph(folder / "graph"), settings


def save_run(run: Run, folder: Path) -> None:
    """Write what training has given; the manifest comes last and makes the run complete."""
    write_tensors(folder / "model.safetensors", run.model.state_dict())
    save_history(run.history, folder)
    for name, content in {
        "metrics.json": json.dumps(run.metrics, indent=1).encode(),
        "README.md": _card(run, _read_trials(folder)).encode(),
    }.items():
        write_atomic(folder / name, content)
    hashed = sorted(path for path in folder.rglob("*") if _is_hashed(path, folder))
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "fivestar": __version__,
        "files": {path.relative_to(folder).as_posix(): _sha256(path) for path in hashed},
    }
    write_atomic(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def save_history(history: list[dict[str, Any]], folder: Path) -> None:
    """Write all lines of history so far."""
    text = "".join(json.dumps(line) + "\n" for line in history)
    write_atomic(folder / HISTORY, text.encode())


def save_snapshot(model: Model, folder: Path, epoch: int) -> None:
    """Keep the tables of an epoch."""
    (folder / SNAPSHOTS).mkdir(exist_ok=True)
    write_tensors(_snapshot(folder, epoch), model.state_dict())


def load_run(
    folder: str | os.PathLike[str], epoch: int | None = None, *, mapped: bool = False
) -> Run:
    """A trained run, refused if anything in its folder has changed.

    With `epoch`, the model is the snapshot of that epoch (see `snapshot-epochs`). If `mapped`, the
    tables stay in their file and are not to be changed: all processes of a machine share them.
    """
    place = Path(folder)
    verified_files(place)
    graph, settings = read_begun_run(place)
    model = build_model(graph, settings)
    tables = place / "model.safetensors" if epoch is None else _snapshot(place, epoch)
    if not tables.exists():
        kept = ", ".join(map(str, settings.training.snapshot_epochs)) or "none"
        raise SourceNotFound(f"{place} has no snapshot of epoch {epoch}; it has {kept}")
    try:
        if mapped:
            model.load_state_dict(load_file(tables), assign=True)
        else:
            model.load_state_dict(load(tables.read_bytes()))
        metrics = json.loads((place / "metrics.json").read_bytes())
        history = [json.loads(x) for x in (place / HISTORY).read_text().splitlines()]
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise DamagedRun(f"{place}: does not fit together ({error}); train it again") from error
    return Run(graph, settings, model, metrics, history)


def verified_files(folder: Path) -> list[str]:
    """The files that the manifest of a run lists, refused if any of them has changed."""
    if not folder.is_dir():
        raise SourceNotFound(f"no folder {folder}; give the folder of a run (fivestar train --out)")
    path = folder / MANIFEST
    if not path.is_file():
        advice = "its training has not ended: fivestar train --resume"
        raise DamagedRun(f"{folder}: has no manifest.json; {advice} {folder}")
    try:
        manifest = json.loads(path.read_bytes())
        files = dict(manifest["files"])
        kind, version = manifest["format"], manifest["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedRun(f"{path}: is no manifest of ours ({error})") from error
    if kind != FORMAT or version != VERSION:
        raise DamagedRun(
            f"{path}: {kind} of version {version!r}, this fivestar reads {FORMAT} {VERSION}"
        )
    for name, digest in files.items():
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise DamagedRun(f"{path}: names a file outside of the folder: {name!r}")
        if not file.is_file():
            raise DamagedRun(f"{file}: is missing; restore it or train again")
        if _sha256(file) != digest:
            raise DamagedRun(f"{file}: has changed since it was written; restore it or train again")
    return list(files)


def _snapshot(folder: Path, epoch: int) -> Path:
    return folder / SNAPSHOTS / f"epoch-{epoch}.safetensors"


def _is_hashed(path: Path, folder: Path) -> bool:
    """All but what may change without harm, and what a killed process left unfinished."""
    first = path.relative_to(folder).parts[0]
    return (
        path.is_file()
        and first not in {MANIFEST, CHECKPOINT, WORK, "tensorboard"}
        and not path.name.startswith(".")
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_trials(folder: Path) -> list[dict[str, Any]]:
    path = folder / TRIALS
    return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []


def _trials_table(trials: list[dict[str, Any]]) -> list[str]:
    """Return the settings that were compared within a time budget, as a table."""
    lines = [
        "## Trials",
        "",
        "| trial | model | settings | rung | epochs | minutes | valid MRR | |",
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    for trial in trials:
        settings = ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in trial["settings"].items()
        )
        mrr = trial.get("valid_mrr")
        cells = [trial["trial"], trial["model"], settings, trial["rung"], trial["epochs"]]
        cells += [trial.get("minutes", ""), "" if mrr is None else f"{mrr:.4f}", trial["state"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, ""]


def _card(run: Run, trials: list[dict[str, Any]]) -> str:
    """A model card in the style of Hugging Face."""
    model, graph = run.settings.model, run.graph
    size = (
        f"{len(graph.entities):,} entities, {len(graph.relations):,} relations, "
        f"{len(graph.train):,} training triples. {run.metrics.get('epochs', 0)} epochs in "
        f"{run.metrics.get('seconds', 0) / 60:.1f} minutes."
    )
    lines = [
        "---",
        "library_name: fivestar-kge",
        "tags: [knowledge-graph-embeddings, link-prediction]",
        "---",
        f"# {model.name}, dimension {model.dim}, on {graph.name}",
        "",
        size,
        "",
    ]
    if "valid" in run.metrics:
        figures = [f"{run.metrics['valid'][key]:.3f}" for key in ("mrr", *_HITS)]
        lines += [
            *_validation_notes(run.metrics),
            "| split | MRR | H@1 | H@3 | H@10 |",
            "|---|---|---|---|---|",
            f"| valid | {' | '.join(figures)} |",
            "",
        ]
        rate = run.metrics["valid"].get("self_answer_rate")
        if rate is not None:  # runs of older versions have none
            meaning = "queries whose own entity outranks the target"
            lines += [f"Self-answer rate on valid: {rate:.1%} ({meaning}).", ""]
    if "budget" in run.metrics and trials:
        lines += _trials_table(trials)
    return "\n".join([*lines, "```toml", run.settings.as_toml(), "```", ""])


def _validation_notes(metrics: dict[str, Any]) -> list[str]:
    """Return what the table of metrics does not say: on how many triples, and of which model."""
    notes = []
    size = metrics.get("validation", {})
    if size.get("ranked") != size.get("triples"):
        notes += [f"Ranked: {size['ranked']:,} of {size['triples']:,} validation triples.", ""]
    if "refit" in metrics:
        refit = metrics["refit"]
        text = (
            f"Refit on {refit['train_triples']:,} triples (train and valid) for {refit['epochs']} "
            "epochs; the metrics are those of the model before the refit, which was not trained on "
            "the validation triples."
        )
        notes += [text, ""]
    return notes
