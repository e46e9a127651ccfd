"""Make PNG pictures small for the docs: a palette of 64 colours, and no wider than a page.

python scripts/compress_pictures.py docs/pictures
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

WIDEST = 1400


def compress(path: Path) -> None:
    """Replace a picture by a smaller one."""
    picture = Image.open(path).convert("RGB")
    if picture.width > WIDEST:
        height = round(picture.height * WIDEST / picture.width)
        picture = picture.resize((WIDEST, height), Image.Resampling.LANCZOS)
    small = picture.quantize(64, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


if __name__ == "__main__":
    for picture in sorted(Path(sys.argv[1]).glob("*.png")):
        before = picture.stat().st_size
        compress(picture)
        print(f"{picture.name}: {before // 1000} → {picture.stat().st_size // 1000} kB")
