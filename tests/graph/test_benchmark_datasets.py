"""Benchmark datasets, if they are downloaded: counts and leaks are the published ones."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fivestar.cli.main import app

pytestmark = pytest.mark.data

# name: entities, relations, lines of train, valid and test
COUNTS = {
    "fb15k": (14_951, 1_345, 483_142, 50_000, 59_071),
    "wn18": (40_943, 18, 141_442, 5_000, 5_000),
    "fb15k-237": (14_541, 237, 272_115, 17_535, 20_466),
    "wn18rr": (40_943, 11, 86_835, 3_034, 3_134),
    "nell-995-h25": (70_145, 172, 122_618, 9_194, 9_187),
    "nell-995-h50": (34_667, 86, 72_767, 5_440, 5_393),
    "nell-995-h75": (28_085, 57, 59_135, 4_441, 4_389),
    "nell-995-h100": (22_411, 43, 50_314, 3_763, 3_746),
    "umls": (135, 46, 5_216, 652, 661),
    "kinships": (104, 25, 8_544, 1_068, 1_074),
    "nations": (14, 55, 1_592, 199, 201),
}
# name: duplicates in train and test, valid and test facts in train
FAULTS = {
    "nell-995-h25": (329, 2, 50, 52),
    "nell-995-h50": (216, 1, 30, 33),
    "nell-995-h75": (58, 0, 9, 9),
    "nell-995-h100": (0, 0, 0, 0),
}
# name: test lines with something unseen, per mille of test whose reverse pair is in train
UNSEEN = {"wn18rr": (210, 349), "nell-995-h100": (738, 212), "fb15k-237": (28, 0)}


def info(name):
    result = CliRunner().invoke(app, ["graph", "info", name, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_and_duplicates_are_the_published_ones(name):
    profile = info(name)
    lines = [profile["splits"][split]["lines"] for split in ("train", "valid", "test")]
    assert (profile["entities"], profile["relations"], *lines) == COUNTS[name]
    if name in FAULTS:
        duplicates = [profile["splits"][split]["duplicates"] for split in ("train", "test")]
        leaked = [profile["held_out"][split]["in_train"] for split in ("valid", "test")]
        assert (*duplicates, *leaked) == FAULTS[name]
    if name in UNSEEN:
        test = profile["held_out"]["test"]
        mirrored = round(1000 * test["reverse_pair_in_train"] / test["lines"])
        assert (test["lines_with_unseen"], mirrored) == UNSEEN[name]
