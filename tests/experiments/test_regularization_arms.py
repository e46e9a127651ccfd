"""Every arm of the regularization table trains, and in another way than the base."""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

import pytest
from tests.graphs import people_graph

FOLDER = Path(__file__).parents[2] / "experiments" / "defaults"
sys.path.insert(0, str(FOLDER))
import regularization_arms as script  # noqa: E402  (a script that imports its neighbor)

sys.path.remove(str(FOLDER))
GIVEN = argparse.Namespace(
    graph="people",
    epochs=3,
    lr=0.3,
    reg_weight=0.1,
    batch_size=30,
    num_candidates=8,
    precision="float32",
)


@functools.cache
def trained(arm):
    trainer = script._trainer(
        people_graph(), script.ARMS[arm], script.settings_for(script.ARMS[arm], GIVEN, 0, 3)
    )
    assert trainer.settings.training.reg_exponent == 3
    return trainer.run(lambda _: None).candidates().detach()


@pytest.mark.parametrize("arm", [name for name in script.ARMS if name != "base"])
def test_an_arm_changes_the_training(arm):
    change = (trained(arm) - trained("base")).abs().max()
    assert 0 < change < float("inf")


def test_the_base_is_an_arm_of_its_own_line():
    line = script.run_arm(people_graph(), "base", 0, 1.5, GIVEN)
    assert line["settings_values"]["training"]["epochs"] == 2  # 3 epochs at 1.5 times the cost
    assert 0 < line["valid_mrr"] <= 1
