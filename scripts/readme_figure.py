"""Take the figure of the README, the page and the sphere side by side, from a server of demo_run.

fivestar serve demo_run
python scripts/readme_figure.py http://127.0.0.1:8005 docs/figures/readme.webp
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent))
from page_screenshots import ARGUMENTS, BROWSERS, LARGEST, Shot, take

HEIGHT = 680
ANSWERS = Shot("entity=Bucharest&relation=capital_of", "li.answer", (920, HEIGHT))
SPHERE = Shot("view=geometry&relation=capital_of&s=1", ".stage", (960, 1340), "dark")


def main(address: str, out: Path) -> None:
    """Take both screenshots and save them as one figure."""
    path = os.environ.get("FIVESTAR_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        left, right = (
            Image.open(io.BytesIO(take(browser, address, shot, only))).convert("RGB")
            for shot, only in ((ANSWERS, None), (SPHERE, SPHERE.shown))
        )
        browser.close()
    right = right.resize((right.width * HEIGHT // right.height, HEIGHT), Image.Resampling.LANCZOS)
    figure = Image.new("RGB", (left.width + right.width, HEIGHT))
    figure.paste(left, (0, 0))
    figure.paste(right, (left.width, 0))
    figure.save(out, quality=80, method=6)
    print(f"{out.name}: {out.stat().st_size // 1000} kB, {figure.width} × {figure.height}")
    if out.stat().st_size > LARGEST:
        raise SystemExit(f"{out} is larger than {LARGEST // 1000} kB")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), Path(sys.argv[2]))
