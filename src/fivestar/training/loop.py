"""The training loop: epochs of steps, validations, checkpoints, and a reason to stop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fivestar.errors import Diverged, Paused, SettingsError
from fivestar.evaluation.calibration import calibrate
from fivestar.evaluation.report import evaluate
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.models.base import Model
from fivestar.runs.run import (
    CHECKPOINT,
    Run,
    begin_run,
    build_model,
    read_begun_run,
    save_history,
    save_run,
    save_snapshot,
)
from fivestar.runs.settings import Settings, make_settings
from fivestar.training.averaging import Average
from fivestar.training.budget import make_budget
from fivestar.training.checkpoint import Kept, Progress, load_checkpoint, save_checkpoint
from fivestar.training.objectives import OBJECTIVES, Loss
from fivestar.training.precision import products_in, similarity_at
from fivestar.training.queries import Batch, Queries
from fivestar.training.regularizers import REGULARIZERS
from fivestar.training.relation_question import RelationQuestion
from fivestar.training.sampling import Negatives, SampledLoss, SampledStep, bernoulli_weights
from fivestar.training.step import Step
from fivestar.training.updates import Updates
from fivestar.training.warm_start import inherit

# Called with one line of history after each epoch.
Callback = Callable[[dict[str, Any]], None]
# Called after each step with the epochs done, a fraction included. Both may raise Paused.
StepCallback = Callable[[float], None]


class Trainer:
    """One run of training; `folder`, if given, holds its checkpoint and snapshots."""

    def __init__(
        self, graph: KnowledgeGraph, settings: Settings, folder: Path | None = None
    ) -> None:
        self.graph = graph
        self.settings = settings = settings.resolved()
        self.folder = folder
        self.training = training = settings.training
        if not len(graph.train):
            raise SettingsError(f"{graph.name} has no training triples; give a graph with some")
        if training.snapshot_epochs and folder is None:
            raise SettingsError("snapshot-epochs needs a folder for the run; give out")
        if training.threads:
            torch.set_num_threads(training.threads)
        self.device = _device(training.device)
        self.model = build_model(graph, settings).to(self.device)
        self.model.start(torch.Generator(self.device).manual_seed(training.seed))
        self.updates = Updates(self.model, training)
        self.budget = make_budget(self.model, 2 * len(graph.facts), training)
        if self.model.couples_rows and not training.reciprocals:
            raise SettingsError(
                f"{settings.model.name} normalises over a batch, so it cannot move every entity by "
                "itself to ask for heads: train it with reciprocals"
            )
        if self.model.couples_rows and self.budget.rows < min(training.batch, len(graph.train)):
            raise SettingsError(
                f"{settings.model.name} normalises over a batch, so a batch cannot be done in "
                f"parts: give more memory or a batch of at most {self.budget.rows}"
            )
        if self.model.couples_rows and training.relation_weight:
            raise SettingsError(
                f"{settings.model.name} normalises over a batch, and a second question changes that"
                ": train it with relation-weight 0"
            )
        self.similarity = similarity_at(training.precision, self.model.similarity, self.device)
        relations = len(graph.relations)
        self.queries = Queries.of(
            with_reciprocals(graph.train, relations),
            training.grouping,
            None if training.reciprocals else relations,
        )
        self.steps = self.queries.batch_count(training.batch)  # an epoch
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.average = Average(training.average)
        self._known: KnownAnswers | None = None
        self._saved_at = time.perf_counter()

    def resume(self) -> None:
        """Go on where the checkpoint was written."""
        if self.folder is None:
            raise SettingsError("there is no checkpoint to resume from")
        self.progress, kept = load_checkpoint(
            self.folder / CHECKPOINT, self.model, self.updates.optimizer
        )
        self.best, self.average.tables = kept["best"], kept["average"]

    def begin_from(self, run: Path) -> None:
        """Begin with what a run has learned."""
        self.progress.origin = inherit(
            self.model, self.updates.optimizer, self.graph, self.settings, run
        )

    def stop_after(self, seconds: float) -> None:
        """End after this many more seconds of training, whatever the settings say."""
        minutes = (self.progress.seconds + seconds) / 60
        self.training = self.training.model_copy(update={"max_minutes": minutes})

    def run(self, on_epoch: Callback | None = None, on_step: StepCallback | None = None) -> Model:
        """Train to the end; the model with the best validation MRR, or the last one."""
        training = self.training
        step = self._step()
        if self.progress.epoch == self.progress.step == 0:
            self._keep_snapshot()
        while not self._finished():
            try:
                line = self._epoch(step, on_step)
            except Paused:
                self.keep_checkpoint()
                raise
            self.progress.history.append(line)
            self._keep_snapshot()
            if self.folder is not None:
                save_history(self.progress.history, self.folder)
            if self._finished() or self.progress.epoch % training.checkpoint_every == 0:
                self.keep_checkpoint()
            if on_epoch is not None:
                on_epoch(line)
        if self.best:
            self.model.load_state_dict(self.best)
        elif self.average.tables:
            self.model.load_state_dict(self.average.tables)
        return self.model

    def _step(self) -> Step | SampledStep:
        training, regularizer = self.training, REGULARIZERS[self.training.regularizer]
        match training.objective:
            case "softmax" | "bce" as name:
                smoothing = training.label_smoothing
                loss = Loss(
                    regularizer,
                    training.reg,
                    smoothing,
                    OBJECTIVES[name],
                    training.candidates,
                    RelationQuestion(training.relation_weight, training.relation_draws),
                )
                rows = min(self.budget.rows, len(self.queries))
                return Step(self.model, loss, rows, self.budget.pairs, self.similarity)
            case "negative-sampling" | "margin" as kind:
                known = None
                if training.negatives_from == "unknown":
                    known = with_reciprocals(self.graph.train, len(self.graph.relations))
                return SampledStep(
                    self.model,
                    SampledLoss(kind, training.margin, training.adversarial),
                    Negatives(training.negatives, len(self.graph.entities), known),
                    regularizer,
                    training.reg,
                    self.budget.pairs,
                    self._side_weights(),
                )

    def _side_weights(self) -> Tensor | None:
        if self.training.corruption == "uniform":
            return None
        return bernoulli_weights(self.graph.train, len(self.graph.relations))

    def _out_of_time(self) -> bool:
        limit = self.training.max_minutes
        return bool(limit and self.progress.seconds >= 60 * limit)

    def _finished(self) -> bool:
        training, progress = self.training, self.progress
        return (
            progress.epoch >= training.epochs
            or bool(training.patience and progress.waited >= training.patience)
            or self._out_of_time()
        )

    def _epoch(self, step: Step | SampledStep, on_step: StepCallback | None) -> dict[str, Any]:
        """One pass over all queries (or its rest), with a validation if it is due."""
        training, progress = self.training, self.progress
        order = torch.Generator().manual_seed(training.seed * 1_000_003 + progress.epoch)
        batches = self.queries.batches(training.batch, order, self.device, progress.step)
        began = time.perf_counter()
        self.model.train()
        for batch in batches:
            self._take(step, batch)
            now = time.perf_counter()
            progress.epoch_seconds += now - began
            progress.seconds += now - began
            began = now
            if on_step is not None:
                on_step(progress.epoch + progress.step / self.steps)
            if self._out_of_time():
                break
            if now - self._saved_at >= 60 * training.checkpoint_minutes:
                self.keep_checkpoint()
        self.model.eval()
        progress.epoch += 1
        if training.average:
            self.average.add(self.model, progress.epoch)
        line = {
            "epoch": progress.epoch,
            "loss": progress.loss / progress.triples,
            "triples_per_second": progress.triples / progress.epoch_seconds,
        }
        if progress.step < self.steps:
            line["part_of_the_epoch"] = progress.step / self.steps
        progress.step = progress.triples = 0
        progress.loss = progress.epoch_seconds = 0.0
        if training.evaluate_every and (
            progress.epoch % training.evaluate_every == 0 or self._finished()
        ):
            line |= self._validate()
        progress.seconds += time.perf_counter() - began
        line["seconds"] = progress.seconds
        return line

    def _take(self, step: Step | SampledStep, batch: Batch) -> None:
        """One step."""
        progress = self.progress
        with products_in(self.training.precision), self._own_randomness():
            loss = step.gradients(batch).item()
        if loss - loss != 0:  # inf or NaN
            place = f"epoch {progress.epoch + 1}, step {progress.step + 1}"
            raise Diverged(
                f"the loss is {loss} in {place} ({len(batch.tails)} triples, the first from "
                f"{self.graph.entities.name_of(int(batch.heads[0]))!r}); train again with a "
                "smaller lr or a larger reg"
                + (f"; the last good checkpoint is in {self.folder}" if self.folder else "")
            )
        time_now = progress.epoch + (progress.step + 0.5) / self.steps
        self.updates.apply(time_now, step.touched)
        progress.step += 1
        progress.triples += len(batch.tails)
        progress.loss += loss * len(batch.tails)

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """What is random follows from seed, epoch and step, so no state of it is saved."""
        training = self.training
        drawn = (
            training.candidates or training.relation_weight or training.objective not in OBJECTIVES
        )
        if not drawn and not self.model.is_random:
            yield
            return
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            place = self.progress.epoch * self.steps + self.progress.step
            torch.manual_seed(self.training.seed * 1_000_003 + place)
            yield

    def keep_checkpoint(self) -> None:
        """Write where training can go on, if there is a folder."""
        self._saved_at = time.perf_counter()
        if self.folder is not None:
            path = self.folder / CHECKPOINT
            kept: Kept = {"best": self.best, "average": self.average.tables}
            save_checkpoint(path, self.model, self.updates.optimizer, kept, self.progress)

    def _keep_snapshot(self) -> None:
        if self.folder is not None and self.progress.epoch in self.training.snapshot_epochs:
            save_snapshot(self.model, self.folder, self.progress.epoch)

    def _validate(self) -> dict[str, float]:
        """The validation MRR; the best weights are kept."""
        if not len(self.graph.valid):
            return {}
        progress = self.progress
        progress.waited += 1
        with self.average.in_place_of(self.model):
            found = self.evaluate()
            if found["mrr"] > progress.best_mrr:
                progress.best_mrr, progress.best_epoch = found["mrr"], progress.epoch
                progress.waited = 0
                for name, table in self.model.state_dict().items():
                    if name not in self.best:
                        self.best[name] = torch.empty_like(table)
                    self.best[name].copy_(table)
        return {"valid_mrr": found["mrr"], "valid_hits@10": found["hits@10"]}

    def evaluate(self) -> dict[str, Any]:
        """The figures of the validation triples."""
        if self._known is None:
            facts = with_reciprocals(self.graph.facts, len(self.graph.relations))
            self._known = KnownAnswers.of(facts)
        valid, known, share = self.graph.valid, self._known, self.budget.score_bytes
        return evaluate(self.model, self.graph, valid, known, share).figures()


def train(
    graph: KnowledgeGraph,
    settings: Settings | Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    on_epoch: Callback | None = None,
    on_step: StepCallback | None = None,
    source: str | os.PathLike[str] | None = None,
) -> Run:
    """Train a model on a graph, from nothing or from the run in the folder `source`.

    The public library's `train` explains its arguments.
    """
    if source is not None and settings is None:
        settings = read_begun_run(Path(source))[1]
    if not isinstance(settings, Settings):
        settings = make_settings(settings or {})
    settings = settings.resolved()
    folder = None if out is None else Path(out)
    trainer = Trainer(graph, settings, folder)  # first: it may refuse the settings
    if source is not None:
        trainer.begin_from(Path(source))
    if folder is not None:
        begin_run(graph, settings, folder)
        if source is not None:
            trainer.keep_checkpoint()  # a resumed run must not begin from nothing
    return finish(trainer, on_epoch, on_step)


def resume(
    folder: str | os.PathLike[str],
    on_epoch: Callback | None = None,
    on_step: StepCallback | None = None,
) -> Run:
    """Go on with a run that was stopped, by whatever: the result is as if it had not been."""
    place = Path(folder)
    graph, settings = read_begun_run(place)
    trainer = Trainer(graph, settings, place)
    if (place / CHECKPOINT).exists():
        trainer.resume()
    return finish(trainer, on_epoch, on_step)


def finish(
    trainer: Trainer,
    on_epoch: Callback | None = None,
    on_step: StepCallback | None = None,
    more: Callable[[], Mapping[str, Any]] = dict,
) -> Run:
    """Train to the end, validate, calibrate and save; `more` gives further metrics at the end."""
    model = trainer.run(on_epoch, on_step)
    progress = trainer.progress
    figures: dict[str, Any] = {"epochs": progress.epoch, "seconds": progress.seconds}
    if progress.origin:
        figures["started_from"] = progress.origin
    if len(trainer.graph.valid):
        figures["best_epoch"] = progress.best_epoch or progress.epoch
        figures["valid"] = trainer.evaluate()
        figures["calibration"] = calibrate(model, trainer.graph).as_json()
    figures |= more()
    run = Run(trainer.graph, trainer.settings, model, figures, progress.history)
    if trainer.folder is not None:
        save_run(run, trainer.folder)
    return run


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device is cuda, but torch sees none; use device auto or cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
