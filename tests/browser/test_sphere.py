"""Facts of the graph on the sphere and in the plane."""

from __future__ import annotations

import re

import httpx
from tests.browser.test_views import VIEWS, open_view
from tests.browser.waiting import expect

CAPITALS = "view=geometry&relation=in_country"


def served(address, path, **parameters):
    return httpx.get(f"{address}/api/{path}", params=parameters, timeout=60).json()


def positions(page):
    """Return where the table says that the heads are."""
    texts = page.locator(".fact-list td[data-position]").evaluate_all(
        "cells => cells.map(cell => cell.dataset.position)"
    )
    return [complex(*map(float, text.split())) for text in texts]


def watch_for_button(page, name):
    """Set `seen` once there is a button of that name, however soon it is gone on a busy machine."""
    page.evaluate(
        """name => {
          window.seen = false;
          const label = button => button.getAttribute("aria-label") ?? button.textContent.trim();
          const look = () => {
            seen ||= [...document.querySelectorAll("button")].some(each => label(each) === name);
          };
          new MutationObserver(look).observe(document.body,
            { subtree: true, childList: true, attributes: true, characterData: true });
        }""",
        name,
    )


def test_heads_play_to_their_images(visit):
    """A walk: names on the sphere, the sentence, play, and a link to the end of it."""
    visit.open(f"{CAPITALS}&entity=Lyon&why=France")
    page = visit.page
    facts = served(visit.address, "sphere", relation="in_country", head="Lyon", tail="France")
    expect(page.get_by_role("heading", name="Lyon in country France")).to_be_visible()
    expect(page.locator(".stage canvas")).to_be_visible()
    lead = page.locator(".lead")
    expect(lead).to_contain_text(f"Dimension {facts['dimension']}")
    expect(lead).to_contain_text("contributes most to the score of this answer")
    # Names are on the sphere, those of the answer first, and none covers another.
    shown = page.locator(".name-label").filter(visible=True)
    expect(shown.first).to_be_visible()
    assert {"Lyon", "France"} <= set(shown.all_text_contents())
    assert len(shown.all_text_contents()) >= 10
    boxes = [each.bounding_box() for each in shown.all()]
    assert not any(overlap(p, q) for i, p in enumerate(boxes) for q in boxes[:i])
    begin = [complex(*fact["position"]) for fact in facts["facts"]]
    assert max_distance(positions(page), begin) < 1e-6
    watch_for_button(page, "Pause")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("seen")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    end = [complex(*fact["image"]) for fact in facts["facts"]]
    assert max_distance(positions(page), end) < 1e-6
    assert max_distance(begin, end) > 0.01
    expect(page.locator(".transport .figure")).to_have_text("s = 1.00")
    # The link has it all: relation, dimension, answer and s.
    page.get_by_text("All 20 dimensions").click()
    page.get_by_role("radio", name="Dimension 7, ").click()
    expect(lead).to_contain_text("Dimension 7")
    page.get_by_label("Progress of the map").fill("50")
    expect(page.locator(".transport .figure")).to_have_text("s = 0.50")
    for part in ("entity=Lyon", "relation=in_country", "why=France", "dim=7", "s=0.5"):
        assert part in page.url
    halfway = positions(page)
    page.reload()
    expect(page.locator(".transport .figure")).to_have_text("s = 0.50")
    assert max_distance(positions(page), halfway) < 1e-9


def overlap(p, q):
    return (
        p["x"] + 1 < q["x"] + q["width"]
        and q["x"] + 1 < p["x"] + p["width"]
        and p["y"] + 1 < q["y"] + q["height"]
        and q["y"] + 1 < p["y"] + p["height"]
    )


def max_distance(points, others):
    return max(abs(z - w) for z, w in zip(points, others, strict=True))


def test_sentence_and_text_alternative(visit):
    """The page says what the server has counted, and lists the same facts as text."""
    visit.open(CAPITALS)
    page = visit.page
    facts = served(visit.address, "sphere", relation="in_country")
    assert facts["sentence"]
    expect(page.locator(".landing")).to_contain_text(facts["sentence"])
    landed = [fact for fact in facts["facts"] if fact["lands"]]
    assert f"{len(landed)} of 24 land nearest their own" in facts["sentence"]
    described = page.locator(".stage").get_attribute("aria-describedby")
    text = page.locator(f"#{described}").text_content()
    for fact in facts["facts"]:
        assert fact["head"]["label"] in text
        assert fact["tail"]["label"] in text
    page.get_by_text("The facts as a table: 24 of 1,286 facts").click()
    expect(page.locator(".fact-list .landed")).to_have_count(len(landed))
    expect(page.locator(".fact-list .missed")).to_have_count(24 - len(landed))


def test_bilinear_pairing_shows_conjugates(visiting, address):
    visit = visiting(address)

    def bilinear(route):
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"pairing": "bilinear"})

    visit.page.route("**/api/sphere?*", bilinear)
    visit.open(CAPITALS)
    expect(visit.page.locator(".sphere-key")).to_contain_text("conjugate of the tail")
    expect(visit.page.locator("#sphere-text")).to_contain_text("the conjugates of their tails")


def test_a_dimension_that_does_not_exist(visiting, address):
    visit = visiting(address)
    visit.open(f"{CAPITALS}&dim=99")
    problem = visit.page.locator(".problem")
    expect(problem).to_contain_text("no dimension 99; choose one from 0 to 19")
    visit.page.get_by_role("link", name="Choose a dimension for me").click()
    expect(visit.page.locator(".stage canvas")).to_be_visible()


def test_an_unknown_relation_offers_the_nearest(visiting, address):
    visit = visiting(address)
    visit.open("view=geometry&relation=in_countri")
    visit.page.get_by_role("button", name="in_country", exact=True).click()
    expect(visit.page.locator(".stage canvas")).to_be_visible()


def test_most_frequent_relation_is_the_default(visit):
    visit.open("view=geometry")
    expect(visit.page.get_by_role("combobox", name="Relation")).to_have_value("in country")
    expect(visit.page.locator(".stage canvas")).to_be_visible()


def test_dimensions_by_contribution(visit):
    open_view(visit, "geometry")
    page = visit.page
    # Collapsed by default.
    expect(page.get_by_role("radio")).to_have_count(0)
    page.get_by_text("All 20 dimensions, by mean contribution").click()
    expect(page.get_by_role("radio")).to_have_count(20)
    labels = page.get_by_role("radio").evaluate_all("all => all.map(each => each.ariaLabel)")
    amounts = [
        float(re.search(r"contribution (\S+),", label)[1].replace("−", "-")) for label in labels
    ]
    assert amounts == sorted(amounts, reverse=True)
    facts = page.locator(".map-facts")
    for name in ("Fixed points", "Multiplier k", "Matrix"):
        expect(facts).to_contain_text(name)
    page.get_by_role("radio").first.click()
    number = re.search(r"dim=(\d+)", page.url)[1]
    expect(facts).to_contain_text(f"Dimension {number}")
    page.keyboard.press("ArrowDown")
    second = page.get_by_role("radio").nth(1)
    expect(second).to_be_focused()
    expect(second).to_have_attribute("aria-checked", "true")


def test_by_keyboard(visit):
    """Play, scrub and turn without a pointer."""
    open_view(visit, "geometry")
    page = visit.page
    expect(page.locator(".transport .figure")).to_have_text("s = 0.00")
    page.get_by_role("button", name="Play").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Progress of the map")).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator(".transport .figure")).to_have_text("s = 1.00")
    page.keyboard.press("Tab")
    stage = page.locator(".stage")
    expect(stage).to_be_focused()
    label = page.locator(".name-label").filter(visible=True).first
    before = label.get_attribute("style")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    expect(label).not_to_have_attribute("style", before)


def test_drag_and_scrub(visit):
    """Dragging turns the sphere; the slider changes what the plane shows."""
    open_view(visit, "geometry")
    page = visit.page
    stage, plane = page.locator(".stage"), page.locator("canvas.plane")
    label = page.locator(".name-label").filter(visible=True).first
    before = label.get_attribute("style")
    box = stage.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y + 40, steps=4)
    page.mouse.up()
    expect(label).not_to_have_attribute("style", before)
    start = plane.screenshot()
    page.get_by_label("Progress of the map").fill("100")
    page.wait_for_timeout(100)
    assert plane.screenshot() != start


def test_reduced_motion(visiting, address):
    """Nothing moves by itself, and Play goes to the end at once."""
    visit = visiting(address, reduced_motion="reduce")
    open_view(visit, "geometry")
    play = visit.page.get_by_role("button", name="Play")
    play.click()
    assert visit.page.locator(".transport .figure").text_content() == "s = 1.00"
    expect(play).to_be_visible()


def test_model_without_mobius_maps(visit):
    visit.open("view=geometry&run=complex&relation=in_country")
    expect(visit.page.get_by_role("heading", name="No Möbius maps in this model")).to_be_visible()


def test_plane_without_webgl(visiting, address):
    visit = visiting(address)
    forbid = """
      const original = HTMLCanvasElement.prototype.getContext;
      HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
        return kind.startsWith("webgl") ? null : original.call(this, kind, ...rest);
      };
    """
    visit.page.add_init_script(forbid)
    visit.open(VIEWS["geometry"])
    expect(visit.page.get_by_role("heading", name="No 3-D graphics")).to_be_visible()
    expect(visit.page.locator("canvas.plane")).to_be_visible()
    # three.js says on the console that it got no context, and rightly so.
    assert all("THREE.WebGLRenderer" in fault for fault in visit.faults)
    visit.faults.clear()
