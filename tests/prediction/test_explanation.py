"""Explanations agree with evaluation, and handle triples without any evidence."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import AmbiguousName, SettingsError, UnknownName
from fivestar.evaluation.report import evaluate
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.models.registry import MODELS
from fivestar.prediction.explanation import Explainer
from fivestar.runs.run import Run, build_model


def explain(run, *triple, **arguments):
    return Explainer(run).explain(*triple, **arguments)


def run_on(graph, name="fivestar", **training):
    settings = fivestar.make_settings({"model": {"name": name, "dim": 6}, "training": training})
    model = build_model(graph, settings)
    model.reset_parameters(torch.Generator().manual_seed(3))
    return Run(graph, settings, model)


@pytest.fixture(scope="module")
def people():
    return run_on(people_graph())


@pytest.fixture(scope="module")
def lonely():
    """A relation without facts, an entity without any, and one that is joined to itself."""
    names = ["a", "b", "c", "alone", "[red]x", "twin 1", "twin 2"]
    labels = ["Alpha", None, None, None, None, "Twin", "Twin"]
    graph = fivestar.KnowledgeGraph(
        "lonely",
        Vocabulary("entity", names, labels),
        Vocabulary("relation", ["r", "s", "unused"]),
        Triples.of([(0, 0, 1), (1, 0, 2), (2, 1, 0), (0, 1, 0), (4, 0, 0)]),
    )
    return run_on(graph)


@pytest.mark.parametrize("reciprocals", [True, False])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_ranks_agree_with_evaluation(reciprocals, split):
    run = run_on(people_graph(), "complex", reciprocals=reciprocals)
    facts = run.graph.split(split).take(np.arange(3))
    whole = evaluate(run.model, run.graph, facts)
    tails, heads = (
        ranks.without_self(whole.self_hidden) for ranks in (whole.tail_ranks, whole.head_ranks)
    )
    explainer = Explainer(run)
    for row, (h, r, t) in enumerate(run.graph.named(facts).to_pandas().itertuples(index=False)):
        found = explainer.explain(h, r, t)
        assert found.tail_rank.rank == tails.realistic[row]
        assert found.tail_rank.candidates == tails.candidates[row]
        assert found.head_rank.rank == heads.realistic[row]
        assert found.head_rank.candidates == heads.candidates[row]
        assert found.splits == (split,)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_an_explanation_in_json(name):
    run = run_on(people_graph(), name)
    found = explain(run, "P0", "KNOWS", "p7", top=3)
    reported = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert reported["head"] == {"id": "p0", "label": "p0"}
    assert len(reported["analogies"]) == 3
    assert (reported["dimensions"] is None) == (name in {"conve", "murp"})
    if reported["dimensions"] is not None:
        parts = reported["dimensions"]
        total = parts["positive"] + parts["negative"] + parts["bias"]
        assert total == pytest.approx(reported["score"], rel=1e-4, abs=1e-6)


def test_a_triple_is_no_evidence_for_itself(people):
    for h, r, t in people.graph.named(people.graph.train).to_pandas().head(20).to_numpy():
        found = explain(people, h, r, t, top=100)
        assert (h, t) not in [(each.head.id, each.tail.id) for each in found.analogies]
        for pattern in found.paths.patterns:
            direct = len(pattern.links) == 1 and not pattern.links[0].inverse
            assert not (direct and pattern.links[0].relation.id == r)
            assert pattern.example[0].id == h
            assert pattern.example[-1].id == t
            assert len(pattern.example) == len(pattern.links) + 1


def test_labels_are_found_and_shown(lonely):
    found = explain(lonely, "alpha", "R", "b")
    assert (found.head.id, found.head.label, str(found.head)) == ("a", "Alpha", "Alpha (a)")
    assert found.paths.patterns[0].example_text() == "Alpha ←s— c ←r— b"


def test_no_path_no_facts_and_no_analogies(lonely):
    found = explain(lonely, "alone", "unused", "a")
    assert found.paths.patterns == ()
    assert found.paths.paths_by_length == {1: 0, 2: 0, 3: 0}
    assert found.analogies == ()
    assert found.relation_triples == 0
    assert found.splits == ()
    assert explain(lonely, "a", "unused", "b").paths.patterns[0].confidence == 0


def test_self_loops(lonely):
    found = explain(lonely, "a", "r", "a")
    loops = {"".join(map(str, pattern.links)) for pattern in found.paths.patterns}
    assert loops == {"—s→", "—r→—r→—s→", "←s—←r—←r—"}
    known = explain(lonely, "a", "s", "a")
    assert known.splits == ("train",)
    assert "—s→" not in {"".join(map(str, pattern.links)) for pattern in known.paths.patterns}


def test_bad_requests(lonely):
    with pytest.raises(UnknownName, match="did you mean 'Alpha'"):
        explain(lonely, "Alpa", "r", "b")
    with pytest.raises(UnknownName, match="did you mean 'unused'"):
        explain(lonely, "a", "unusd", "b")
    with pytest.raises(AmbiguousName, match=r"twin 1 \(Twin\), twin 2 \(Twin\)"):
        explain(lonely, "a", "r", "twin")
    with pytest.raises(SettingsError, match="at least 1"):
        explain(lonely, "a", "r", "b", top=0)


def test_explain_command(lonely, people, tmp_path):
    lonely.save(tmp_path / "lonely")
    people.save(tmp_path / "people")
    run_on(people.graph, "conve").save(tmp_path / "conve")

    def shown(*words):
        result = CliRunner().invoke(app, ["explain", *map(str, words)])
        assert result.exit_code == 0, result.output
        return result.output

    text = shown(tmp_path / "lonely", "a", "r", "b")
    for part in (
        "Alpha  r  b",
        "a  r  b",
        "in train",
        "For (+) and against (−) it in train",
        "for example",
        "Alpha ←s— c ←r— b",
        "dimension",
    ):
        assert part in text
    assert "[red]x" in text  # no markup
    empty = shown(tmp_path / "lonely", "alone", "unused", "a")
    for part in ("not in the graph", "Nothing in train speaks", "No other fact", "No path"):
        assert part in empty
    assert "connects no other pair" in shown(tmp_path / "lonely", "a", "r", "a")
    assert "not a sum over dimensions" in shown(tmp_path / "conve", "p0", "knows", "p7")
    reported = json.loads(shown(tmp_path / "people", "p0", "knows", "p7", "--top", 2, "--json"))
    assert len(reported["analogies"]) == len(reported["dimensions"]["largest"]) == 2
