"""The training loop: epochs of steps, validations, checkpoints, and a reason to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fivestar.errors import Diverged, Paused, SettingsError
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.known_answers import with_reciprocals
from fivestar.graph.relation_candidates import RelationCandidates
from fivestar.graph.triples import Triples
from fivestar.models.base import Model
from fivestar.models.sharding import Shard, own_shard
from fivestar.plugins import OBJECTIVES
from fivestar.runs.identity import graph_hash, settings_hash
from fivestar.runs.run import (
    CHECKPOINT,
    build_model,
    is_finite,
    save_history,
    save_snapshot,
)
from fivestar.runs.settings import Settings
from fivestar.training.checkpoint import (
    CheckpointSchedule,
    WeightCopies,
    find_checkpoint,
    load_checkpoint,
    read_progress,
    save_checkpoint,
)
from fivestar.training.clock import now
from fivestar.training.entity_vectors import EntityVectors
from fivestar.training.mapped_tables import (
    mapped_zeros,
    prefetch,
    random_access,
    sequential_access,
)
from fivestar.training.negative_sampling import NegativeLoss, NegativeStep, bernoulli_weights
from fivestar.training.negatives import NegativeSampler, own_negatives
from fivestar.training.optimizers import Optimizer, WeightAverage
from fivestar.training.partitions import Partitions
from fivestar.training.progress import Progress
from fivestar.training.queries import Batch, GroupedQueries
from fivestar.training.regularizers import make_regularizer
from fivestar.training.relation_loss import RelationLoss
from fivestar.training.resources import (
    PartSizes,
    check_batch_norm,
    check_graph,
    matmul_precision,
    part_sizes,
    resolve_precision,
    similarity_for,
)
from fivestar.training.step import CandidateStep, Loss, Step
from fivestar.training.validation import Validation
from fivestar.training.warm_start import copy_weights

# A GPU computes ahead of the host until this reads a number; the loss is read this often only.
_STEPS_PER_READ = 100
# The weights that a warm start begins with, kept until its refit has begun with them, too.
ORIGIN = "origin.safetensors"
# Called with one line of history after each epoch.
Callback = Callable[[dict[str, Any]], None]
# Called after each step with the epochs done, a fraction included. Both may raise Paused.
StepCallback = Callable[[float], None]


class Trainer:
    """Trains one model; `folder`, if given, holds its checkpoint and snapshots."""

    def __init__(
        self, graph: KnowledgeGraph, settings: Settings, folder: Path | None = None
    ) -> None:
        self.graph = graph
        settings = settings.for_graph(graph)
        self.folder = folder
        check_graph(graph, settings.training, folder)
        if settings.training.threads:
            torch.set_num_threads(settings.training.threads)
        self.device = _device(settings.training.device)
        if settings.training.precision == "auto":
            similarity = build_model(graph, settings, Shard(1)).similarity
            settings = resolve_precision(settings, similarity, self.device)
        self.settings = settings
        self.training = training = settings.training
        self.progress = Progress()
        self.source: Path | None = None
        self.vectors: EntityVectors | None = None
        self._graph_hash: str | None = None
        self._set_up(graph.train)
        check_batch_norm(self.model, settings, self.sizes.rows, len(graph.train))
        queries, score_bytes = training.validation_queries, self.sizes.score_bytes
        self.validation = Validation(graph, queries, score_bytes)
        self._checkpoints = CheckpointSchedule(training)

    def _set_up(self, facts: Triples) -> None:
        """Build a new model, its optimizer and the queries of these facts."""
        graph, training = self.graph, self.training
        self.facts = facts
        self.model = self._build_model()
        self._reset_parameters()
        self.optimizer = Optimizer(self.model, training, self._new_table)
        if self.vectors is not None:
            self.use_vectors(self.vectors)
        self.similarity = similarity_for(training.precision, self.model.similarity, self.device)
        self.queries = GroupedQueries.of(
            facts,
            len(graph.relations),
            reciprocals=training.reciprocals,
            grouping=training.grouping,
            partitions=self._partitions(),
        )
        max_answers = self.queries.max_answers(training.batch_size)
        sizes = part_sizes(self.model, 2 * len(graph.facts), training, max_answers)
        # The first process has the largest shard; all must take the same parts of a step.
        self.sizes = PartSizes(*(int(self.model.shard.from_first(size)) for size in sizes))
        self.steps = self.queries.num_batches(training.batch_size)  # per epoch
        self.best: dict[str, Tensor] = {}
        self.average = WeightAverage(training.average)
        # Of the epoch under way, weighted by triples: `progress.loss`, but on the device.
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)

    def _build_model(self) -> Model:
        """Build a model whose entity table is in memory, or in a mapped file."""
        if self.training.table == "memory":
            shard = own_shard(len(self.graph.entities), self.training.query_groups)
            return build_model(self.graph, self.settings, shard).to(self.device)
        return self._mapped_model()

    def _mapped_model(self) -> Model:
        """Build a model with all entities in a mapped file, which memory need not hold."""
        model = build_model(self.graph, self.settings, Shard(1))
        model.shard = Shard(len(self.graph.entities))
        shape = (len(self.graph.entities), model.entities.shape[1])
        model.entities = torch.nn.Parameter(mapped_zeros(shape, self.folder))
        return model

    def _new_table(self, like: Tensor) -> Tensor:
        """Return a table of zeros of this shape, where the tables of this training are."""
        if self.training.table == "memory":
            return torch.zeros_like(like)
        return mapped_zeros(tuple(like.shape), self.folder)

    def _in_tables(self, apply: Callable[[Tensor], None]) -> None:
        """Apply a function of mapped tables to the entities and their optimizer state."""
        if self.training.table == "mmap":
            state = self.optimizer.torch_optimizer.state.get(self.model.entities, {})
            for table in (self.model.entities, *state.values()):
                if isinstance(table, Tensor):
                    apply(table)

    def _partitions(self) -> Partitions | None:
        training, table = self.training, self.model.entities
        if training.partitions == 1:
            return None
        row_bytes = table.shape[1] * table.element_size()
        return Partitions(self.model.num_entities, training.partitions, row_bytes, training.seed)

    def _reset_parameters(self) -> None:
        """Initialize the weights; a shard gets the rows that it would have in the whole table."""
        seed, model = self.training.seed, self.model
        if model.shard.is_whole:
            model.reset_parameters(torch.Generator(self.device).manual_seed(seed))
            return
        if model.resets_shards and self.device.type == "cpu":
            model.reset_parameters(torch.Generator().manual_seed(seed))
            return
        whole = self._mapped_model()
        whole.reset_parameters(torch.Generator().manual_seed(seed))
        weights = whole.state_dict()
        weights["entities"] = whole.entities.detach()[model.shard.start : model.shard.stop]
        model.load_state_dict(weights)

    def resume(self) -> None:
        """Resume from the checkpoint."""
        path = None if self.folder is None else find_checkpoint(self.folder / CHECKPOINT)
        if path is None:
            raise SettingsError("there is no checkpoint to resume from")
        if read_progress(path).before_refit:
            self._set_up(self._all_facts())
        self.progress, copies = load_checkpoint(
            path, self._identity(), self.model, self.optimizer.torch_optimizer, self._new_table
        )
        self.best, self.average.tables = copies["best"], copies["average"]
        self.loss.fill_(self.progress.loss)
        self._checkpoints.record(self.progress, 0.0)

    def warm_start(self, run: Path) -> None:
        """Start from the weights of another run."""
        self.source = run
        self.progress.origin = copy_weights(
            self.model, self.optimizer.torch_optimizer, self.graph, self.settings, run
        )

    def use_vectors(self, vectors: EntityVectors) -> None:
        """Start from given vectors of entities."""
        self.vectors = vectors
        vectors.copy_into(self.model)
        self.optimizer.freeze = vectors.freezer(self.model)

    def begin_refit(self, metrics: dict[str, Any]) -> None:
        """Start a refit on train and valid, for the best number of epochs of the training before.

        The first checkpoint of the refit replaces the last one of the training before.
        """
        before = self.progress
        self.progress = Progress(
            history=before.history, seconds=before.seconds, before_refit=metrics
        )
        # There may not be memory for two of each.
        del self.model, self.optimizer, self.similarity, self.queries, self.best, self.average
        self._set_up(self._all_facts())
        if self.folder is not None and (self.folder / ORIGIN).exists():
            path = self.folder / ORIGIN
            load_checkpoint(
                path, self._identity(), self.model, self.optimizer.torch_optimizer, self._new_table
            )
        elif self.source is not None:
            self.warm_start(self.source)
        self.save_checkpoint()

    @property
    def last_epoch(self) -> int:
        """Return the epoch at which training ends at the latest."""
        return int(self.progress.before_refit.get("best_epoch", self.training.epochs))

    def _all_facts(self) -> Triples:
        return (self.graph.train + self.graph.valid).distinct()

    def stop_after(self, seconds: float) -> None:
        """Stop after this many more seconds of training, in place of the limit of the settings."""
        minutes = (self.progress.seconds + seconds) / 60
        self.training = self.training.model_copy(update={"max_minutes": minutes})

    def run(self, on_epoch: Callback | None = None, on_step: StepCallback | None = None) -> Model:
        """Train to the end; return the model with the best validation MRR, else the last one."""
        step = self._make_step()
        if self.progress.epoch == self.progress.step == 0:
            self._save_snapshot()
        while not self._finished():
            try:
                line = self._epoch(step, on_step)
                self._end_epoch(line)
                if on_epoch is not None:
                    on_epoch(line)
            except Paused:
                if not self._checkpoints.has(self.progress):
                    self.save_checkpoint()
                raise
        if self.best:
            self.model.load_state_dict(self.best)
        elif self.average.tables:
            self.model.load_state_dict(self.average.tables)
        self._check_weights()
        return self.model

    def _end_epoch(self, line: dict[str, Any]) -> None:
        """Save what is due at the end of an epoch."""
        self.progress.history.append(line)
        self._save_snapshot()
        if self.folder is not None and self.model.shard.is_first:
            save_history(self.progress.history, self.folder)
        if self._finished() or self._checkpoints.is_due_after_epoch(self.progress):
            self.save_checkpoint()

    def _check_weights(self) -> None:
        """Raise Diverged if the last update has made a weight infinite or NaN."""
        for name, table in self.model.state_dict().items():
            if not is_finite(table):
                raise Diverged(
                    f"the {name} hold values that are not finite after epoch "
                    f"{self.progress.epoch}; train again with a smaller lr or a larger reg_weight"
                )

    def _make_step(self) -> Step:
        training = self.training
        regularizer = make_regularizer(training.regularizer, training.reg_exponent)
        if training.objective in OBJECTIVES:
            loss = Loss(
                regularizer,
                training.reg_weight,
                training.label_smoothing,
                OBJECTIVES[training.objective],
                training.num_candidates,
                RelationLoss(training.relation_loss_weight, training.num_relation_candidates),
            )
            group_rows = -(-training.batch_size // training.query_groups)
            rows = min(self.sizes.rows, group_rows, len(self.queries))
            return CandidateStep(self.model, loss, rows, self.sizes.pairs, self.similarity)
        known = None
        if training.negatives_from == "unknown":
            known = with_reciprocals(self.facts, len(self.graph.relations))
        name: Any = training.objective
        return NegativeStep(
            self.model,
            NegativeLoss(name, training.margin, training.adversarial_temperature),
            self._sampler(known),
            regularizer,
            training.reg_weight,
            self.sizes.pairs,
            self._side_weights(),
        )

    def _sampler(self, known: Triples | None) -> NegativeSampler:
        graph, training = self.graph, self.training
        candidates, own = None, None
        if training.negative_candidates != "all":
            candidates = RelationCandidates.of(training.negative_candidates, self.facts, graph)
        if graph.negatives is not None:
            own = own_negatives(graph.negatives, self.facts, len(graph.relations))
        return NegativeSampler(
            training.num_negatives,
            len(graph.entities),
            known,
            candidates=candidates,
            share=training.negative_candidates_share,
            own=own,
        )

    def _side_weights(self) -> Tensor | None:
        if self.training.corruption == "uniform":
            return None
        return bernoulli_weights(self.facts, len(self.graph.relations))

    def _out_of_time(self) -> bool:
        training, progress = self.training, self.progress
        if not training.max_minutes or progress.before_refit:
            return False
        # A refit takes about as long again, so half of the time is left for it.
        minutes = training.max_minutes / 2 if training.refit else training.max_minutes
        return progress.seconds >= 60 * minutes

    def _finished(self) -> bool:
        training, progress = self.training, self.progress
        return (
            progress.epoch >= self.last_epoch
            or bool(training.patience and progress.waited >= training.patience)
            or self._out_of_time()
        )

    def _epoch(self, step: Step, on_step: StepCallback | None) -> dict[str, Any]:
        """Train for (the rest of) one epoch, validate if due, and return its line of history."""
        training, progress = self.training, self.progress
        order = torch.Generator().manual_seed(training.seed * 1_000_003 + progress.epoch)
        batches = self.queries.batches(training.batch_size, order, self.device, progress.step)
        began = now()
        self.model.train()
        self._in_tables(random_access)
        pool: Tensor | None = None
        for batch in batches:
            if batch.pool is not None and batch.pool is not pool:
                pool = batch.pool
                self._in_tables(partial(prefetch, rows=pool))
            self._take_step(step, batch)
            taken = now()
            seconds = self.model.shard.from_first(taken - began)
            progress.epoch_seconds += seconds
            progress.seconds += seconds
            began = taken
            if on_step is not None:
                on_step(progress.epoch + progress.step / self.steps)
            if self._out_of_time():
                break
            if self._checkpoints.is_due(progress):
                self.save_checkpoint()
                self._in_tables(random_access)
                began = now()
        self._in_tables(sequential_access)
        self._read_loss()
        self.model.eval()
        progress.epoch += 1
        if training.average:
            self.average.add(self.model, progress.epoch)
        line: dict[str, Any] = {
            "epoch": progress.epoch,
            "loss": progress.loss / progress.triples,
            "triples_per_second": progress.triples / progress.epoch_seconds,
        }
        if progress.before_refit:
            line["refit"] = True
        if progress.step < self.steps:
            line["part_of_the_epoch"] = progress.step / self.steps
        progress.step = progress.triples = 0
        progress.loss = progress.epoch_seconds = 0.0
        self.loss.zero_()
        if training.evaluate_every and (
            progress.epoch % training.evaluate_every == 0 or self._finished()
        ):
            line |= self._validate()
        progress.seconds += self.model.shard.from_first(now() - began)
        line["seconds"] = progress.seconds
        return line

    def _take_step(self, step: Step, batch: Batch) -> None:
        """Take one step."""
        progress = self.progress
        with matmul_precision(self.training.precision), self._seeded():
            self.loss += step.gradients(batch).double() * len(batch.answers)
        time_now = progress.epoch + (progress.step + 0.5) / self.steps
        progress.step += 1
        progress.triples += len(batch.answers)
        if self.device.type == "cpu":
            self._read_loss(batch)
        elif progress.step % _STEPS_PER_READ == 0:
            self._read_loss()
        self.optimizer.step(time_now)

    def _read_loss(self, batch: Batch | None = None) -> None:
        """Read the sum of the losses of the epoch, to which a batch has just been added.

        Raises:
            Diverged: It is not finite.
        """
        progress = self.progress
        progress.loss = float(self.loss)
        if math.isfinite(progress.loss):
            return
        where = f"epoch {progress.epoch + 1}, step {progress.step}"
        if batch is None:
            where += f" or up to {_STEPS_PER_READ} steps before"
        else:
            name = self.graph.entities.name_of(int(batch.entities[0]))
            where += f" ({len(batch.answers)} triples, the first from {name!r})"
        raise Diverged(
            f"the loss is {progress.loss} in {where}; train again with a smaller lr or a larger "
            "reg_weight"
            + (f"; the last good checkpoint is in {self.folder}" if self.folder else "")
        )

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Seed the random numbers of a step by seed, epoch and step, so that no state is saved."""
        training = self.training
        samples = (
            training.num_candidates
            or training.relation_loss_weight
            or training.objective not in OBJECTIVES
        )
        if not samples and not self.model.is_stochastic:
            yield
            return
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            step = self.progress.epoch * self.steps + self.progress.step
            torch.manual_seed(self.training.seed * 1_000_003 + step)
            yield

    def save_checkpoint(self, name: str = CHECKPOINT, folder: Path | None = None) -> None:
        """Write a checkpoint, if there is a folder."""
        self._read_loss()
        began = now()
        self._in_tables(sequential_access)
        folder = folder or self.folder
        if folder is not None:
            copies: WeightCopies = {"best": self.best, "average": self.average.tables}
            save_checkpoint(
                folder / name,
                self._identity(),
                self.model,
                self.optimizer.torch_optimizer,
                copies,
                self.progress,
            )
        self._checkpoints.record(self.progress, self.model.shard.from_first(now() - began))

    def _identity(self) -> str:
        """Return what a checkpoint belongs to: the graph, the settings and the seed.

        What ends a run early does not change what it has learned before.
        """
        if self._graph_hash is None:
            self._graph_hash = graph_hash(self.graph)
        whole = {"max_minutes": 0.0, "patience": 0}
        training = self.settings.training.model_copy(update=whole)
        learned = settings_hash(self.settings.model_copy(update={"training": training}))
        return f"{self._graph_hash}-{learned}-{self.training.seed}"

    def _save_snapshot(self) -> None:
        """Save the weights of the first training if there is to be a snapshot of this epoch."""
        due = self.progress.epoch in self.training.snapshot_epochs
        if self.folder is not None and due and not self.progress.before_refit:
            save_snapshot(self.model, self.folder, self.progress.epoch)

    def _validate(self) -> dict[str, float]:
        """Validate; keep the weights if they are the best so far."""
        progress = self.progress
        if not self.validation or progress.before_refit:
            return {}
        progress.waited += 1
        with self.average.swapped_into(self.model):
            metrics = self.validation.rank(self.model)
            # Query groups rank the same queries; on other hardware, a tie may end otherwise.
            mrr = self.model.shard.from_first(metrics["mrr"])
            if mrr > progress.best_mrr:
                progress.best_mrr, progress.best_epoch = mrr, progress.epoch
                progress.best_metrics = metrics
                progress.waited = 0
                for name, table in self.model.state_dict().items():
                    if name not in self.best:
                        is_entities = name == "entities"
                        new = self._new_table if is_entities else torch.empty_like
                        self.best[name] = new(table)
                    self.best[name].copy_(table)
        return {"valid_mrr": metrics["mrr"], "valid_hits@10": metrics["hits@10"]}


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device is cuda, but torch sees none; use device auto or cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
