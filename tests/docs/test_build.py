"""The docs site builds without warnings, its links lead somewhere, and it loads nothing."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import fivestar
from fivestar.runs.settings import TrainingSettings

ROOT = Path(__file__).parents[2]


class Links(HTMLParser):
    """The anchors, links and loaded files of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in ("script", "img", "source") and values.get("src"):
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(values["href"])


def is_external(address):
    return bool(urlsplit(address).scheme or urlsplit(address).netloc)


def problems(site):
    """Return what is wrong with the links and the loaded files of a built site."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        found += [f"{path.name} loads {a}" for a in page.loaded if is_external(a)]
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if is_external(link):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{path.name} links to {link}, which does not exist")
                continue
            anchors = pages[target].anchors if target in pages else {parts.fragment}
            if parts.fragment and unquote(parts.fragment) not in anchors:
                found.append(f"{path.name} links to {link}, which has no such anchor")
    return found


def test_problems_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="x">A</h1><a href="b.html#y">b</a><a href="c.html">c</a><a href="#x">x</a>'
        '<script src="https://example.org/s.js"></script>'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#x">a</a>')
    assert len(problems(tmp_path)) == 3


def test_the_site_builds_without_warnings_and_its_links_work(tmp_path):
    out = tmp_path / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
    command += ["-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(out)]
    # A proxy that refuses: whatever the build would fetch fails.
    closed = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | closed, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stderr == ""
    assert problems(out) == []
    assert (out / "searchindex.js").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["search", "train"])
def test_signatures_that_are_written_by_hand(name):
    # Sphinx would list every setting; the page names the other arguments only.
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    written = re.search(rf"autofunction:: {name}\((.*)\)\n", page)[1]
    function = getattr(fivestar, name)
    own = {"refit"} if name == "train" else set()
    settings = {"model", "dim", *TrainingSettings.model_fields} - own
    parameters = inspect.signature(function).parameters
    shown = re.findall(r"(\w+)(?:=|$)", written)
    assert shown == [p for p in parameters if p not in settings]
