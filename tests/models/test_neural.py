"""Dropout by random bits has the rate, the scale and the gradient of torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fivestar.models.neural import _drop_out


@pytest.mark.parametrize("rate", [0.1, 0.4, 0.5, 0.99])
@pytest.mark.parametrize("shape", [(100_000,), (77, 13, 101)])
def test_dropout_by_random_bits(rate, shape):
    torch.manual_seed(0)
    x = torch.ones(shape, requires_grad=True)
    dropped = _drop_out(nn.Dropout(rate), x)
    kept = dropped != 0
    standard_error = (rate * (1 - rate) / x.numel()) ** 0.5
    assert kept.float().mean().item() == pytest.approx(1 - rate, abs=5 * standard_error + 2**-16)
    scale = 1 / (1 - rate)
    torch.testing.assert_close(
        dropped[kept], torch.full_like(dropped[kept], scale), rtol=2e-3, atol=0
    )
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, dropped.detach())
    torch.manual_seed(0)
    torch.testing.assert_close(_drop_out(nn.Dropout(rate), x), dropped, rtol=0, atol=0)


def test_neighboring_numbers_are_dropped_independently():
    torch.manual_seed(1)
    kept = (_drop_out(nn.Dropout(0.5), torch.ones(40_000, 4)) != 0).float()
    correlation = torch.corrcoef(kept.T) - torch.eye(4)
    assert correlation.abs().max() < 5 / 200


@pytest.mark.parametrize("layer", [nn.Dropout(0.5).eval(), nn.Dropout(0.0)])
def test_nothing_is_dropped_in_evaluation_or_at_rate_0(layer):
    x = torch.randn(5, 3)
    assert torch.equal(_drop_out(layer, x), x)
