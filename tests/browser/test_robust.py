"""Names of every kind, graphs of every size, screens of every width, and paper."""

from __future__ import annotations

import pytest
import torch
from tests.browser.test_accessibility import violations
from tests.browser.test_views import SHOWN, cut_off, open_view
from tests.browser.waiting import expect
from tests.server.serving import started

import fivestar
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.runs.run import Run, build_model

THING = "http://example.org/things/"
LIVES_IN = "http://example.org/vocab#livesIn"
LONG = "a very long label " * 20 + "and" + "averylongword" * 20
ARABIC = "القاهرة (مدينة)"
# Entities that have facts; the others only have names.
ACTIVE = 300


def save_run(folder, num_entities, active, model="complex"):
    """Save an untrained model of a graph with IRIs, a long and a right-to-left label."""
    names = [f"{THING}{number}" for number in range(num_entities)]
    labels = [None] * num_entities
    labels[:2] = [LONG, ARABIC]
    triples = [(n, 0, (7 * n + 1) % active) for n in range(active)]
    triples += [(n, 1, (n + 1) % active) for n in range(active)]
    # A second answer is usual, so that probable facts are not left out as contradictions.
    triples += [(n, r, (13 * n + 5) % active) for n in range(active) for r in range(2)]
    graph = fivestar.KnowledgeGraph(
        "large",
        Vocabulary("entity", names, labels),
        Vocabulary("relation", [LIVES_IN, "relation/with/a-very-" + "long-" * 30 + "name"]),
        Triples.of(triples),
        test=Triples.of([(n, 0, (7 * n + 2) % active) for n in range(20)]),
    )
    settings = fivestar.make_settings({"model": {"name": model, "dim": 4}})
    model = build_model(graph, settings)
    model.reset_parameters(torch.Generator().manual_seed(1))
    # Large scores, so that some answers have a noticeable probability.
    with torch.no_grad():
        for table in (model.entities, model.relations):
            table.mul_(6 / table.std())
    Run(graph, settings, model).save(folder)
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Two runs of 40,000 entities are served here."""
    folder = tmp_path_factory.mktemp("large")
    runs = [save_run(folder / name, 40_000, ACTIVE, name) for name in ("complex", "fivestar")]
    with started(*map(str, runs)) as (_, address):
        yield address


def at_320(visiting, address, state):
    visit = visiting(address, viewport={"width": 320, "height": 640}, has_touch=True)
    visit.open(state)
    return visit


VIEWS = {
    "home": ("", "li.probable-fact"),
    "ask": (f"entity={THING}0&relation={LIVES_IN.replace('#', '%23')}", "li.answer"),
    "why": (
        f"entity={THING}0&relation={LIVES_IN.replace('#', '%23')}&why={THING}1",
        "#why-body h4",
    ),
    "card": (f"entity={THING}0", "#card h3"),
    "sphere": (
        f"view=geometry&run=fivestar&entity={THING}0&relation={LIVES_IN.replace('#', '%23')}",
        ".stage canvas",
    ),
    "map": (f"view=map&method=pca&entity={THING}0", "#map-named strong"),
    "comparison": ("view=compare", ".disagreement"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_everything_fits_into_320_pixels(visiting, large, name):
    state, shown = VIEWS[name]
    visit = at_320(visiting, large, state)
    expect(visit.page.locator(shown).first).to_be_visible()
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 320
    assert cut_off(visit.page) == []
    # No word of the navigation is broken.
    heights = visit.page.locator("nav a").evaluate_all("links => links.map(a => a.offsetHeight)")
    assert len(set(heights)) == 1
    assert max(heights) < 50
    assert violations(visit.page) == []


def test_iris_are_short_and_complete_on_hover(visiting, large):
    visit = visiting(large)
    visit.open(f"entity={THING}17&relation={LIVES_IN.replace('#', '%23')}")
    page = visit.page
    expect(page.locator("li.answer").first).to_be_visible()
    field = page.get_by_role("combobox", name="Entity")
    expect(field).to_have_value("things:17")
    expect(field).to_have_attribute("title", f"{THING}17")
    relation = page.get_by_role("combobox", name="Relation")
    expect(relation).to_have_value("lives in")
    expect(relation).to_have_attribute("title", LIVES_IN)
    for name in page.locator("li.answer .answer-name bdi").all()[2:]:
        text, title = name.inner_text(), name.get_attribute("title")
        if text.startswith("things:"):
            assert title == THING + text.removeprefix("things:")
    relation.click()
    expect(page.locator(".popup [role=option]:visible")).to_have_count(2)


def test_the_map_says_how_many_are_shown(visiting, large):
    visit = visiting(large)
    visit.open(f"view=map&method=pca&entity={THING}17")
    page = visit.page
    expect(page.locator(".map-count")).to_contain_text("2,000 of 40,000 entities, those with the")
    expect(page.locator("#map-named strong")).to_have_text("things:17")
    expect(page.locator("#map-named bdi").first).to_have_attribute("title", f"{THING}17")


def test_names_on_the_sphere_are_short(visiting, large):
    visit = visiting(large)
    visit.open(VIEWS["sphere"][0])
    page = visit.page
    names = page.locator(".stage .name-label").filter(visible=True)
    expect(names.first).to_be_visible()
    stage = page.locator(".stage").bounding_box()
    assert all(name.bounding_box()["width"] < stage["width"] / 2 for name in names.all())
    assert any(text.startswith("things:") for text in names.all_inner_texts())


def test_a_name_among_many_is_found(visiting, large):
    visit = visiting(large)
    visit.open("view=ask")
    page = visit.page
    page.get_by_role("combobox", name="Entity").fill(f"{THING}39999")
    page.get_by_role("option", name="things:39999").click()
    expect(page.locator("#card h3")).to_contain_text("things:39999")
    # It has no fact, and the page says what that means.
    page.get_by_role("combobox", name="Relation").click()
    page.get_by_role("option", name="lives in").click()
    expect(page.locator("#answers .warning")).to_contain_text("no better than chance")


def test_right_to_left_labels_keep_their_place(visiting, large):
    visit = visiting(large)
    visit.open(f"entity={THING}1&relation={LIVES_IN.replace('#', '%23')}")
    page = visit.page
    expect(page.locator("li.answer").first).to_be_visible()
    field = page.get_by_role("combobox", name="Entity")
    expect(field).to_have_value(ARABIC)
    assert field.evaluate("field => getComputedStyle(field).direction") == "rtl"
    # The sentence itself is read from left to right: head, relation, blank.
    places = [each.bounding_box()["x"] for each in page.locator(".query-sentence input").all()]
    assert places == sorted(places)
    name = page.locator("#card h3 bdi").first
    assert name.evaluate("name => getComputedStyle(name).unicodeBidi") == "isolate"
    assert name.evaluate("name => name.matches(':dir(rtl)')")


def test_long_labels_do_not_hide_the_rest(visiting, large):
    visit = visiting(large, viewport={"width": 390, "height": 844})
    visit.open(f"entity={THING}0&relation={LIVES_IN.replace('#', '%23')}")
    page = visit.page
    first = page.locator("li.answer").first
    expect(first).to_be_visible()
    box = first.bounding_box()
    assert box["y"] + box["height"] <= 844
    expect(page.get_by_role("combobox", name="Entity")).to_have_value(LONG)


def test_a_model_without_calibration_says_so(visiting, large):
    visit = visiting(large)
    visit.open()
    expect(visit.page.locator("li.probable-fact").first).to_be_visible()
    expect(visit.page.get_by_text("This model is not calibrated")).to_be_visible()
    assert visit.page.locator("li.probable-fact .figure").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_paper(visiting, address, theme):
    visit = visiting(address, color_scheme=theme)
    visit.open("entity=Lyon&relation=in_country&why=France")
    page = visit.page
    expect(page.locator("#why-body h4").first).to_be_visible()
    page.emulate_media(media="print")
    for hidden in ("nav", ".tools", ".why-button", "#why-close", ".query-tools"):
        expect(page.locator(hidden).first).to_be_hidden()
    for shown in ("li.answer", "#why-body h4", ".query-sentence input"):
        expect(page.locator(shown).first).to_be_visible()
    colors = "style => [getComputedStyle(style).color, getComputedStyle(style).backgroundColor]"
    assert page.locator("body").evaluate(colors) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
    # Nothing is in a box that scrolls.
    assert page.locator("#aside").evaluate("box => box.scrollHeight <= box.clientHeight")
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("name", ["home", "geometry", "map", "comparison"])
def test_other_views_on_paper(visiting, address, name):
    """Controls are gone, what they control is there, and canvases are drawn for white paper."""
    visit = visiting(address, color_scheme="dark")
    open_view(visit, name)
    page = visit.page
    canvas = page.locator("canvas.plane, canvas.map")
    before = [each.screenshot() for each in canvas.all()]
    page.emulate_media(media="print")
    expect(page.locator(SHOWN[name]).first).to_be_visible()
    for hidden in ("nav", ".transport", ".map-zoom", ".home-filter", ".compare-choice"):
        assert page.locator(hidden).filter(visible=True).count() == 0
    page.wait_for_timeout(200)
    for dark, each in zip(before, canvas.all(), strict=True):
        assert each.screenshot() != dark
    scrolls = "boxes => boxes.some(box => box.scrollHeight > box.clientHeight + 1)"
    assert not page.locator(".disagreements, .table-frame").evaluate_all(scrolls)


@pytest.mark.slow
def test_a_million_entities(visiting, tmp_path):
    folder = save_run(tmp_path / "run", 1_000_000, 1_000_000)
    with started(str(folder), "--time-limit", "120") as (_, address):
        visit = visiting(address)
        visit.open()
        page = visit.page
        expect(page.get_by_role("progressbar")).to_be_visible()
        visit.open(f"entity={THING}17&relation={LIVES_IN.replace('#', '%23')}")
        expect(page.locator("li.answer")).to_have_count(10)
        page.get_by_role("combobox", name="Entity").fill(f"{THING}999999")
        expect(page.get_by_role("option", name="things:999999").first).to_be_visible()
        page.keyboard.press("Escape")
        visit.open("view=home")
        # Half a minute on a free core.
        page.locator(".scope").wait_for(timeout=600_000)
        expect(page.locator(".scope")).to_contain_text("A part of this large graph was searched")
        expect(page.locator("li.probable-fact, .notice").first).to_be_visible()
        assert visit.refusals == []
