"""Products by oneDNN equal those by MKL for every layout, and are used where they are faster."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fivestar.models import products
from fivestar.models.products import add_product, product, write_product

needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN"
)
LAYOUTS = ("dense", "transposed", "columns of a wider table", "rows of a transposed table")


def matrix(rows: int, columns: int, layout: str) -> torch.Tensor:
    if layout == "dense":
        return torch.randn(rows, columns)
    if layout == "transposed":
        return torch.randn(columns, rows).T
    if layout == "columns of a wider table":
        return torch.randn(rows, columns + 2)[:, :-2]
    return torch.randn(columns, rows + 1).T[:-1]


@pytest.fixture(autouse=True)
def _onednn(monkeypatch):
    monkeypatch.setattr(products, "is_onednn_faster", lambda: True)


@needs_onednn
@given(
    rows=st.integers(0, 40),
    inner=st.integers(0, 9),
    columns=st.integers(0, 20),
    left_layout=st.sampled_from(LAYOUTS),
    right_layout=st.sampled_from(LAYOUTS),
    scale=st.sampled_from([1.0, -2.0, 0.5]),
)
def test_products_are_exact_for_every_layout(
    rows, inner, columns, left_layout, right_layout, scale
):
    left, right = matrix(rows, inner, left_layout), matrix(inner, columns, right_layout)
    expected = (left.double() @ right.double()).float()
    out = torch.full((rows, columns + 1), 7.0)[:, :-1]
    write_product(left, right, out, scale)
    torch.testing.assert_close(out, scale * expected, rtol=1e-4, atol=1e-5)
    add_product(left, right, out)
    torch.testing.assert_close(out, (1 + scale) * expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(product(left, right), expected, rtol=1e-4, atol=1e-5)


@needs_onednn
@pytest.mark.parametrize("left_layout", LAYOUTS)
@pytest.mark.parametrize("right_layout", LAYOUTS)
def test_onednn_gets_only_the_layouts_that_it_is_fast_with(monkeypatch, left_layout, right_layout):
    seen = []

    def linear(rows, weight):
        seen.append((rows, weight))
        return rows @ weight.T

    monkeypatch.setattr(products, "linear", linear)
    product(matrix(30, 5, left_layout), matrix(5, 7, right_layout))
    ((rows, weight),) = seen
    assert weight.is_contiguous() or weight.T.is_contiguous()
    assert rows.stride(1) == 1 or rows.T.is_contiguous()


@needs_onednn
@pytest.mark.parametrize("needed", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_a_trained_product_are_those_of_autograd(needed, layout):
    factors = [matrix(20, 5, layout), matrix(5, 7, layout)]
    weights = torch.randn(20, 7)
    found = []
    for multiply in (products.trained_product, torch.matmul):
        left, right = (
            factor.detach().clone().requires_grad_(wanted)
            for factor, wanted in zip(factors, needed, strict=True)
        )
        multiplied = multiply(left, right)
        (multiplied * weights).sum().backward()
        found.append((multiplied.detach(), left.grad, right.grad))
    for mine, expected in zip(*found, strict=True):
        if expected is None:
            assert mine is None
        else:
            torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ["few rows", "double", "with a gradient", "another device"])
def test_other_products_are_those_of_torch(monkeypatch, case):
    monkeypatch.setattr(products, "linear", lambda *_: pytest.fail("oneDNN was used"))
    kind = torch.float64 if case == "double" else torch.float32
    device = "meta" if case == "another device" else "cpu"
    rows = products._MIN_ROWS - 1 if case == "few rows" else products._MIN_ROWS
    left = torch.ones(rows, 3, dtype=kind, device=device, requires_grad=case == "with a gradient")
    found = product(left, torch.ones(3, 2, dtype=kind, device=device))
    assert found.shape == (rows, 2)
    assert found.requires_grad == (case == "with a gradient")


@pytest.mark.parametrize(
    ("capability", "processor", "expected"),
    [
        ("AVX512", "vendor_id : AuthenticAMD", True),
        ("AVX512", "vendor_id : GenuineIntel", False),
        ("AVX2", "vendor_id : AuthenticAMD", False),
        ("AVX512", None, False),
    ],
)
@needs_onednn
def test_the_choice_depends_on_the_processor_alone(
    monkeypatch, tmp_path, capability, processor, expected
):
    monkeypatch.undo()
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    monkeypatch.setattr(products, "_CPU_INFO", tmp_path / "cpuinfo")
    if processor is not None:
        (tmp_path / "cpuinfo").write_text(processor)
    assert products.is_onednn_faster.__wrapped__() is expected


@needs_onednn
def test_a_torch_without_the_operator_or_with_another_one_uses_its_own_products(monkeypatch):
    def missing(*_):
        raise AttributeError("no such operator")

    monkeypatch.undo()
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(products, "is_from_amd", lambda: True)
    assert products.is_onednn_faster.__wrapped__()
    for other in (missing, lambda rows, weight: 2 * rows @ weight.T):
        monkeypatch.setattr(products, "linear", other)
        assert not products.is_onednn_faster.__wrapped__()
