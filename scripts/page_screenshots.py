"""Take the screenshots of the page for the docs, from a server of two runs of the demo graph.

fivestar serve demo_run another_run --port 8005
python scripts/page_screenshots.py http://127.0.0.1:8005 docs/figures/page [NAME ...]
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LARGEST = 120_000
# For the sphere to be rendered.
PAUSE = 2500
# Milliseconds; software rendering is slow on a busy machine.
TIMEOUT = 300_000


class Shot(NamedTuple):
    """What is shown, how wide and high, and in which theme."""

    state: str
    shown: str
    size: tuple[int, int] = (1280, 860)
    theme: str = "light"


LYON = "entity=Lyon&relation=in_country"
FRANCE = "entity=France&relation=neighbour_of"
PHONE = (390, 844)
KOSOVO = "fact=Kosovo&fact=language_spoken&fact=Bosnian"
SHOTS = {
    "home": Shot("", "li.probable-fact"),
    "why": Shot(KOSOVO, ".probable-fact #why-body h4", (1280, 1240)),
    "answers": Shot(LYON, "li.answer"),
    "answers-why-dark": Shot(f"{LYON}&why=Germany", "#why-body h4", (1280, 1100), "dark"),
    "sphere": Shot("view=geometry&relation=capital_of&s=1", ".stage canvas", (1280, 1000)),
    "sphere-dark": Shot(f"view=geometry&{LYON}&why=France", ".stage canvas", (1280, 1000), "dark"),
    "map": Shot("view=map", 'canvas.map[data-method="tsne"]'),
    "map-dark": Shot("view=map&entity=Lyon", 'canvas.map[data-method="tsne"]', theme="dark"),
    "comparison": Shot("view=compare", ".disagreement"),
    "comparison-dark": Shot("view=compare", ".disagreement", theme="dark"),
    "compare": Shot(f"view=compare&{FRANCE}", ".columns li.answer"),
    "phone-home": Shot("", "li.probable-fact", PHONE),
    "phone-why-dark": Shot(KOSOVO, ".probable-fact #why-body h4", PHONE, "dark"),
    "phone-answers": Shot(LYON, "li.answer", PHONE),
    "phone-sphere-dark": Shot("view=geometry&relation=capital_of", ".stage canvas", PHONE, "dark"),
    "phone-map": Shot("view=map", 'canvas.map[data-method="tsne"]', PHONE),
    "phone-comparison": Shot("view=compare", ".disagreement", PHONE),
}


def take(browser: Browser, address: str, shot: Shot, only: str | None = None) -> bytes:
    """Take a screenshot, of one element if `only` selects it, and return it as PNG."""
    width, height = shot.size
    page = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if shot.theme == "dark" else "light",
        device_scale_factor=2 if shot.size == PHONE else 1,
    )
    page.set_default_timeout(TIMEOUT)
    page.goto(f"{address}/#{shot.state}")
    page.locator(shot.shown).first.wait_for()
    if shot.size == PHONE and "geometry" in shot.state:
        page.locator(".transport").evaluate("bar => bar.scrollIntoView()")
    if shot.size == PHONE and "compare" in shot.state:
        page.locator(".compare-summary").evaluate("text => text.scrollIntoView()")
    if shot.size == PHONE and "fact=" in shot.state:
        page.locator("li.explained").evaluate("fact => fact.scrollIntoView()")
    page.wait_for_timeout(PAUSE)
    taken = page.screenshot(clip=page.locator(only).first.bounding_box() if only else None)
    page.close()
    return taken


def main(address: str, folder: Path, names: list[str]) -> None:
    """Take the named screenshots; without names, all."""
    unknown = set(names) - set(SHOTS)
    if unknown:
        raise SystemExit(f"no screenshot {', '.join(unknown)}; choose from {', '.join(SHOTS)}")
    folder.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("FIVESTAR_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        for name in names or SHOTS:
            shot = SHOTS[name]
            out = folder / f"{name}.webp"
            image = Image.open(io.BytesIO(take(browser, address, shot))).convert("RGB")
            image.save(out, quality=78, method=6)
            print(f"{out.name}: {out.stat().st_size // 1000} kB")
            if out.stat().st_size > LARGEST:
                raise SystemExit(f"{out} is larger than {LARGEST // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), Path(sys.argv[2]), sys.argv[3:])
