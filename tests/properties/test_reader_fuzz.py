"""Damaged files: readers raise only errors of fivestar, and lose no statement."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.fuzz_readers import BLOCK_BYTES, SEEDS, check, mutated

from fivestar.graph.readers import streams


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", BLOCK_BYTES)


@pytest.mark.parametrize("kind", SEEDS)
def test_the_seeds_are_read(tmp_path, kind):
    assert check(kind, SEEDS[kind], tmp_path) == "read"


@settings(max_examples=20)
@pytest.mark.parametrize("kind", SEEDS)
@given(content=st.binary(max_size=300))
def test_any_bytes(tmp_path_factory, kind, content):
    check(kind, content, tmp_path_factory.mktemp("any"))


@settings(max_examples=30)
@pytest.mark.parametrize("kind", SEEDS)
@given(seed=st.integers(0, 2**32))
def test_mutated_files(tmp_path_factory, kind, seed):
    content = mutated([SEEDS[kind]], random.Random(seed))  # noqa: S311
    check(kind, content, tmp_path_factory.mktemp("mutated"))
