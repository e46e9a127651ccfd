"""Make PNG figures small for the docs: a palette of 256 colors, and no wider than a page.

python scripts/compress_figures.py docs/figures
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

MAX_WIDTH = 1400
NUM_COLORS = 256


def compress(path: Path) -> None:
    """Replace a figure by a smaller one."""
    figure = Image.open(path).convert("RGB")
    if figure.width > MAX_WIDTH:
        height = round(figure.height * MAX_WIDTH / figure.width)
        figure = figure.resize((MAX_WIDTH, height), Image.Resampling.LANCZOS)
    # Cover all colors that occur: a median cut merges the rare ones, such as those of a legend.
    small = figure.quantize(NUM_COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


if __name__ == "__main__":
    for figure in sorted(Path(sys.argv[1]).glob("*.png")):
        before = figure.stat().st_size
        compress(figure)
        print(f"{figure.name}: {before // 1000} → {figure.stat().st_size // 1000} kB")
