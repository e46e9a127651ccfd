"""The cost model of benchmarks/: what threads, processes and the size of a step change."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import cost_model
from cost_model import Machine, Step, seconds_per_step, wire_bytes

MACHINE = Machine(1e11, 2e11, 5e10, 5e9, 1e9, 1e-4)


def test_products_of_a_step_with_nothing_else():
    fast = MACHINE._replace(score_bytes=1e30, row_bytes=1e30)
    step = Step(queries=500, triples=600, candidates=4096, dim=100)
    flops = 6 * 500 * (4096 + 600) * 200
    assert seconds_per_step(step, fast) == pytest.approx(flops / 1e11)
    assert seconds_per_step(step, fast, threads=2) == pytest.approx(flops / 2e11)


def test_processes_share_candidates_and_send_what_the_batch_needs():
    one, two = (seconds_per_step(Step(), MACHINE, processes=k) for k in (1, 2))
    assert one / 2 < two < one
    assert wire_bytes(Step(candidates=512), 2) == wire_bytes(Step(candidates=16384), 2)
    # Two processes send each number once; many processes send it twice at most.
    assert wire_bytes(Step(), 2) == 4 * 500 * (200 + 200 + 2)
    assert wire_bytes(Step(), 1000) < 2 * wire_bytes(Step(), 2)


def test_sizes_that_were_not_measured_are_left_out():
    assert list(cost_model.compared([{"entities": 10}], MACHINE)) == []


def test_the_verdict_names_what_is_predicted_badly(monkeypatch):
    found = [(10, "one thread", 1.3, 1.0), (20, "two threads", 1.0, 2.0)]
    monkeypatch.setattr(cost_model, "compared", lambda *_: found)
    assert cost_model.verdict([], MACHINE) == (
        "1 of 2 are predicted within 35 % (the aim); not so two threads with 20 entities (0.50 ×)."
    )
    monkeypatch.setattr(cost_model, "compared", lambda *_: found[:1])
    assert cost_model.verdict([], MACHINE) == "1 of 1 are predicted within 35 % (the aim)."
