"""`LinkPredictor`: link prediction as an estimator of scikit-learn, and folds for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fivestar.errors import BadLine, SettingsError, SplitImpossible, UnknownName
from fivestar.evaluation import report
from fivestar.extras import require
from fivestar.graph.encoding import Encoder
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.readers import reader_for
from fivestar.graph.readers.base import ReadOptions, Tally, TripleColumns
from fivestar.graph.readers.frames import table_columns
from fivestar.graph.reading import read_graph
from fivestar.graph.splitting import cross_validation_folds
from fivestar.graph.triples import Triples
from fivestar.prediction.predict import triple_probabilities
from fivestar.prediction.train import train
from fivestar.prediction.trained_model import TrainedModel

require("sklearn", "sklearn", "fivestar.LinkPredictor")

from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.utils import check_random_state  # noqa: E402
from sklearn.utils.multiclass import type_of_target  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

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
        columns = _columns(X)
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
        columns = _columns(X)
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


class LinkKFold:
    """Folds of triples for cross_val_score and GridSearchCV, without leaks or unseen entities.

    Every entity and relation of a fold keeps a fact outside of it, and facts between the same two
    entities are in the same fold, as in `fivestar.split_graph`. A triple that cannot be held out is
    trained on in every fold.

    Args:
        n_splits: number of folds.
        random_state: random seed.
        pairs: "together", or "free" to split each fact independently of others between the same
            entities.

    >>> facts = [(a, "next", b) for a in "abcdef" for b in "abcdef" if a != b]
    >>> [len(test) for _, test in LinkKFold(3).split(facts)]
    [10, 10, 10]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        random_state: int = 0,
        pairs: Literal["together", "free"] = "together",
    ) -> None:
        if n_splits < 2:
            raise SettingsError(f"n_splits must be at least 2, not {n_splits}")
        self.n_splits = n_splits
        self.random_state = random_state
        self.pairs = pairs

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: N803
        """Return the number of folds."""
        del X, y, groups
        return self.n_splits

    def split(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        groups: Any = None,
    ) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        """Yield the rows to train on and those to test on, per fold.

        Args:
            X: triples (n, 3).
            y: which of them are facts (n,); None: all. False triples are in some fold at random, if
                their entities and relation have a fact.
            groups: not used.

        Raises:
            SplitImpossible: if a fold is empty.
        """
        del groups
        names = _columns(X)
        is_fact = Truth.of(y).rows(len(names[0]))
        heads, relations, tails = (pa.chunked_array([column]) for column in names)
        triples = Encoder().encode([TripleColumns(heads, relations, tails)])
        rows, false_rows = np.flatnonzero(is_fact), _known_negatives(triples, is_fact)
        distinct, same = np.unique(triples.array[rows], axis=0, return_inverse=True)
        shuffled = np.random.default_rng(self.random_state).permutation(false_rows)
        folds = cross_validation_folds(
            Triples.of(distinct), self.n_splits, seed=self.random_state, pairs=self.pairs
        )
        for number, fold in enumerate(folds):
            if not len(fold):
                raise SplitImpossible(
                    f"no fact can be held out for fold {number}: each is the only one of an entity "
                    "or a relation; use fewer folds or more facts"
                )
            test = np.zeros(len(triples), bool)
            test[rows[np.isin(same.reshape(-1), fold)]] = True
            test[shuffled[number :: self.n_splits]] = True
            yield np.flatnonzero(~test), np.flatnonzero(test)


def _known_negatives(triples: Triples, is_fact: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return the rows of false triples whose entities and relation have a fact."""
    facts = triples.take(is_fact)
    ends = np.concatenate([facts.heads, facts.tails])
    known = np.isin(triples.heads, ends) & np.isin(triples.tails, ends)
    return np.flatnonzero(~is_fact & known & np.isin(triples.relations, facts.relations))


def _columns(X: Any) -> tuple[pa.Array, pa.Array, pa.Array]:  # noqa: N803
    """Return triples as three columns of names, in their order.

    Raises:
        BadSource: if they are not triples; the message names the row.
    """
    if hasattr(X, "__arrow_c_stream__"):
        table = X if isinstance(X, pa.Table) else pa.table(X)
        table = table.select(list(table_columns(table.column_names, ReadOptions(), "X")))
        source: Any = table.rename_columns(["head", "relation", "tail"])
    else:
        source = X.tolist() if isinstance(X, np.ndarray) else X
    try:
        pieces = list(reader_for(source).read(source, ReadOptions(), Tally("X", "row")))
    except BadLine as error:
        reason = str(error).partition("\nFix")[0]
        raise BadLine(f"{reason}\nFix this row of X.", source="X", line=error.line) from None
    heads, relations, tails = (
        pa.chunked_array([chunk for piece in pieces for chunk in getattr(piece, name).chunks])
        .cast(pa.large_string())
        .combine_chunks()
        for name in ("heads", "relations", "tails")
    )
    return heads, relations, tails


class Truth(NamedTuple):
    """Which triples are facts (None: all), and the values of false and true in y."""

    values: npt.NDArray[np.bool_] | None
    classes: npt.NDArray[Any]

    @classmethod
    def of(cls, y: Any) -> Truth:
        """Read y.

        Raises:
            SettingsError: if it has other values than 0 and 1, or no triple is a fact.
        """
        if y is None:
            return cls(None, np.array([False, True]))
        values = np.asarray(y)
        if values.dtype.kind not in "biu" or not np.isin(values, (0, 1)).all():
            kind = type_of_target(values, raise_unknown=False)
            raise SettingsError(
                "y says for each triple whether it is a fact, by 0 and 1 or False and True. Only "
                f"binary classification is supported. The type of the target is {kind}."
            )
        if not values.any():
            raise SettingsError("y has no fact, only one class: there is nothing to learn from")
        return cls(values.astype(bool), np.array([0, 1], values.dtype))

    def rows(self, count: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the facts among `count` triples.

        Raises:
            SettingsError: if y has another length.
        """
        if self.values is None:
            return np.ones(count, bool)
        if self.values.shape != (count,):
            shape = self.values.shape
            raise SettingsError(f"y has the shape {shape}, but there are {count} triples")
        return self.values
