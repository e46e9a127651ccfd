"""axe-core finds nothing to say about any view, in both themes."""

from __future__ import annotations

import pytest
from tests.browser.conftest import AXE
from tests.browser.test_views import VIEWS, open_view
from tests.browser.waiting import expect


def violations(page):
    # Evaluated by the debugger, which the policy of the page does not concern.
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        (violation["id"], [node["html"][:200] for node in violation["nodes"]])
        for violation in found["violations"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", VIEWS)
def test_views(visiting, address, name, theme):
    visit = visiting(address, color_scheme=theme, reduced_motion="reduce")
    open_view(visit, name)
    assert violations(visit.page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_states(visiting, address, theme):
    visit = visiting(address, color_scheme=theme, reduced_motion="reduce")
    visit.open("entity=Lyonn&relation=in_country")
    expect(visit.page.get_by_role("heading", name="Unknown name").first).to_be_visible()
    assert violations(visit.page) == []
    visit.page.get_by_role("combobox", name="Entity").fill("par")
    expect(visit.page.locator(".popup li").first).to_be_visible()
    assert violations(visit.page) == []


def test_facts_and_dimensions(visiting, address):
    visit = visiting(address, reduced_motion="reduce")
    open_view(visit, "geometry")
    for summary in ("The facts as a table", "All 20 dimensions"):
        visit.page.get_by_text(summary).click()
    expect(visit.page.get_by_role("radio").last).to_be_visible()
    assert violations(visit.page) == []


def test_the_token_dialog(visiting, guarded_address):
    visit = visiting(guarded_address)
    visit.open()
    expect(visit.page.get_by_label("Token", exact=True)).to_be_focused()
    assert violations(visit.page) == []


def test_on_a_phone(visiting, address):
    size = {"width": 390, "height": 844}
    visit = visiting(address, viewport=size, has_touch=True, reduced_motion="reduce")
    open_view(visit, "answers")
    assert violations(visit.page) == []
