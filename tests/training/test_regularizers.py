"""Penalties as written out, and their gradients, at 0 too."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from fivestar.errors import SettingsError
from fivestar.plugins import REGULARIZERS
from fivestar.runs.settings import make_settings
from fivestar.training.regularizers import Regularizer, make_regularizer, register_regularizer

MODULI = st.lists(st.floats(0, 10), min_size=1, max_size=6)


@given(MODULI, st.floats(2, 6))
@example([0.0, 0.5, 3.0], 3.0)  # has its own code
def test_the_penalty_is_the_power_of_the_modulus(moduli, exponent):
    x = torch.tensor(moduli, dtype=torch.float64, requires_grad=True)
    penalty = make_regularizer("n3-transformed", exponent).penalty(x.square())
    torch.testing.assert_close(penalty, x.detach() ** exponent)
    (gradient,) = torch.autograd.grad(penalty.sum(), x)
    torch.testing.assert_close(gradient, exponent * x.detach() ** (exponent - 1))


def test_the_gradient_at_0_is_0():
    x = torch.zeros(3, requires_grad=True)
    for exponent in (2.0, 2.25, 2.5, 3.0):
        make_regularizer("n3", exponent).penalty(x.square()).sum().backward()
    assert not x.grad.any()


def test_an_exponent_of_3_is_the_registered_regularizer():
    assert make_regularizer("n3", 3.0) is make_regularizer("n3")
    assert make_regularizer("none", 2.5) is None


def test_an_exponent_that_would_do_nothing_is_refused():
    training = {"regularizer": "dura", "reg_exponent": 2.5}
    with pytest.raises(SettingsError, match="reg_exponent has no effect with the regularizer dura"):
        make_settings({"training": training})
    with pytest.raises(SettingsError, match="reg_exponent"):
        make_settings({"training": {"reg_exponent": 1.5}})


def test_a_regularizer_can_be_registered_by_a_decorator(monkeypatch):
    monkeypatch.setattr(REGULARIZERS, "_registered", {})
    n4 = Regularizer(torch.square, "transformed")
    assert register_regularizer("n4")(n4) is n4
    assert make_regularizer("n4") is n4
