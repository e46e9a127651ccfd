"""The likeliest new triples: against scoring everything, stopped and resumed, written and read."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar import threads
from fivestar.cli.main import app
from fivestar.errors import OutputError, SettingsError
from fivestar.evaluation.calibration import Calibration
from fivestar.graph.triples import Triples
from fivestar.models import scoring
from fivestar.prediction import completion, completion_file
from fivestar.prediction.completion import Completer, Goal
from fivestar.prediction.completion_file import (
    CONFIDENCE,
    Completion,
    complete,
    complete_to_file,
    iri,
)

# Full learning rate everywhere, so that some calibrated probabilities are well above 3 %.
MODEL = {"dim": 6, "off-diagonal-lr": 1.0}
SETTINGS = {"model": MODEL, "training": {"epochs": 25, "evaluate-every": 0, "reg_weight": 0.01}}


@pytest.fixture(scope="module", params=[True, False], ids=["reciprocals", "plain"])
def model(request):
    training = SETTINGS["training"] | {"reciprocals": request.param}
    trained = fivestar.train(people_graph(0.2, 0.1), SETTINGS | {"training": training})
    # A curve with a slope everywhere; the one that is fitted to so few facts is flat.
    curve = Calibration("isotonic", (-6.0, -4.5, -3.0, -1.0, 0.0), (0.002, 0.01, 0.03, 0.4, 0.9))
    trained.__dict__["calibration"] = curve
    return trained


def everything(trained):
    """The probability of every new triple, by scoring all of them."""
    graph, model = trained.graph, trained.model
    n, count = len(graph.entities), len(graph.relations)
    found = {}
    for relation in range(count):
        every = torch.arange(n)
        tails = model.score_tails(every, torch.full((n,), relation)).detach()
        if len(model.relations) > count:
            heads = model.score_tails(every, torch.full((n,), relation + count)).detach()
        else:
            heads = model.score_heads(relation, every)
        shares = torch.log_softmax(tails, 1).numpy(), torch.log_softmax(heads, 1).numpy().T
        likely = sum(trained.calibration(share) for share in shares) / 2
        for head, tail in np.ndindex(n, n):
            found[head, relation, tail] = likely[head, tail]
    facts = set(map(tuple, graph.facts.array.tolist()))
    return {triple: p for triple, p in found.items() if triple not in facts}


@pytest.mark.parametrize(
    "goal",
    [
        Goal(top=25, slots="all"),
        Goal(top=400, slots="all"),
        Goal(threshold=0.03, slots="all"),
        Goal(threshold=0.012, slots="all"),
    ],
    ids=str,
)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_agrees_with_scoring_everything(model, goal, num_threads, monkeypatch, request):
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(num_threads)
    monkeypatch.setattr(threads, "_MIN_NUMBERS", 1)
    monkeypatch.setattr(scoring, "TILE", 16)
    monkeypatch.setattr(completion, "BATCH_SIZE", 11)
    monkeypatch.setattr(scoring, "BATCH_SIZE", 11)
    found = complete(model, goal)
    wanted = everything(model)
    assert len(found) > 3
    got = dict(zip(map(tuple, found.triples.array.tolist()), found.probabilities, strict=True))
    for triple, probability in got.items():
        assert probability == pytest.approx(wanted[triple], abs=1e-4)
    assert (np.diff(found.probabilities) <= 0).all()
    if goal.top is not None:
        best = sorted(wanted.values(), reverse=True)[: goal.top]
        np.testing.assert_allclose(found.probabilities, best, atol=1e-4)
    else:
        sure = {triple for triple, p in wanted.items() if p >= goal.threshold + 1e-4}
        assert sure <= set(got)
        assert all(wanted[triple] >= goal.threshold - 1e-4 for triple in got)


def test_what_cannot_be_decided_is_stated(model):
    """More triples are wanted than have any share worth looking at."""
    found = complete(model, Goal(top=100_000, slots="all"))
    assert found.floor == 0.001
    assert complete(model, Goal(top=5, slots="all")).floor is None
    assert complete(model, Goal(threshold=0.05, slots="all")).floor is None


@pytest.mark.parametrize("slots", ["seen", "all"])
def test_a_limit_of_queries_is_kept_and_stated(model, slots):
    calls = []
    every = complete(model, Goal(top=30, slots=slots), progress=lambda *call: calls.append(call))
    (needed,) = {total for _, total in calls}
    calls.clear()
    goal = Goal(top=30, slots=slots, max_queries=needed // 2)
    found = complete(model, goal, progress=lambda *call: calls.append(call))
    (total,) = {total for _, total in calls}
    assert calls[-1] == (total, total)
    assert total <= needed // 2
    assert (every.skipped, found.skipped) == (0, needed - total)
    wanted = everything(model)
    triples = map(tuple, found.triples.array.tolist())
    for triple, probability in zip(triples, found.probabilities, strict=True):
        assert probability == pytest.approx(wanted[triple], abs=1e-4)
    # A limit that is not reached changes nothing.
    enough = complete(model, Goal(top=5, slots=slots, max_queries=10 * needed))
    same = complete(model, Goal(top=5, slots=slots))
    assert enough.triples.array.tolist() == same.triples.array.tolist()
    assert enough.skipped == 0


def test_a_threshold_that_every_triple_reaches_is_refused(model):
    with pytest.raises(SettingsError, match=r"at least 0\.002, so a threshold of 0\.001"):
        complete(model, Goal(threshold=0.001))


@given(
    st.lists(st.integers(-900, 0), min_size=2, max_size=6, unique=True),
    st.lists(st.integers(1, 1000), min_size=6, max_size=6),
    st.floats(0.001, 0.999),
)
def test_the_least_log_prob_is_where_the_curve_reaches_a_probability(points, values, wanted):
    points, values = [x / 100 for x in points], [p / 1000 for p in values]
    isotonic = Calibration("isotonic", tuple(sorted(points)), tuple(sorted(values[: len(points)])))
    platt = Calibration("platt", (values[0], points[0]), ())
    for curve in (isotonic, platt):
        least = curve.min_log_prob(wanted)
        if np.isfinite(least):
            assert curve(least) == pytest.approx(wanted, abs=1e-6)
            assert (curve(np.linspace(least - 20, least, 50)) <= wanted + 1e-6).all()
        else:
            reached = curve(np.linspace(-30, 0, 50)) >= wanted
            assert reached.all() if least < 0 else not reached.any()


def test_another_model_of_the_same_beginning_is_another_completion(model, tmp_path, monkeypatch):
    def stopped(self, number, best, on_rows):
        raise KeyboardInterrupt

    monkeypatch.setattr(Completer, "complete_relation", stopped)
    with pytest.raises(KeyboardInterrupt):
        complete_to_file(tmp_path / "new.tsv", model, Goal(top=3))
    with torch.no_grad():
        model.model.entities[-1] += 1e-3
    with pytest.raises(OutputError, match="another completion"):
        complete_to_file(tmp_path / "new.tsv", model, Goal(top=3))
    with torch.no_grad():
        model.model.entities[-1] -= 1e-3


def test_seen_slots_only(model):
    found = complete(model, Goal(top=1000))
    train = model.graph.train
    loops = train.heads == train.tails
    for head, relation, tail in found.triples.array:
        here = train.relations == relation
        assert head in train.heads[here]
        assert tail in train.tails[here]
        assert head != tail or loops[here].mean() >= 0.03
    assert not found.triples.are_in(model.graph.facts).any()
    everywhere = complete(model, Goal(top=1000, slots="all"))
    assert len(everywhere) > len(found)


def test_some_relations(model):
    number = model.graph.relations.id_of("knows")
    found = complete(model, Goal(top=10), [number])
    assert set(found.triples.relations.tolist()) == {number}


def test_interrupted_completion_resumes(model, tmp_path, monkeypatch):
    out, goal = tmp_path / "new.parquet", Goal(top=20)
    asked = []
    whole = Completer.complete_relation

    def stopped(self, number, best, on_rows):
        asked.append(number)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return whole(self, number, best, on_rows)

    monkeypatch.setattr(Completer, "complete_relation", stopped)
    with pytest.raises(KeyboardInterrupt):
        complete_to_file(out, model, goal)
    assert not out.exists()
    with pytest.raises(OutputError, match="another completion"):
        complete_to_file(out, model, Goal(top=21))
    steps = []
    found = complete_to_file(out, model, goal, progress=lambda *step: steps.append(step))
    assert asked == [0, 1, 1]  # the first relation is not done again
    assert steps[-1][0] == steps[-1][1]
    monkeypatch.undo()
    straight = complete(model, goal)
    np.testing.assert_array_equal(found.triples.array, straight.triples.array)
    assert [path.name for path in tmp_path.iterdir()] == ["new.parquet"]
    assert pq.read_table(out).num_rows == 20


@pytest.mark.parametrize("suffix", completion_file.FORMATS)
def test_written_files_read_back(model, suffix, tmp_path):
    out = tmp_path / f"new{suffix}"
    found = complete_to_file(out, model, Goal(top=7))
    graph = model.graph
    names = [
        (graph.entities.name_of(h), graph.relations.name_of(r), graph.entities.name_of(t))
        for h, r, t in found.triples.array.tolist()
    ]
    if suffix == ".tsv":
        lines = [line.split("\t") for line in out.read_text().splitlines()]
        assert [tuple(line[:3]) for line in lines[1:]] == names
        assert float(lines[1][-1]) == pytest.approx(found.probabilities[0])
    elif suffix == ".parquet":
        rows = pq.read_table(out).to_pylist()
        assert [(row["head"], row["relation"], row["tail"]) for row in rows] == names
    else:
        lines = out.read_text().splitlines()
        assert len(lines) == 7 * 6
        assert sum(CONFIDENCE in line for line in lines) == 7
        assert all(line.endswith(" .") for line in lines)


def test_rdf_is_valid(model, tmp_path):
    oxigraph = pytest.importorskip("pyoxigraph")
    out = tmp_path / "new.nt"
    complete_to_file(out, model, Goal(top=7))
    triples = list(oxigraph.parse(path=str(out), format=oxigraph.RdfFormat.N_TRIPLES))
    assert len(triples) == 7 * 6


@pytest.mark.parametrize(
    "name", ["http://x.org/a", "<http://x.org/a>", "a b", 'q"<>\\^`{|}', "concept:x y", "ü", "%"]
)
def test_names_become_distinct_iris(name):
    found = iri(name, "entity")
    assert not set(found) & set('<>"{}|^`\\ \t\n')
    assert iri(name + "2", "entity") != found


def test_bad_requests(model, tmp_path):
    for bad, message in (
        ({}, "either"),
        ({"top": 1, "threshold": 0.5}, "either"),
        ({"threshold": 0.0}, "above 0"),
        ({"threshold": 1.5}, "at most 1"),
        ({"top": 0}, "at least 1"),
    ):
        with pytest.raises(SettingsError, match=message):
            Goal(**bad)
    with pytest.raises(OutputError, match=r"\.nt, \.tsv, \.parquet"):
        complete_to_file(tmp_path / "new.txt", model, Goal(top=1))
    (tmp_path / "new.tsv").touch()
    with pytest.raises(OutputError, match="exists already"):
        complete_to_file(tmp_path / "new.tsv", model, Goal(top=1))
    with pytest.raises(OutputError, match="make it first"):
        complete_to_file(tmp_path / "x" / "new.tsv", model, Goal(top=1))


@pytest.mark.filterwarnings("ignore:no fact of graph can be held out")
def test_without_validation():
    graph = fivestar.read_graph([(f"a{i}", "r", f"b{i % 3}") for i in range(9)])
    blind = fivestar.train(graph, {"model": {"dim": 4}, "training": {"epochs": 5}})
    with pytest.raises(SettingsError, match="without validation triples"):
        complete(blind, Goal(threshold=0.5))
    assert len(complete(blind, Goal(top=3))) == 3
    new = complete(blind, Goal(top=3))
    assert "probability" not in Completion.of(new, blind).table.schema.names


@pytest.mark.filterwarnings("ignore:no fact of graph can be held out")
def test_names_with_tabs_are_refused_early(tmp_path):
    graph = fivestar.read_graph([("a\tb", "r", "c"), ("c", "r", "d"), ("d", "r", "e")])
    run = fivestar.train(graph, {"model": {"dim": 2}, "training": {"epochs": 1}})
    with pytest.raises(OutputError, match=r"write \.parquet"):
        complete_to_file(tmp_path / "new.tsv", run, Goal(top=1))


def test_complete_command(tmp_path):
    folder = tmp_path / "run"
    fivestar.train(people_graph(0.2, 0.1), SETTINGS, folder)
    out = tmp_path / "new.tsv"
    words = ["complete", str(folder), "--top", "5", "--relation", "KNOWS", "--out", str(out)]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "5 new triples" in shown.output
    assert {line.split("\t")[1] for line in out.read_text().splitlines()[1:]} == {"knows"}
    everywhere = ["--threshold", "0.05", "--slots", "all", "--out", str(tmp_path / "all.nt")]
    assert CliRunner().invoke(app, ["complete", str(folder), *everywhere]).exit_code == 0


def test_unreachable_threshold_finds_nothing(model):
    none = complete(model, Goal(threshold=1.0))
    assert isinstance(none.triples, Triples)
    assert len(none) == 0
