"""The score of an ensemble is the sum of the scores of its runs."""

from __future__ import annotations

import pytest
import torch
from experiments.tuning.ensemble import concatenated
from tests.graphs import people_graph

import fivestar
from fivestar.errors import SettingsError


def trained(seed, **model):
    training = {"epochs": 2, "batch_size": 20, "seed": seed}
    return fivestar.train(people_graph(), {"model": {"dim": 3, **model}, "training": training})


@pytest.mark.parametrize("name", ["fivestar", "complex", "quate", "distmult"])
def test_scores_are_added(name):
    runs = [trained(seed, name=name, dim=dim) for seed, dim in enumerate((3, 4, 3))]
    heads, relations = torch.tensor([0, 2, 3]), torch.tensor([1, 0, 1])
    with torch.no_grad():
        scores = [run.model.score_tails(heads, relations) for run in runs]
        together = concatenated(runs).score_tails(heads, relations)
    assert scores[0].abs().max() > 0
    torch.testing.assert_close(together, sum(scores))


def test_runs_that_cannot_be_ensembled_are_refused():
    with pytest.raises(SettingsError, match="different models"):
        concatenated([trained(0), trained(0, pairing="bilinear")])
    with pytest.raises(SettingsError, match="not a sum"):
        concatenated([trained(0, score="distance"), trained(1, score="distance")])
