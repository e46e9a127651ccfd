"""The animated figures of the concepts are what docs/animations.py draws, and show the maps."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = DOCS / "concepts" / "figures"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def animations(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    yield importlib.import_module("animations")
    del sys.modules["animations"]


def numbers(text):
    return np.array(re.findall(r"-?\d+(?:\.\d+)?", text), dtype=float)


@pytest.mark.parametrize("name", ["five_transformations", "classes"])
def test_the_committed_figure_is_the_drawn_one(name, animations):
    committed = (FIGURES / f"{name.replace('_', '-')}.svg").read_text(encoding="utf-8")
    drawn = getattr(animations, name)()
    assert re.sub(r"-?\d+(\.\d+)?", "0", committed) == re.sub(r"-?\d+(\.\d+)?", "0", drawn)
    np.testing.assert_allclose(numbers(committed), numbers(drawn), atol=0.11)


def figure(name):
    return ET.fromstring((FIGURES / f"{name}.svg").read_text(encoding="utf-8"))  # noqa: S314  (ours)


def frames(panel):
    """Return the frames of each moving line of a panel of [−2, 2]², as complex numbers."""
    for path in panel.iter(f"{SVG}path"):
        for animate in path.iter(f"{SVG}animate"):
            pixels = [numbers(value).reshape(-1, 2) for value in animate.get("values").split(";")]
            half = float(panel.get("width")) / 2
            yield [2 * ((p[:, 0] - half) - 1j * (p[:, 1] - half)) / half for p in pixels]


@pytest.mark.parametrize(
    ("number", "transform"),
    [(0, lambda z: z - 1.6 - 1.2j), (2, lambda z: 1.5 * z), (3, lambda z: 1 / z)],
)
def test_grids_move_to_their_images_and_back(number, transform):
    root = figure("five-transformations")
    lines = list(frames(root.findall(f"{SVG}svg")[number]))
    assert len(lines) == 12
    for first, *steps in lines:
        middle = len(steps) // 2
        for image in steps[middle - 1 : middle + 1]:
            np.testing.assert_allclose(image, transform(first), atol=0.05)
        np.testing.assert_allclose(steps[-1], first, atol=0.01)


@pytest.mark.parametrize("name", ["five-transformations", "classes"])
def test_figures_stand_still_where_motion_is_not_wanted(name):
    root = figure(name)
    style = root.find(f"{SVG}style").text
    assert "@media (prefers-reduced-motion: reduce) {\n  .moving { display: none }" in style
    moving = [e for e in root.iter() if e.find(f"{SVG}animate") is not None]
    assert moving
    assert all("moving" in e.get("class").split() for e in moving)
