"""`TrainedModel`: the one face of a trained model for Python, the command line and the server."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from fivestar.errors import GraphWarning, SettingsError
from fivestar.evaluation import calibration as calibrating
from fivestar.evaluation.calibration import Calibration, Reliability
from fivestar.evaluation.metrics import HITS
from fivestar.evaluation.ranking import Progress
from fivestar.evaluation.report import Grouping
from fivestar.evaluation.topk import Which
from fivestar.graph.choices import CandidateChoice
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import Ids
from fivestar.graph.steps import Steps
from fivestar.models.fivestar import Denominator, Score
from fivestar.notebook import html_table
from fivestar.prediction import completion_file
from fivestar.prediction.completion import Goal, Slots
from fivestar.prediction.completion_file import Completion
from fivestar.prediction.evaluate import Metrics, Task, evaluate
from fivestar.prediction.explanation import Explainer, Explanation
from fivestar.prediction.export import EXPORTERS, Format
from fivestar.prediction.fold_in import EPOCHS, LEARNING_RATE, Fact, fold_in
from fivestar.prediction.neighbors import Neighbors, similar
from fivestar.prediction.predict import (
    Keys,
    held_out_keys,
    predict_ids,
    score_triple,
    unseen_warnings,
)
from fivestar.prediction.predictions import (
    Prediction,
    Predictions,
    Query,
    Split,
    query_ids,
    query_names,
)
from fivestar.runs.run import Run, convert_to_fivestar, import_from_pykeen, load_run

PathLike = str | os.PathLike[str]
# Where an index of all facts is not built for a few queries.
_MANY_FACTS = 5_000_000
_FEW_QUERIES = 16


class TrainedModel(Run):
    """A trained model with its graph, settings, metrics and history.

    Entities and relations are given by name or label, ignoring case. A name that is unknown or
    ambiguous is an error that lists what may have been meant.

    >>> import fivestar
    >>> facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    >>> model = fivestar.train(facts, dim=4, epochs=2)
    >>> len(model.predict_tails("a", "next", top=3)), len(model.predict_heads("next", "b", top=2))
    (3, 2)
    >>> model.predict_relations("a", "b")[0].label, model.score("a", "next", "b").id
    ('next', 'b')
    >>> sorted(model.evaluate("valid"))[:3]
    ['amri', 'count', 'heads']
    >>> len(model.similar("a", top=2)), model.explain("a", "next", "b").relation.label
    (2, 'next')
    >>> len(model.add_entities([("e", "next", "a")]).graph.entities)
    5
    """

    @classmethod
    def of(cls, run: Run) -> TrainedModel:
        """Return a run as a trained model.

        Args:
            run: a run; a `TrainedModel` is returned as it is.
        """
        if isinstance(run, TrainedModel):
            return run
        return cls(run.graph, run.settings, run.model, run.metrics, run.history)

    def __repr__(self) -> str:
        return f"TrainedModel({', '.join(f'{k} {v}' for k, v in self._summary().items())})"

    def _repr_html_(self) -> str:
        return html_table(("TrainedModel", ""), self._summary().items())

    def _summary(self) -> dict[str, str]:
        graph, valid = self.graph, self.metrics.get("valid", {})
        summary = {
            "model": f"{self.settings.model.name}, dim {self.settings.model.dim}",
            "graph": f"{graph.name!r}, {len(graph.entities):,} entities, "
            f"{len(graph.relations):,} relations, {len(graph.train):,} training triples",
        }
        if "epochs" in self.metrics:
            summary["epochs"] = f"{self.metrics['epochs']:,}"
        if "mrr" in valid:
            summary["valid MRR"] = f"{valid['mrr']:.4f}"
        return summary

    def predict_tails(
        self,
        head: str,
        relation: str,
        top: int = 10,
        which: Which = "all",
        types: Sequence[str] = (),
        candidates: CandidateChoice = "all",
    ) -> Predictions:
        """Predict the tails of (head, relation, ?), best first.

        Args:
            head: an entity.
            relation: a relation.
            top: number of answers.
            which: "all" answers, only "new" ones, or only "known" ones (in any split).
            types: if given, only entities that have one of these types.
            candidates: "all" entities, those "observed" on that side of the relation in train, or
                those of the same "types": that share a type with one observed.

        Returns:
            The answers with rank, score, calibrated probability and state (in train, held out or
            new), best first.

        Raises:
            UnknownName, AmbiguousName: if a name cannot be resolved.
            SettingsError: if `top` is below 1.
        """
        return self.predict([(head, relation, "_")], top, which, types, candidates)[0]

    def predict_heads(
        self,
        relation: str,
        tail: str,
        top: int = 10,
        which: Which = "all",
        types: Sequence[str] = (),
        candidates: CandidateChoice = "all",
    ) -> Predictions:
        """Predict the heads of (?, relation, tail), best first.

        Args:
            relation: a relation.
            tail: an entity.
            top: number of answers.
            which: "all" answers, only "new" ones, or only "known" ones (in any split).
            types: if given, only entities that have one of these types.
            candidates: "all" entities, those "observed" on that side of the relation in train, or
                those of the same "types": that share a type with one observed.

        Returns:
            The answers, as `predict_tails` returns them; it raises the same errors.
        """
        return self.predict([("_", relation, tail)], top, which, types, candidates)[0]

    def predict_relations(
        self, head: str, tail: str, top: int = 10, which: Which = "all"
    ) -> Predictions:
        """Predict the relations of (head, ?, tail), best first.

        Args:
            head: an entity.
            tail: an entity.
            top: number of answers.
            which: "all" answers, only "new" ones, or only "known" ones (in any split).

        Returns:
            The answers, as `predict_tails` returns them; it raises the same errors.
        """
        self.model.shard.require_whole()
        return self.predict([(head, "_", tail)], top, which)[0]

    def predict(
        self,
        queries: Sequence[Query],
        top: int = 10,
        which: Which = "all",
        types: Sequence[str] = (),
        candidates: CandidateChoice = "all",
    ) -> list[Predictions]:
        """Answer many queries at once, each a triple of names with one slot missing ("_" or "?").

        All names are resolved before any query is answered.

        Args:
            queries: triples of names with one slot missing.
            top: number of answers per query.
            which: "all" answers, only "new" ones, or only "known" ones (in any split).
            types: if given, only entities that have one of these types.
            candidates: "all" entities, those "observed" on that side of the relation in train, or
                those of the same "types": that share a type with one observed.

        Returns:
            The answers to each query, as `predict_tails` returns them.

        Raises:
            UnknownName, AmbiguousName: if a name cannot be resolved.
            SettingsError: if `top` is below 1.
        """
        if top < 1:
            raise SettingsError(f"top must be at least 1, not {top}")
        ids = np.array([query_ids(self.graph, query) for query in queries]).reshape(-1, 3)
        for message in self.unseen_warnings(ids):
            warnings.warn(message, GraphWarning, stacklevel=3)
        answers = self.predict_ids(ids, top, which, types, candidates)
        names = [query_names(self.graph, row) for row in ids.tolist()]
        return [Predictions(*each) for each in zip(queries, answers, names, strict=True)]

    def predict_ids(
        self,
        queries: Ids,
        top: int,
        which: Which = "all",
        types: Sequence[str] = (),
        candidates: CandidateChoice = "all",
    ) -> list[list[Prediction]]:
        """Answer queries by id, for servers and batch jobs.

        Args:
            queries: ids (n, 3) of head, relation and tail, −1 for the missing slot.
            top: number of answers per query.
            which: "all" answers, only "new" ones, or only "known" ones (in any split).
            types: if given, only entities that have one of these types.
            candidates: "all" entities, those "observed" on that side of the relation in train, or
                those of the same "types": that share a type with one observed.

        Returns:
            The answers to each query, best first.
        """
        return predict_ids(self, queries, top, which, types, candidates)

    def score(self, head: str, relation: str, tail: str) -> Prediction:
        """Return score, probability and state of one triple, and the rank of its tail.

        Args:
            head: an entity.
            relation: a relation.
            tail: an entity.

        Raises:
            UnknownName, AmbiguousName: if a name cannot be resolved.
        """
        entities, relations = self.graph.entities, self.graph.relations
        ids = entities.find(head), relations.find(relation), entities.find(tail)
        return score_triple(self, *ids)

    def evaluate(  # noqa: PLR0913
        self,
        split: Split = "test",
        *,
        by: Grouping | None = None,
        task: Task = "links",
        hits: tuple[int, ...] = HITS,
        graph: Any = None,
        memory: str | None = None,
        sampled: int = 0,
        candidates: CandidateChoice = "all",
        progress: Progress | None = None,
    ) -> Metrics:
        """Rank heads and tails of a split among all entities (filtered).

        Args:
            split: which triples to rank.
            by: also per "relation", "side", "category" (1-1, 1-N, …) or "seen" (entities).
            task: "links", or triple "classification", or prediction of "relations".
            hits: the k of hits@k.
            graph: rank the triples of this graph (anything `read_graph` reads), matched by name.
            memory: bound of the working set, such as "1GiB".
            sampled: rank a random sample of this many queries, two per triple, the same for every
                model; 0: all. The metrics are unbiased estimates of those of all queries, with
                95 % confidence intervals below "sampled".
            candidates: also rank among the candidates of each relation: the entities "observed" on
                that side of it in train, or those of the same "types". These metrics are below
                "among", beside those among all entities.
            progress: called with (queries ranked, queries in all).

        Returns:
            Metrics by name, with "heads" and "tails" and, if asked, `by_…` as nested dictionaries.

        Raises:
            SettingsError: if the split is empty.
        """
        return evaluate(
            self,
            split,
            by=by,
            task=task,
            hits=hits,
            graph=graph,
            memory=memory,
            sampled=sampled,
            candidates=candidates,
            progress=progress,
        )

    def complete(
        self,
        *,
        top: int | None = None,
        threshold: float | None = None,
        relations: Sequence[str] | None = None,
        slots: Slots = "seen",
        max_queries: int | None = None,
        second_answers: bool = True,
        out: PathLike | None = None,
        progress: Progress | None = None,
    ) -> Completion:
        """Find the most probable triples that the graph does not hold.

        Args:
            top: number of triples. Give either this or `threshold`.
            threshold: least calibrated probability.
            relations: only these relations.
            slots: heads and tails "seen" with the relation in train, or "all" entities.
            max_queries: at most this many queries, an equal share per relation, for the entities
                with the most facts; without it, one per head and tail of each relation.
            second_answers: also triples that give an entity a second tail (or head) where nearly
                all others in train have exactly one.
            out: also write a new .tsv, .parquet or .nt file. An interrupted call with the same
                arguments resumes.
            progress: called with (queries answered, queries in all).

        Returns:
            The new triples with their probabilities, most probable first.

        Raises:
            SettingsError: if neither or both of `top` and `threshold` are given.
        """
        goal = Goal(threshold, top, slots, max_queries, second_answers)
        find = self.graph.relations.find
        chosen = None if relations is None else [find(name) for name in relations]
        if out is None:
            new = completion_file.complete(self, goal, chosen, progress)
        else:
            new = completion_file.complete_to_file(out, self, goal, chosen, progress)
        return Completion.of(new, self)

    def explain(self, head: str, relation: str, tail: str, top: int = 5) -> Explanation:
        """Explain a triple by analogous facts, supporting paths and contribution per dimension.

        Args:
            head: an entity.
            relation: a relation.
            tail: an entity.
            top: number of facts, path types and dimensions.

        Returns:
            The explanation, for the triple itself whether it is in the graph or not.

        Raises:
            UnknownName, AmbiguousName: if a name cannot be resolved.
        """
        self.model.shard.require_whole()
        return Explainer(self, self._steps, self.calibration).explain(head, relation, tail, top)

    def similar(self, entity: str, top: int = 10) -> Neighbors:
        """Return the nearest neighbors of an entity by centered cosine.

        Args:
            entity: an entity.
            top: number of neighbors.

        Raises:
            UnknownName, AmbiguousName: if the name cannot be resolved.
        """
        self.model.shard.require_whole()
        return similar(self, entity, top)

    def calibrate(self, seed: int = 0, progress: Progress | None = None) -> Calibration:
        """Fit probabilities on the validation triples (Platt scaling or isotonic regression).

        Training does this already; call it for models that come from elsewhere. The result is
        stored in `metrics` and used from now on.

        Args:
            seed: random seed of the sampled validation triples.
            progress: called with (queries ranked, queries in all).

        Returns:
            The fitted calibration.
        """
        fitted = calibrating.calibrate(self.model, self.graph, seed, progress=progress)
        self.metrics["calibration"] = fitted.as_json()
        self.__dict__["calibration"] = fitted
        return fitted

    def reliability(self, seed: int = 0) -> dict[str, Reliability]:
        """Return Brier score and expected calibration error of the probabilities on test.

        Keys are "sigmoid" (of the score), "softmax" and "calibrated".

        Args:
            seed: random seed of the sampled test triples.

        Raises:
            SettingsError: if the graph has no validation triples.
        """
        if self.calibration is None:
            raise SettingsError("there are no validation triples, so no calibrated probabilities")
        return calibrating.calibration_report(self.model, self.graph, self.calibration, seed)

    def add_entities(
        self,
        facts: Iterable[Fact],
        epochs: int = EPOCHS,
        lr: float = LEARNING_RATE,
        progress: Progress | None = None,
    ) -> TrainedModel:
        """Return the model extended by the new entities of some triples (inductive fold-in).

        Only their embeddings are fitted, in seconds; everything else stays as it was trained.

        Args:
            facts: triples (head, relation, tail), each with at least one new entity.
            epochs: passes over these triples.
            lr: learning rate.
            progress: called with (epochs done, epochs in all).

        Raises:
            GraphError: if there are no triples, or one has no new entity.
        """
        self.model.shard.require_whole()
        return TrainedModel.of(fold_in(self, facts, epochs, lr, progress).run)

    def export(self, to: Format, out: PathLike) -> None:
        """Write a new folder for other tools.

        Args:
            to: "parquet", "numpy", "word2vec", "projector" (embeddings), "vectors" (for maximum
                inner product search), "torch", "onnx" (a program that scores all tails), or
                "huggingface" (the saved model with its card).
            out: the new folder.
        """
        self.model.shard.require_whole()
        if to == "huggingface":
            self.save(out)
        elif to in EXPORTERS:
            EXPORTERS[to](self, out)
        else:
            raise SettingsError(f"no format {to!r}; choose one of {', '.join(get_args(Format))}")

    def to_fivestar(
        self, score: Score | None = None, denominator: Denominator = "mobius"
    ) -> TrainedModel:
        """Return the same model as a 5★E, with the same scores or (pRotatE) the same ranks.

        Args:
            score: require this score function; by default the one that fits the model.
            denominator: form of the 5★E; all forms agree until it is trained further.

        Raises:
            ConversionImpossible: if no 5★E has the scores of this model.
        """
        self.model.shard.require_whole()
        return TrainedModel.of(convert_to_fivestar(self, score, denominator))

    @cached_property
    def calibration(self) -> Calibration | None:
        """Return the calibration stored by training, or fit one; None without validation."""
        stored = self.metrics.get("calibration")
        if stored is not None:
            return Calibration.from_json(stored)
        if self.is_refit or not len(self.graph.valid):
            return None  # nothing is held out
        return calibrating.calibrate(self.model, self.graph)

    def calibrated(self, log_probs: npt.NDArray[np.float32]) -> list[float | None]:
        """Return calibrated probabilities, or None for each without calibration.

        Args:
            log_probs: log p(answer | query) of each answer.
        """
        if self.calibration is None:
            return [None] * len(log_probs)
        probabilities: list[float | None] = self.calibration(log_probs).tolist()
        return probabilities

    @cached_property
    def known_answers(self) -> KnownAnswers:
        """Return the answers in all splits, to tail queries and head queries."""
        return KnownAnswers.of(with_reciprocals(self.graph.facts, len(self.graph.relations)))

    def known_answers_to(self, queries: Ids) -> KnownAnswers:
        """Return known answers that include those to some queries.

        The index of all facts of a large graph takes seconds to build, longer than a few queries.

        Args:
            queries: ids (n, 3) of head, relation and tail, −1 for the missing slot.
        """
        splits = list(self.graph.splits.values())
        is_small = sum(map(len, splits)) < _MANY_FACTS
        if is_small or len(queries) > _FEW_QUERIES or "known_answers" in self.__dict__:
            return self.known_answers
        is_asked = np.zeros(len(self.graph.entities), bool)
        entities = queries[:, [0, 2]]
        is_asked[entities[entities >= 0]] = True
        about = [facts.take(is_asked[facts.heads] | is_asked[facts.tails]) for facts in splits]
        facts = sum(about[1:], start=about[0])
        return KnownAnswers.of(with_reciprocals(facts, len(self.graph.relations)))

    @cached_property
    def held_out_keys(self) -> dict[Split, Keys]:
        """Return sorted keys of the valid and test triples (see `predict.held_out_keys`)."""
        return held_out_keys(self.graph)

    @cached_property
    def seen_in_train(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return masks of the entities and relations that have training triples."""
        train = self.graph.train
        entities = np.zeros(len(self.graph.entities), bool)
        entities[train.heads] = entities[train.tails] = True
        relations = np.zeros(len(self.graph.relations), bool)
        relations[train.relations] = True
        return entities, relations

    def unseen_warnings(self, queries: Ids) -> list[str]:
        """Return a warning per entity or relation that train does not have.

        Args:
            queries: ids (n, 3) of head, relation and tail, −1 for the missing slot.
        """
        return unseen_warnings(self, queries)

    @cached_property
    def _steps(self) -> Steps:
        # Not the explainer, which refers to the model: memory would be freed late.
        return Steps.of(self.graph.train, len(self.graph.relations))


def load(
    folder: PathLike, epoch: int | None = None, *, weights: PathLike | None = None
) -> TrainedModel:
    """Load a trained model from its folder; refused if any file has changed.

    Args:
        folder: where it was saved, or its address: `hf://owner/name`, `s3://bucket/path` or
            `gs://bucket/path` (see `push`). It is then downloaded once and verified.
        epoch: load the snapshot of this epoch (see the setting `snapshot_epochs`).
        weights: map this copy of the weights into memory, shared by all processes that do so,
            instead of reading them; nobody may change it.

    Returns:
        The trained model.

    Raises:
        SourceNotFound: if there is no such folder, address or snapshot.
        DamagedRun: if a file has changed, or training has not finished.
        DownloadFailed: if the model of an address cannot be downloaded.
    """
    return TrainedModel.of(load_run(folder, epoch, weights=weights))


def from_pykeen(model: Any, triples_factory: Any) -> TrainedModel:
    """Return a 5★E, TransE, RotatE, DistMult or ComplEx that was trained in PyKEEN.

    Args:
        model: the trained model, for instance `pipeline(...).model`.
        triples_factory: the training triples, for instance `pipeline(...).training`.

    Raises:
        ConversionImpossible: if it is another model or does not fit the triples.
    """
    return TrainedModel.of(import_from_pykeen(model, triples_factory))
