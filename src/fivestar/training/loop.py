"""The training loop: epochs of steps, validations, checkpoints, and a reason to stop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fivestar.errors import FivestarError, SettingsError
from fivestar.evaluation.report import evaluate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.models.base import Model
from fivestar.runs.run import CHECKPOINT, Run, begin_run, build_model, read_begun_run, save_run
from fivestar.runs.settings import Settings, TrainingSettings, make_settings
from fivestar.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from fivestar.training.queries import Queries
from fivestar.training.regularizers import REGULARIZERS
from fivestar.training.step import Step

# Called with one line of history after each epoch.
Callback = Callable[[dict[str, Any]], None]


class Diverged(FivestarError):  # noqa: N818
    """Training has produced something that is not a number."""


class Trainer:
    """One run of training; `checkpoint`, if given, is where it can be resumed from."""

    def __init__(
        self, graph: KnowledgeGraph, settings: Settings, checkpoint: Path | None = None
    ) -> None:
        self.graph = graph
        self.settings = settings = settings.resolved()
        self.checkpoint = checkpoint
        training = settings.training
        if training.threads:
            torch.set_num_threads(training.threads)
        self.device = _device(training.device)
        self.model = build_model(graph, settings).to(self.device)
        self.model.start(torch.Generator(self.device).manual_seed(training.seed))
        self.optimizer = _optimizer(self.model, training)
        relations = len(graph.relations)
        self.queries = Queries.of(with_reciprocals(graph.train, relations), training.grouping)
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self._known: KnownAnswers | None = None

    def resume(self) -> None:
        """Go on where the checkpoint was written."""
        if self.checkpoint is None:
            raise SettingsError("there is no checkpoint to resume from")
        self.progress, self.best = load_checkpoint(self.checkpoint, self.model, self.optimizer)

    def run(self, on_epoch: Callback | None = None) -> Model:
        """Train to the end; the model with the best validation MRR, or the last one."""
        training = self.settings.training
        rows = min(training.batch, len(self.queries))
        step = Step(self.model, REGULARIZERS[training.regularizer], training.reg, rows)
        while not self._finished():
            line = self._epoch(step)
            self.progress.history.append(line)
            last = self._finished()
            if self.checkpoint is not None and (
                last or self.progress.epoch % training.checkpoint_every == 0
            ):
                save_checkpoint(
                    self.checkpoint, self.model, self.optimizer, self.best, self.progress
                )
            if on_epoch is not None:
                on_epoch(line)
        if self.best:
            self.model.load_state_dict(self.best)
        return self.model

    def _finished(self) -> bool:
        training, progress = self.settings.training, self.progress
        return (
            progress.epoch >= training.epochs
            or bool(training.patience and progress.waited >= training.patience)
            or bool(training.max_minutes and progress.seconds >= 60 * training.max_minutes)
        )

    def _epoch(self, step: Step) -> dict[str, Any]:
        """One pass over all queries, with a validation if it is due."""
        began = time.perf_counter()
        training, progress = self.settings.training, self.progress
        order = torch.Generator().manual_seed(training.seed * 1_000_003 + progress.epoch)
        total, triples = torch.zeros((), device=self.device), 0
        for number, batch in enumerate(self.queries.batches(training.batch, order, self.device)):
            loss = step.gradients(batch)
            if not torch.isfinite(loss):
                raise Diverged(
                    f"the loss is {loss.item()} in epoch {progress.epoch + 1}, step {number + 1} "
                    f"({len(batch.tails)} triples); train again with a smaller lr or a larger reg"
                    + (f"; the last good checkpoint is {self.checkpoint}" * bool(self.checkpoint))
                )
            self.optimizer.step()
            total += loss * len(batch.tails)
            triples += len(batch.tails)
        progress.epoch += 1
        seconds = time.perf_counter() - began
        line = {
            "epoch": progress.epoch,
            "loss": total.item() / triples,
            "triples_per_second": triples / seconds,
        }
        if training.evaluate_every and (
            progress.epoch % training.evaluate_every == 0 or progress.epoch == training.epochs
        ):
            line |= self._validate()
        progress.seconds += time.perf_counter() - began
        line["seconds"] = progress.seconds
        return line

    def _validate(self) -> dict[str, float]:
        """The validation MRR; the best weights are kept."""
        if not len(self.graph.valid):
            return {}
        if self._known is None:
            facts = with_reciprocals(self.graph.facts, len(self.graph.relations))
            self._known = KnownAnswers.of(facts)
        found = evaluate(self.model, self.graph, self.graph.valid, self._known).figures()
        progress = self.progress
        progress.waited += 1
        if found["mrr"] > progress.best_mrr:
            progress.best_mrr, progress.best_epoch, progress.waited = (
                found["mrr"],
                progress.epoch,
                0,
            )
            state = self.model.state_dict()
            self.best = {name: tensor.detach().clone() for name, tensor in state.items()}
        return {"valid_mrr": found["mrr"], "valid_hits@10": found["hits@10"]}


def train(
    graph: KnowledgeGraph,
    settings: Settings | Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    on_epoch: Callback | None = None,
) -> Run:
    """Train a model on a graph.

    Args:
        graph: what to learn; validation needs its valid split.
        settings: `Settings`, or nested mappings as in `{"model": {"dim": 50}}`.
        out: a new folder for the run; it can be resumed and loaded from there.
        on_epoch: called with a line of history after each epoch.
    """
    if not isinstance(settings, Settings):
        settings = make_settings(settings or {})
    settings = settings.resolved()
    if out is None:
        return _finish(Trainer(graph, settings), None, on_epoch)
    trainer = Trainer(graph, settings, Path(out) / CHECKPOINT)  # first: it may refuse the settings
    return _finish(trainer, begin_run(graph, settings, out), on_epoch)


def resume(folder: str | os.PathLike[str], on_epoch: Callback | None = None) -> Run:
    """Go on with a run that was stopped, by whatever: the result is as if it had not been."""
    place = Path(folder)
    graph, settings = read_begun_run(place)
    trainer = Trainer(graph, settings, place / CHECKPOINT)
    if (place / CHECKPOINT).exists():
        trainer.resume()
    return _finish(trainer, place, on_epoch)


def _finish(trainer: Trainer, folder: Path | None, on_epoch: Callback | None) -> Run:
    model = trainer.run(on_epoch)
    graph, progress = trainer.graph, trainer.progress
    figures: dict[str, Any] = {"epochs": progress.epoch, "seconds": progress.seconds}
    if len(graph.valid):
        figures["best_epoch"] = progress.best_epoch or progress.epoch
        figures["valid"] = evaluate(model, graph, graph.valid).figures()
    run = Run(graph, trainer.settings, model, figures, progress.history)
    if folder is not None:
        save_run(run, folder)
    return run


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device is cuda, but torch sees none; use device auto or cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _optimizer(model: Model, training: TrainingSettings) -> torch.optim.Optimizer:
    tables = list(model.parameters())
    match training.optimizer:
        case "adagrad":
            return torch.optim.Adagrad(tables, lr=training.lr, fused=True)
        case "adam":
            return torch.optim.Adam(tables, lr=training.lr, fused=True)
        case "sgd":
            return torch.optim.SGD(tables, lr=training.lr, fused=True)
