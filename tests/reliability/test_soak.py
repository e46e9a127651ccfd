"""The soak test and the hostile requests of benchmarks/: verdict, page, and a short run."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from benchmarks import hostile, soak


@pytest.mark.parametrize("module", [soak, hostile])
def test_the_page_shows_what_was_recorded(module):
    assert module.page() == module.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", soak.TOLERANCE)
def test_noise_is_flat_and_a_leak_is_not(kind):
    rng = np.random.default_rng(0)
    allowed = soak.TOLERANCE[kind](200)
    noise = 200 + rng.normal(0, allowed / 5, 360)
    warm_up = np.where(np.arange(360) < 36, -100, 0)
    assert soak.is_flat(soak.growth([*(noise + warm_up)]), kind)
    leak = np.linspace(0, 2 * allowed, 360)
    assert not soak.is_flat(soak.growth([*(noise + leak)]), kind)
    # The medians alone would not show a leak if all is released at the end.
    assert not soak.is_flat(soak.growth([*(noise + 2 * leak)[:324], *noise[324:]]), kind)


@pytest.mark.slow
def test_a_short_run_has_no_errors():
    command = [sys.executable, soak.__file__, "--minutes", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert '"error_count": 0' in done.stdout, done.stdout + done.stderr
