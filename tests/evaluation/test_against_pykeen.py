"""The same scores give the same metrics as PyKEEN's evaluator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fivestar
from fivestar.evaluation.report import evaluate
from fivestar.models.registry import make_model

pytestmark = [pytest.mark.pykeen, pytest.mark.filterwarnings("ignore")]

THEIRS = {
    "mrr": "inverse_harmonic_mean_rank",
    "hits@1": "hits_at_1",
    "hits@3": "hits_at_3",
    "hits@10": "hits_at_10",
    "mr": "arithmetic_mean_rank",
    "amri": "adjusted_arithmetic_mean_rank_index",
}


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, n, 600) for n in (40, 3, 40)]
    triples = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in zip(*columns, strict=True)]
    return fivestar.split_graph(fivestar.read_graph(triples), valid=0.1, test=0.2)


@pytest.mark.parametrize("tied", [True, False])
def test_metrics_equal_pykeen_on_the_same_scores(graph, tied):
    evaluation = pytest.importorskip("pykeen.evaluation")
    relations = len(graph.relations)
    model = make_model("distmult", len(graph.entities), 2 * relations, 4)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for table in model.parameters():
            table.normal_(generator=generator)
            if tied:
                table.round_()
    true = {tuple(fact) for fact in graph.facts.array.tolist()}
    theirs = evaluation.RankBasedEvaluator(filtered=True)
    for h, r, t in graph.test.array.tolist():
        row = torch.tensor([[h, r, t]])
        for side, query, answer, others in (
            ("tail", (h, r), t, [e for e in range(len(graph.entities)) if (h, r, e) in true]),
            (
                "head",
                (t, r + relations),
                h,
                [e for e in range(len(graph.entities)) if (e, r, t) in true],
            ),
        ):
            scores = model.score_tails(*(torch.tensor([number]) for number in query))
            goal = scores[:, [answer]].clone()
            scores[0, others] = torch.nan
            scores[0, answer] = goal[0, 0]
            theirs.process_scores_(row, side, scores, goal)
    results = theirs.finalize()
    ours = evaluate(model, graph, graph.test).metrics()
    for mine, name in THEIRS.items():
        for side, metrics in (("both", ours), ("head", ours["heads"]), ("tail", ours["tails"])):
            expected = results.get_metric(f"{side}.realistic.{name}")
            assert metrics[mine] == pytest.approx(expected, abs=1e-6), (side, mine)
    for kind in ("optimistic", "pessimistic"):
        expected = results.get_metric(f"both.{kind}.inverse_harmonic_mean_rank")
        assert ours[f"mrr_{kind}"] == pytest.approx(expected, abs=1e-6)
    assert (ours["mrr_optimistic"] > ours["mrr_pessimistic"]) == tied
