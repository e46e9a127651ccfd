"""What dimensions contribute adds up to the score, and maps are reported in words."""

from __future__ import annotations

import json

import pytest
import torch
from tests.models.forms import FORMS, made

import fivestar
from fivestar.geometry.classification import MobiusClass
from fivestar.models.similarity import AutogradSimilarity
from fivestar.prediction.explanation import _mobius_map, contributions, terms
from fivestar.prediction.paths import TripleIds
from fivestar.runs.run import Run

TRIPLE = TripleIds(2, 1, 5)
NOT_A_SUM = {"conve", "murp"}


def score(model, asked):
    ids = (torch.tensor([number]) for number in (asked.head, asked.relation, asked.tail))
    with torch.no_grad():
        return float(model.score(*ids)[0])


@pytest.mark.parametrize("form", [form for form in FORMS if form not in NOT_A_SUM])
def test_contributions_add_up_to_the_score(form):
    model = made(form)
    each, biases = terms(model, TRIPLE, dim=4)
    assert len(each) == 4
    assert float(each.sum()) + biases == pytest.approx(score(model, TRIPLE), rel=1e-6, abs=1e-6)
    if form == "mure":
        assert biases != 0


@pytest.mark.parametrize("form", sorted(NOT_A_SUM))
def test_scores_that_are_not_sums_have_no_contributions(form):
    assert terms(made(form), TRIPLE, dim=4) is None


def test_third_party_similarity_that_is_not_a_sum():
    class Odd(AutogradSimilarity):
        def score_pairs(self, query, tails):
            return (query * tails).sum(dim=-1).tanh()

    model = made("distmult")
    model.similarity = Odd()
    assert terms(model, TRIPLE, dim=4) is None


def test_a_dimension_has_real_and_imaginary_part():
    model = made("complex")
    each, _ = terms(model, TRIPLE, dim=4)
    with torch.no_grad():
        columns = model.query(torch.tensor([2]), torch.tensor([1]))[0] * model.entities[5]
    torch.testing.assert_close(each, columns[:4] + columns[4:])


def fivestar_run(**options):
    graph = fivestar.read_graph([(f"e{i}", f"r{i % 3}", f"e{i + 1}") for i in range(6)])
    settings = fivestar.make_settings({"model": {"dim": 4, **options}})
    return Run(graph, settings, made("fivestar mobius hermitian inner", relations=6, **options))


def test_largest_contributions_come_first_with_their_maps():
    run = fivestar_run()
    matrix = run.model.relations.detach()[1].view(4, 2, 4)  # a, b, c, d; parts; dimensions
    matrix.zero_()
    matrix[0, 0] = torch.tensor([0.0, 2.0, 1.0, 1.0])  # a: i, 2, 1, 1
    matrix[0, 1, 0] = 1.0
    matrix[1, 0, 2] = 1.0  # b, in dimension 2
    matrix[3, 0] = 1.0  # d
    found = contributions(run, TRIPLE, top=9)
    sizes = [abs(each.contribution) for each in found.largest]
    assert sizes == sorted(sizes, reverse=True)
    assert found.positive + found.negative == pytest.approx(score(run.model, TRIPLE))
    descriptions = {each.dimension: each.map.description for each in found.largest}
    assert descriptions == {
        0: "rotates by 90°",
        1: "scales by 2",
        2: "translates",
        3: "identity",
    }
    assert len(contributions(run, TRIPLE, top=2).largest) == 2


def test_only_the_exact_map_is_described():
    found = contributions(fivestar_run(denominator="phase"), TRIPLE, top=2)
    assert [each.map for each in found.largest] == [None, None]


def test_descriptions_of_all_classes_are_json():
    for kind in MobiusClass:
        reported = _mobius_map(
            kind, complex(float("inf"), 0) if kind is MobiusClass.DEGENERATE else 1 - 1j
        )
        assert reported.description
        json.dumps(vars(reported), allow_nan=False)
    assert (
        _mobius_map(MobiusClass.LOXODROMIC, 1 - 1j).description == "rotates by −45°, scales by 1.4"
    )
