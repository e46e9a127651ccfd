"""The clock of trainings: wall time, and within a context CPU time."""

from __future__ import annotations

import time

import pytest

from fivestar.training.clock import cpu_time, now


def elapsed(seconds):
    began = now()
    time.sleep(seconds)
    return now() - began


def test_only_wall_time_passes_while_a_process_sleeps():
    assert elapsed(0.05) >= 0.05
    with cpu_time():
        assert elapsed(0.05) < 0.05
        began = now()
        while now() - began < 0.01:  # it ends, so CPU time passes
            pass
    assert elapsed(0.05) >= 0.05


def test_an_error_within_the_context_gives_the_wall_time_back():
    with pytest.raises(KeyError), cpu_time():
        raise KeyError
    assert elapsed(0.05) >= 0.05
