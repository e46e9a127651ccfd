"""Write docs/geometry.md from about.md and the measurements in results/.

python experiments/geometry/table.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "geometry.md"

# What replaces `<!-- NAME -->` in about.md.
PARTS: dict[str, Callable[[], str]] = {}


def page() -> str:
    """Return the page."""
    text = (Path(__file__).parent / "about.md").read_text(encoding="utf-8")
    for name, part in PARTS.items():
        text = text.replace(f"<!-- {name} -->", part())
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
