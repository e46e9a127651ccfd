"""A real browser on a real server. Skipped where something is missing, unless it is required."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from pathlib import Path

import httpx
import pytest
from tests.browser.waiting import TIMEOUT
from tests.server.serving import started

import fivestar

ROOT = Path(__file__).parents[2]
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
BUILT = Path(fivestar.__file__).parent / "server/static/index.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# WebGL by software, and no requests of the browser's own.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOKEN = "a-token-for-tests"  # noqa: S105


def browser_path():
    return os.environ.get("FIVESTAR_BROWSER") or next(
        filter(None, map(shutil.which, BROWSERS)), None
    )


def missing():
    if importlib.util.find_spec("playwright") is None:
        return "the Python package playwright is not installed"
    if browser_path() is None:
        return f"no browser: none of {', '.join(BROWSERS)} is on the PATH; set FIVESTAR_BROWSER"
    if not BUILT.is_file() or not AXE.is_file():
        return "the page is not built: make web"
    return None


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason is None or os.environ.get("FIVESTAR_BROWSER_REQUIRED") == "1":
        return
    skip = pytest.mark.skip(reason=reason)
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A 5★E and a ComplEx of the embedded graph."""
    reason = missing()
    assert reason is None, reason
    place = tmp_path_factory.mktemp("browser")
    graph = fivestar.read_graph()
    training = {"epochs": 6, "evaluate-every": 0}
    for name in ("fivestar", "complex"):
        fivestar.train(
            graph, {"model": {"name": name, "dim": 20}, "training": training}, place / name
        )
    return [place / "fivestar", place / "complex"]


@pytest.fixture(scope="session")
def address(runs):
    """Two runs are served here."""
    with started(*map(str, runs), "--time-limit", "300") as (_, found):
        yield found


@pytest.fixture(scope="session")
def completion(address):
    """The most probable facts according to the service."""
    for _ in range(600):
        reply = httpx.get(f"{address}/api/probable-facts", params={"limit": 100}, timeout=60).json()
        if reply["status"] == "done":
            return reply
    raise AssertionError("the search did not end")


@pytest.fixture(scope="session")
def guarded_address(runs, tmp_path_factory):
    """One run is served here, to those who have the token."""
    token_file = tmp_path_factory.mktemp("token") / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    with started(str(runs[0]), "--token-file", str(token_file)) as (_, found):
        yield found


# Not for the whole session: while it lives, its event loop is in the way of others.
@pytest.fixture(scope="module")
def browser(runs):
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
        yield opened
        opened.close()


class Visit:
    """A tab, and what went wrong in it."""

    def __init__(self, context, address):
        self.address = address
        self.faults = []
        # What the browser itself writes to the console of answers that are errors.
        self.refusals = []
        context.route("**/*", self._only_our_server)
        self.page = context.new_page()
        self.page.set_default_timeout(TIMEOUT)
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.faults.append(f"page error: {error}"))

    def open(self, state=""):
        self.page.goto(f"{self.address}/#{state}")

    def _only_our_server(self, route):
        if route.request.url.startswith((f"{self.address}/", "data:", "blob:")):
            route.continue_()
        else:
            self.faults.append(f"a request to {route.request.url}")
            route.abort()

    def _note(self, message):
        if message.type != "error":
            return
        is_refusal = message.text.startswith("Failed to load resource: the server responded with")
        (self.refusals if is_refusal else self.faults).append(message.text)


@pytest.fixture
def visiting(browser):
    """Opens tabs; at the end nothing may have gone wrong in any of them."""
    with contextlib.ExitStack() as tabs:
        visits = []

        def visit(address, **settings):
            settings = {"viewport": {"width": 1280, "height": 900}, **settings}
            context = tabs.enter_context(contextlib.closing(browser.new_context(**settings)))
            visits.append(Visit(context, address))
            return visits[-1]

        yield visit
        assert [fault for visit in visits for fault in visit.faults] == []


@pytest.fixture
def visit(visiting, address):
    """A tab on the two runs; the server may refuse nothing."""
    opened = visiting(address)
    yield opened
    assert opened.refusals == []
