"""What the public library hands out: a run that can be asked."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from fivestar.errors import GraphError, SettingsError
from fivestar.evaluation.best import Which
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.models.fivestar import Denominator, Score
from fivestar.prediction.explanation import Explainer, Explanation
from fivestar.prediction.fold_in import Fact, fold_in
from fivestar.prediction.neighbours import Neighbour, similar
from fivestar.prediction.predictor import Prediction, Predictions, Predictor
from fivestar.runs import conversion
from fivestar.runs.run import Run, load_run
from fivestar.runs.settings import Settings
from fivestar.training import loop


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
    budget: str | dt.timedelta | None = None,
    budget_models: Sequence[str] = (),
    budget_dims: Sequence[int] = (),
) -> TrainedModel:
    """Train a model on a graph.

    Args:
        graph: what to learn; validation needs its valid split.
        settings: `Settings`, or nested mappings as in `{"model": {"dim": 50}}`.
        out: a new folder for the run; it can be resumed and loaded from there.
        on_epoch: called with a line of history after each epoch.
        on_step: called after each step with the epochs done, a fraction included.
        source: the folder of a run to begin from, on this graph or on another one: what it knows
            of the entities and relations of the same names is kept. Unless settings are given, its
            own are used.
        budget: the time for everything, as in `"10m"` or a timedelta: settings are searched by
            validation, and the best are trained to the end. Settings that are given are not
            searched, so give only those that must hold. The callbacks are called in the final
            trainings. Needs the extra `search`.
        budget_models: models to choose from within the budget, the first being the default.
        budget_dims: dimensions to choose from within the budget, the first being the default.

    Example:
        >>> import fivestar
        >>> facts = [(f"p{i}", "knows", f"p{(i + 7) % 60}") for i in range(60)]
        >>> graph = fivestar.split_graph(fivestar.read_graph(facts), valid=0.1, test=0.1)
        >>> model = fivestar.train(graph, {"model": {"dim": 4}, "training": {"epochs": 3}})
        >>> model.metrics["epochs"]
        3
    """
    if budget is None:
        if budget_models or budget_dims:
            raise SettingsError("budget_models and budget_dims need a budget")
        return TrainedModel.of(loop.train(graph, settings, out, on_epoch, on_step, source))
    if source is not None:
        raise SettingsError("a budget chooses settings for a training from scratch: omit source")
    from fivestar.training import time_budget  # noqa: PLC0415  (slow to import)

    if isinstance(settings, Settings):
        settings = settings.model_dump(exclude_unset=True)
    watcher = time_budget.Quiet(on_epoch, on_step)
    return TrainedModel.of(
        time_budget.train_within(
            graph, settings or {}, budget, out, watcher, budget_models, budget_dims
        )
    )


def resume(
    folder: str | os.PathLike[str],
    on_epoch: loop.Callback | None = None,
    on_step: loop.StepCallback | None = None,
) -> TrainedModel:
    """Go on with a run that was stopped, by whatever: the result is as if it had not been.

    A run within a time budget continues in its search or its final training; the time that it has
    used before counts.
    """
    from fivestar.training import time_budget  # noqa: PLC0415  (slow to import)

    if time_budget.has_budget(Path(folder)):
        watcher = time_budget.Quiet(on_epoch, on_step)
        return TrainedModel.of(time_budget.resume_within(folder, watcher))
    return TrainedModel.of(loop.resume(folder, on_epoch, on_step))


def to_fivestar(
    run: Run, score: Score | None = None, denominator: Denominator = "mobius"
) -> TrainedModel:
    """The same run as a 5★E, with the same scores or (pRotatE) the same ranks."""
    return TrainedModel.of(conversion.to_fivestar(run, score, denominator))


def from_pykeen(model: Any, triples_factory: Any) -> TrainedModel:
    """A run of a TransE, RotatE, DistMult or ComplEx that was trained in PyKEEN."""
    return TrainedModel.of(conversion.from_pykeen(model, triples_factory))
