"""`LinkPredictor`: link prediction as an estimator of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fivestar.errors import SettingsError, UnknownName
from fivestar.evaluation import report
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.reading import read_graph
from fivestar.graph.triples import Triples
from fivestar.integrations.sklearn.triples import Truth, triple_columns
from fivestar.prediction.predict import triple_probabilities
from fivestar.prediction.train import train
from fivestar.prediction.trained_model import TrainedModel

_UNSEEN = (
    "\nThe model knows only the entities and relations of fit. Use LinkKFold for cross-validation, "
    "and model_.add_entities for new entities."
)


class LinkPredictor(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A knowledge graph embedding as a binary classifier of triples: is (h, r, t) a fact?

    X are triples: a DataFrame with the columns head, relation and tail (or subject, predicate,
    object …), or an array or list with three columns of names. `fit` learns from facts alone; `y`
    may mark which rows of X are facts. Training samples or computes its own negatives.

    Args:
        model: name of the model, such as "fivestar", "complex" or "rotate".
        dim: embedding dimension.
        epochs: passes over the facts. None, here and below: the default for the graph.
        lr: learning rate.
        batch_size: queries per batch.
        reg_weight: regularization weight.
        valid: how many facts to hold out for early stopping and calibration, as a share or a
            number; by default 5 %, at least 100, but never more than a fifth.
        settings: all other settings of `fivestar.train` by name.
        random_state: random seed.
        verbose: show a progress bar.

    Attributes:
        model_: the `fivestar.TrainedModel`, which predicts, explains, saves and exports.
        classes_: the two values of y, false and true.
        n_features_in_: 3.

    >>> facts = [(a, "next", b) for a in "abcdef" for b in "abcdef" if a != b]
    >>> predictor = LinkPredictor(dim=4, epochs=2).fit(facts)
    >>> predictor.predict_proba([("a", "next", "b"), ("a", "next", "a")]).shape
    (2, 2)
    >>> 0 < predictor.score(facts) <= 1
    True
    """

    def __init__(  # noqa: PLR0913
        self,
        model: str = "fivestar",
        *,
        dim: int = 100,
        epochs: int | None = None,
        lr: float | None = None,
        batch_size: int | None = None,
        reg_weight: float | None = None,
        valid: float | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.dim = dim
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.reg_weight = reg_weight
        self.valid = valid
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> LinkPredictor:  # noqa: N803
        """Train on the facts among triples.

        Args:
            X: triples (n, 3).
            y: which of them are facts (n,), as 0 and 1 or False and True; None: all.

        Returns:
            The estimator itself.

        Raises:
            SettingsError: if a setting is invalid, y has other values, or no triple is a fact.
            BadSource: if X are not triples.
        """
        truth = Truth.of(y)
        columns = triple_columns(X)
        rows = pa.table(list(columns), names=["head", "relation", "tail"])
        options = {**(self.settings or {}), "model": self.model, "dim": self.dim}
        for name in ("epochs", "lr", "batch_size", "reg_weight"):
            if getattr(self, name) is not None:
                options[name] = getattr(self, name)
        random = self.random_state
        seed = random if isinstance(random, int) else check_random_state(random).randint(2**31)
        self.model_: TrainedModel = train(
            read_graph(rows.filter(pa.array(truth.rows(len(rows)))), name="fit"),
            valid=self.valid,
            progress=self.verbose,
            **{**options, "seed": int(seed)},
        )
        self.classes_ = truth.classes
        # Columns are found by their role: a list may follow a DataFrame, so they have no names.
        self.n_features_in_ = 3
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return the calibrated probabilities (n, 2) that triples are false and true.

        The probability of a triple is the mean over its tail query and its head query (see
        `TrainedModel.score`). It is calibrated for triples that the model was not trained on.

        Args:
            X: triples (n, 3).

        Raises:
            SettingsError: if nothing was held out, so that there is no calibration.
            UnknownName: if `fit` has not seen an entity or a relation.
        """
        triples = self._ids(X)
        if self.model_.calibration is None:
            raise SettingsError(
                "probabilities are calibrated on facts that fit holds out, and it held out none; "
                "fit with valid above 0, and on more facts"
            )
        true = np.array(triple_probabilities(self.model_, triples), np.float64)
        return np.stack([1 - true, true], axis=1)

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return for each triple whether it is more probably true than false, as a class (n,).

        For other thresholds use scikit-learn's FixedThresholdClassifier, and for the best answers
        to (h, r, ?) `model_.predict_tails`. It raises the same errors as `predict_proba`.

        Args:
            X: triples (n, 3).
        """
        best = self.predict_proba(X).argmax(axis=1)
        classes: npt.NDArray[Any] = self.classes_[best]
        return classes

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return the filtered mean reciprocal rank of facts among all entities, on both sides.

        Known facts, of `fit` and of X, do not count as wrong answers. For metrics of the classes,
        pass `scoring="average_precision"` or the like to scikit-learn's functions.

        Args:
            X: triples (n, 3).
            y: which of them are facts (n,); None: all. The others are not ranked.

        Raises:
            UnknownName: if `fit` has not seen an entity or a relation.
        """
        triples = self._ids(X)
        triples = triples.take(Truth.of(y).rows(len(triples)))
        graph = self.model_.graph
        facts = with_reciprocals(graph.facts + triples, len(graph.relations))
        ranked = report.evaluate(self.model_.model, graph, triples, KnownAnswers.of(facts))
        return float(ranked.metrics()["mrr"])

    def _ids(self, X: Any) -> Triples:  # noqa: N803
        """Return triples of names by id."""
        check_is_fitted(self)
        graph = self.model_.graph
        columns = triple_columns(X)
        vocabularies = (graph.entities, graph.relations, graph.entities)
        try:
            return Triples(*(v.ids_of(c) for v, c in zip(vocabularies, columns, strict=True)))
        except UnknownName as error:
            raise UnknownName(f"{error}{_UNSEEN}", error.suggestions) from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.target_tags.required = False
        tags.classifier_tags.multi_class = False
        tags.no_validation = True  # names are no numbers; `fit` validates them itself
        return tags
