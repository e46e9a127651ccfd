"""`LinkPredictor` is an estimator of scikit-learn, and its numbers are those of the model."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

import fivestar
from fivestar.errors import BadSource, MissingExtra, SettingsError, SplitImpossible, UnknownName
from fivestar.integrations.sklearn import LinkKFold, LinkPredictor

COLUMNS = ["head", "relation", "tail"]
FACTS = [(f"e{i}", f"r{j}", f"e{(i * 3 + j) % 20}") for i in range(20) for j in range(4)]
FRAME = pd.DataFrame(FACTS, columns=COLUMNS)
# These checks fit numbers that are no triples: another number of columns, or y that is no truth.
NUMERIC = "its X or y are numbers of another form than triples"
UNSEEN = "it predicts rows whose names were not among the facts"
NOT_APPLICABLE = {
    "check_array_api_input": "needs SCIPY_ARRAY_API",
    "check_classifier_data_not_an_array": NUMERIC,
    "check_classifiers_classes": NUMERIC,
    "check_classifiers_train": NUMERIC,
    "check_estimator_sparse_array": "names are never sparse",
    "check_estimator_sparse_matrix": "names are never sparse",
    "check_estimator_sparse_tag": NUMERIC,
    "check_estimators_dtypes": NUMERIC,
    "check_estimators_fit_returns_self": NUMERIC,
    "check_estimators_overwrite_params": NUMERIC,
    "check_estimators_pickle": UNSEEN,
    "check_fit2d_1feature": NUMERIC,
    "check_fit_check_is_fitted": NUMERIC,
    "check_fit_idempotent": NUMERIC,
    "check_pipeline_consistency": UNSEEN,
    "check_positive_only_tag_during_fit": NUMERIC,
    "check_readonly_memmap_input": NUMERIC,
}


def small(**options):
    return LinkPredictor(**{"dim": 4, "epochs": 3, **options})


@pytest.fixture(scope="module")
def fitted():
    return small(epochs=20).fit(FRAME)


@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn_that_apply_pass():
    failed, passed = set(), set()
    for estimator, check in estimator_checks_generator(small(epochs=1)):
        name = check.func.__name__
        try:
            check(estimator)
            passed.add(name)
        except Exception:
            if name not in NOT_APPLICABLE:
                raise
            failed.add(name)
    assert failed == set(NOT_APPLICABLE)
    assert len(passed) >= 25


def test_what_the_other_checks_test_holds_for_triples():
    estimator = small()
    parameters = estimator.get_params()
    with pytest.raises(NotFittedError):
        estimator.predict(FRAME)
    assert estimator.fit(FRAME) is estimator
    assert estimator.get_params() == parameters
    assert estimator.n_features_in_ == 3
    first = estimator.predict_proba(FRAME)
    assert (estimator.fit(FRAME).predict_proba(FRAME) == first).all()
    assert (pickle.loads(pickle.dumps(estimator)).predict_proba(FRAME) == first).all()  # noqa: S301
    assert (estimator.predict_proba(FACTS) == first).all()
    assert (estimator.predict_proba(FRAME[COLUMNS[::-1]]) == first).all()


def test_clone_copies_the_parameters_only(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "model_")
    assert repr(copy.set_params(dim=8)) == "LinkPredictor(dim=8, epochs=20)"


def test_probabilities_are_those_of_the_model(fitted):
    triples = [("e0", "r0", "e5"), ("e1", "r2", "e7"), ("e3", "r1", "e3")]
    expected = [fitted.model_.score(*triple) for triple in triples]
    assert all(each.state == "new" for each in expected)
    probabilities = fitted.predict_proba(triples)
    assert probabilities[:, 1].tolist() == pytest.approx([each.probability for each in expected])
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert (fitted.predict(triples) == (probabilities[:, 1] > 0.5)).all()


def test_score_is_the_filtered_mrr_of_the_model(fitted):
    held_out = fitted.model_.graph.named(fitted.model_.graph.valid)
    expected = fitted.model_.evaluate("valid")["mrr"]
    assert fitted.score(held_out.to_pandas()) == pytest.approx(expected)
    # Known answers of X do not count as wrong ones.
    more = pd.concat([held_out.to_pandas(), FRAME])
    truth = np.arange(len(more)) < len(held_out)
    assert fitted.score(more, truth) == pytest.approx(expected)


@pytest.mark.parametrize(
    "triples",
    [
        FACTS,
        np.array(FACTS),
        np.array(FACTS, dtype=object),
        pl.DataFrame(FACTS, schema=COLUMNS, orient="row"),
        FRAME.rename(columns={"head": "subject", "relation": "predicate", "tail": "object"}),
        FRAME[["tail", "relation", "head"]].assign(weight=1.0, split="test"),
    ],
    ids=["list", "array", "objects", "polars", "renamed", "reordered"],
)
def test_triples_come_in_many_forms(triples):
    graph = small(epochs=1).fit(triples).model_.graph
    names = graph.named(graph.facts).to_pandas()
    assert set(names.itertuples(index=False, name=None)) == set(FACTS)


def test_integers_are_names():
    numbers = FRAME.map(lambda name: int(name[1:]))
    for form in (numbers, numbers.to_numpy()):
        fitted = small(epochs=1).fit(form)
        assert fitted.predict_proba(form[:2]).shape == (2, 2)
        assert "17" in fitted.model_.graph.entities


def test_y_marks_the_facts():
    false = FRAME.assign(tail=FRAME["head"])[:10]
    both = pd.concat([FRAME, false], ignore_index=True)
    for truth in (np.arange(90) < 80, (np.arange(90) < 80).astype(int)):
        fitted = small().fit(both, truth)
        assert len(fitted.model_.graph.facts) == 80
        assert fitted.classes_.tolist() == [0, 1]
        assert fitted.predict(both).dtype == truth.dtype
        assert fitted.score(both, truth) == pytest.approx(fitted.score(FRAME), abs=1e-6)


def test_parameters_reach_the_training():
    settings = {"reciprocals": False, "regularizer": "n3"}
    fitted = small(
        model="complex", lr=0.03, batch_size=17, reg_weight=0.2, valid=7, settings=settings,
        random_state=5,
    ).fit(FRAME)  # fmt: skip
    chosen = fitted.model_.settings
    assert (chosen.model.name, chosen.model.dim) == ("complex", 4)
    training = chosen.training
    assert (training.lr, training.batch_size, training.reg_weight) == (0.03, 17, 0.2)
    assert (training.epochs, training.seed, training.reciprocals) == (3, 5, False)
    assert len(fitted.model_.graph.valid) == 7
    one, other = (
        small(random_state=np.random.RandomState(seed)).fit(FRAME).model_.settings.training.seed
        for seed in (0, 1)
    )
    assert one != other


def test_verbose_shows_progress(monkeypatch):
    shown = []
    module = sys.modules["fivestar.integrations.sklearn.predictor"]
    train = module.train
    monkeypatch.setattr(
        module, "train", lambda *a, progress, **k: shown.append(progress) or train(*a, **k)
    )
    small(epochs=1, verbose=True).fit(FRAME)
    small(epochs=1).fit(FRAME)
    assert shown == [True, False]


def test_it_works_in_a_pipeline_and_with_a_threshold():
    lower = FunctionTransformer(lambda frame: frame.map(str.casefold))
    pipeline = Pipeline([("lower", lower), ("links", small())])
    upper = FRAME.map(str.upper)
    assert pipeline.fit(upper).score(upper) > 0
    assert pipeline.predict_proba(upper[:3]).shape == (3, 2)
    strict, lenient = (
        FixedThresholdClassifier(small(), threshold=threshold, response_method="predict_proba")
        .fit(FRAME, np.ones(80, int))
        .predict(FRAME)
        for threshold in (1.0, 0.0)
    )
    assert (strict.sum(), lenient.sum()) == (0, 80)


def test_cross_validation_and_grid_search():
    folds = LinkKFold(3)
    scores = cross_val_score(small(), FRAME, cv=folds, error_score="raise")
    assert scores.shape == (3,)
    assert (scores > 0).all()
    search = GridSearchCV(small(), {"epochs": [1, 30]}, cv=folds, error_score="raise")
    search.fit(FRAME)
    assert search.best_params_ == {"epochs": 30}
    assert search.best_estimator_.model_.settings.training.epochs == 30
    rng = np.random.default_rng(0)
    false = FRAME.assign(tail=rng.permutation(FRAME["tail"]))
    both = pd.concat([FRAME, false], ignore_index=True)
    truth = np.arange(160) < 80
    scores = cross_val_score(
        small(), both, truth, cv=folds, scoring="average_precision", error_score="raise"
    )
    assert ((scores > 0) & (scores <= 1)).all()


@pytest.mark.parametrize("pairs", ["together", "free"])
def test_folds_are_disjoint_and_have_no_unseen_names(pairs):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"head": rng.integers(0, 15, 120), "relation": rng.integers(0, 3, 120),
         "tail": rng.integers(0, 15, 120)}
    )  # fmt: skip
    frame.loc[120] = [99, 0, 1]  # its only fact
    frame.loc[121] = frame.loc[0]  # a duplicate stays with its original
    truth = np.ones(122, bool)
    truth[5:15] = False
    tested = np.zeros(122, int)
    for train, test in LinkKFold(4, pairs=pairs).split(frame, truth):
        assert set(train) | set(test) == set(range(122))
        assert not set(train) & set(test)
        tested[test] += 1
        facts = frame.iloc[[row for row in train if truth[row]]]
        seen = set(facts["head"]) | set(facts["tail"])
        held_out = frame.iloc[test]
        assert set(held_out["head"]) | set(held_out["tail"]) <= seen
        assert set(held_out["relation"]) <= set(facts["relation"])
        if pairs == "together":
            ends = {frozenset(pair) for pair in facts[["head", "tail"]].itertuples(index=False)}
            rows = [row for row in test if truth[row]]
            assert all(
                frozenset(pair) not in ends
                for pair in frame.iloc[rows][["head", "tail"]].itertuples(index=False)
            )
    assert tested.max() == 1
    assert tested[120] == 0
    assert tested[:120].sum() > 100
    first, again = (list(LinkKFold(4, random_state=3).split(frame)) for _ in range(2))
    assert all((a[1] == b[1]).all() for a, b in zip(first, again, strict=True))


@pytest.mark.filterwarnings("ignore:training without validation")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: p.predict([("e0", "r0", "x9")]), UnknownName, "LinkKFold"),
        (lambda p: p.predict([("e0", "r0")]), BadSource, "row 0: has 2 fields"),
        (lambda p: p.predict([("e0", 1.5, "e1")]), BadSource, "use a string"),
        (lambda p: p.score(FRAME, np.zeros(80, int)), SettingsError, "no fact"),
        (lambda p: p.score(FRAME, np.ones(3, int)), SettingsError, "80 triples"),
        (lambda p: small().fit(FRAME, ["yes"] * 80), SettingsError, "whether it is a fact"),
        (lambda p: small(settings={"epoch": 3}).fit(FRAME), SettingsError, "epochs"),
        (lambda p: small(valid=0).fit(FRAME).predict(FRAME), SettingsError, "valid above 0"),
        (lambda p: LinkKFold(1), SettingsError, "at least 2"),
        (lambda p: list(LinkKFold(2).split([("a", "r", "b")])), SplitImpossible, "fewer folds"),
    ],
)
def test_bad_input_says_what_to_do(fitted, call, error, message):
    with pytest.raises(error, match=message):
        call(fitted)


def test_it_is_a_name_of_fivestar_and_names_its_extra(monkeypatch):
    assert fivestar.LinkPredictor is LinkPredictor
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "fivestar.integrations.sklearn")
    with pytest.raises(MissingExtra, match=r"fivestar-kge\[sklearn\]"):
        _ = fivestar.LinkPredictor
