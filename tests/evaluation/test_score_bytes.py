"""How many scores a ranking holds at once."""

from __future__ import annotations

import torch

from fivestar.evaluation.ranking import SCORE_BYTES, default_score_bytes
from fivestar.models.registry import make_model


def test_a_large_table_is_read_for_many_queries_at_once():
    small = make_model("fivestar", 1000, 4, 100)
    assert default_score_bytes(small) == SCORE_BYTES
    with torch.device("meta"):
        large = make_model("fivestar", 5_000_000, 4, 100)
    assert default_score_bytes(large) == 5_000_000 * 200  # a quarter of 4 bytes each
    assert default_score_bytes(large) // (4 * 5_000_000) >= 48  # queries
