"""What the public library hands out: a run that can be asked."""

from __future__ import annotations

import datetime as dt
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from fivestar.errors import GraphError, GraphWarning, SettingsError
from fivestar.evaluation.topk import Which
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.models.fivestar import Denominator, Score
from fivestar.prediction.explanation import Explainer, Explanation
from fivestar.prediction.fold_in import Fact, fold_in
from fivestar.prediction.neighbours import Neighbour, similar
from fivestar.prediction.predictor import Prediction, Predictions, Predictor
from fivestar.runs import conversion
from fivestar.runs.run import Run, load_run, read_begun_run
from fivestar.runs.settings import Settings, make_settings
from fivestar.training import loop
from fivestar.training.held_out import with_validation
from fivestar.training.validation import StageCallback


class TrainedModel(Run):
    """A trained model with its graph and settings, which answers by name.

    Names are ids or labels, in upper or lower case; what is not known or ambiguous is an error
    that lists what may have been meant.
    """

    @classmethod
    def of(cls, run: Run) -> TrainedModel:
        """The same run."""
        return cls(run.graph, run.settings, run.model, run.metrics, run.history)

    @cached_property
    def predictor(self) -> Predictor:
        """What answers; it remembers what it has found out about the graph."""
        return Predictor(self)

    def predict_tails(
        self,
        head: str,
        relation: str,
        top: int = 10,
        which: Which = "all",
        types: Sequence[str] = (),
    ) -> Predictions:
        """The likeliest tails of (head, relation, ?): all, or only `new` or `known` ones."""
        return self.predictor.ask([(head, relation, "_")], top, which, types)[0]

    def predict_heads(
        self,
        relation: str,
        tail: str,
        top: int = 10,
        which: Which = "all",
        types: Sequence[str] = (),
    ) -> Predictions:
        """The likeliest heads of (?, relation, tail)."""
        return self.predictor.ask([("_", relation, tail)], top, which, types)[0]

    def predict_relations(
        self, head: str, tail: str, top: int = 10, which: Which = "all"
    ) -> Predictions:
        """The likeliest relations of (head, ?, tail)."""
        return self.predictor.ask([(head, "_", tail)], top, which)[0]

    def score(self, head: str, relation: str, tail: str) -> Prediction:
        """The score, probability and rank of one triple."""
        return self.predictor.score(head, relation, tail)

    def explain(self, head: str, relation: str, tail: str, top: int = 5) -> Explanation:
        """What speaks for a triple: similar facts, connecting paths, and dimensions."""
        return self._explainer.explain(head, relation, tail, top)

    def similar(self, entity: str, top: int = 10) -> list[Neighbour]:
        """The entities most like one."""
        return similar(self, entity, top)

    def with_entity(self, name: str, facts: Iterable[Fact]) -> TrainedModel:
        """The model with an entity that it did not know, fitted to its facts (h, r, t)."""
        return self.with_entities(_about(name, list(facts)))

    def with_entities(self, facts: Iterable[Fact]) -> TrainedModel:
        """The model with all entities of these facts that it did not know; none of it changes."""
        return TrainedModel.of(fold_in(self, facts).run)

    @cached_property
    def _explainer(self) -> Explainer:
        return Explainer(self)


def _about(name: str, facts: list[Fact]) -> list[Fact]:
    for head, relation, tail in facts:
        if name not in (head, tail):
            raise GraphError(f"({head}, {relation}, {tail}) says nothing of {name!r}")
    return facts


def load(folder: str | os.PathLike[str], epoch: int | None = None) -> TrainedModel:
    """A trained run, refused if anything in its folder has changed.

    With `epoch`, the model is the snapshot of that epoch (see `snapshot-epochs`).
    """
    return TrainedModel.of(load_run(folder, epoch))


def train(  # noqa: PLR0913
    graph: KnowledgeGraph,
    settings: Settings | Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    on_epoch: loop.Callback | None = None,
    on_step: loop.StepCallback | None = None,
    source: str | os.PathLike[str] | None = None,
    *,
    valid: float | None = None,
    refit: bool = False,
    on_stage: StageCallback | None = None,
    budget: str | dt.timedelta | None = None,
    budget_models: Sequence[str] = (),
    budget_dims: Sequence[int] = (),
) -> TrainedModel:
    """Train a model on a graph.

    Args:
        graph: what to learn. If it has no validation facts, some of its training facts are held
            out: `model.graph.valid` holds them, and they are not trained on.
        settings: `Settings`, or nested mappings as in `{"model": {"dim": 50}}`.
        out: a new folder for the run; it can be resumed and loaded from there.
        on_epoch: called with a line of history after each epoch.
        on_step: called after each step with the epochs done, a fraction included.
        source: the folder of a run to begin from, on this graph or on another one: what it knows
            of the entities and relations of the same names is kept. Unless settings are given, its
            own are used.
        valid: how many facts to hold out, as a share or a number; 0 for none, with a warning of
            what is lost. By default 5 %, at least 100 and at most 10,000 facts, but never more than
            a fifth. Facts between the same two entities stay together, and every entity and
            relation keeps a fact in train.
        refit: finally train anew on train and valid, for the number of epochs that was best. The
            metrics stay those from before; `metrics["refit"]` says so.
        on_stage: called with ("validation" or "calibration", queries done, queries in all), and
            with ("refit", 0, epochs) when a refit begins.
        budget: the time for everything, as in `"10m"` or a timedelta: settings are searched by
            validation, and the best are trained to the end. Settings that are given are not
            searched, so give only those that must hold. The callbacks are called in the final
            trainings. Needs the extra `search`.
        budget_models: models to choose from within the budget, the first being the default.
        budget_dims: dimensions to choose from within the budget, the first being the default.

    Returns:
        The model with the best validation MRR, or that of the last epoch without validation.

    Raises:
        SettingsError: if settings do not go together, or `valid` is given for a graph that has
            validation facts.

    >>> from fivestar.graph.reading import read_graph
    >>> facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    >>> model = train(read_graph(facts), {"model": {"dim": 4}, "training": {"epochs": 2}})
    >>> model.graph
    KnowledgeGraph('graph': 4 entities, 1 relations, 10 / 2 / 0 triples)
    """
    if budget is None and (budget_models or budget_dims):
        raise SettingsError("budget_models and budget_dims need a budget")
    if budget is not None and (source is not None or refit):
        raise SettingsError(
            "a budget chooses settings and trains once, from scratch: omit "
            + ("source" if source is not None else "refit")
        )
    validated = with_validation(graph, valid, source)
    if validated.warning:
        warnings.warn(validated.warning, GraphWarning, stacklevel=2)
    if budget is not None:
        from fivestar.training import time_budget  # noqa: PLC0415  (slow to import)

        if isinstance(settings, Settings):
            settings = settings.model_dump(exclude_unset=True)
        watcher = time_budget.Quiet(on_epoch, on_step)
        values, choices = settings or {}, (budget_models, budget_dims)
        within = time_budget.train_within(validated.graph, values, budget, out, watcher, *choices)
        return TrainedModel.of(within)
    if source is not None and settings is None:
        settings = read_begun_run(Path(source))[1]
    if not isinstance(settings, Settings):
        settings = make_settings(settings or {})
    if refit:
        training = settings.training.model_copy(update={"refit": True})
        settings = settings.model_copy(update={"training": training})
    run = loop.train(validated.graph, settings, out, on_epoch, on_step, source, on_stage)
    return TrainedModel.of(run)


def resume(
    folder: str | os.PathLike[str],
    on_epoch: loop.Callback | None = None,
    on_step: loop.StepCallback | None = None,
    *,
    on_stage: StageCallback | None = None,
) -> TrainedModel:
    """Go on with a run that was stopped, by whatever: the result is as if it had not been.

    A run within a time budget continues in its search or its final training; the time that it has
    used before counts.
    """
    from fivestar.training import time_budget  # noqa: PLC0415  (slow to import)

    if time_budget.has_budget(Path(folder)):
        watcher = time_budget.Quiet(on_epoch, on_step)
        return TrainedModel.of(time_budget.resume_within(folder, watcher))
    return TrainedModel.of(loop.resume(folder, on_epoch, on_step, on_stage))


def to_fivestar(
    run: Run, score: Score | None = None, denominator: Denominator = "mobius"
) -> TrainedModel:
    """The same run as a 5★E, with the same scores or (pRotatE) the same ranks."""
    return TrainedModel.of(conversion.to_fivestar(run, score, denominator))


def from_pykeen(model: Any, triples_factory: Any) -> TrainedModel:
    """A run of a TransE, RotatE, DistMult or ComplEx that was trained in PyKEEN."""
    return TrainedModel.of(conversion.from_pykeen(model, triples_factory))
