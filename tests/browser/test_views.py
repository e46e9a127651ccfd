"""The other views: the sphere, the map, two runs side by side; themes and narrow screens."""

from __future__ import annotations

import pytest
from tests.browser.conftest import TOKEN
from tests.browser.waiting import expect

VIEWS = {
    "home": "fact=Lyon&fact=in_country&fact=Germany",
    "welcome": "view=ask",
    "answers": "entity=Lyon&relation=in_country&why=France",
    "geometry": "view=geometry&relation=in_country",
    "map": "view=map&entity=Lyon",
    "compare": "view=compare&entity=France&relation=neighbour_of",
}
SHOWN = {
    "home": ".home:has(.probable-fact) #why-body h4",
    "welcome": ".welcome",
    "answers": "#why-body h4",
    "geometry": ".stage canvas",
    "map": "canvas.map",
    "compare": ".columns .answer",
}


def open_view(visit, name):
    visit.open(VIEWS[name])
    expect(visit.page.locator(SHOWN[name]).first).to_be_visible()


def test_geometry(visit):
    open_view(visit, "geometry")
    page = visit.page
    expect(page.get_by_role("radio")).to_have_count(20)
    facts = page.locator(".map-facts")
    expect(facts).to_contain_text("Dimension 0")
    for name in ("Fixed points", "Multiplier k", "Matrix"):
        expect(facts).to_contain_text(name)
    page.get_by_role("radio", name="Dimension 7, ").click()
    expect(facts).to_contain_text("Dimension 7")
    assert "dim=7" in page.url
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Dimension 8, ")).to_be_focused()
    expect(facts).to_contain_text("Dimension 8")


def test_sphere_rotates_by_keys_and_drag(visit):
    open_view(visit, "geometry")
    page = visit.page
    page.get_by_role("button", name="Pause").click()
    stage = page.locator(".stage")
    pictures = [stage.screenshot()]
    stage.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    page.wait_for_timeout(300)
    pictures.append(stage.screenshot())
    box = stage.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y + 40, steps=4)
    page.mouse.up()
    page.wait_for_timeout(300)
    pictures.append(stage.screenshot())
    assert len(set(pictures)) == 3


def test_plane_shows_the_progress_of_the_map(visit):
    open_view(visit, "geometry")
    plane, slider = (
        visit.page.locator("canvas.plane"),
        visit.page.get_by_label("Progress of the map"),
    )
    done = plane.screenshot()
    slider.fill("0")
    visit.page.wait_for_timeout(100)
    assert plane.screenshot() != done
    slider.fill("100")
    visit.page.wait_for_timeout(100)
    assert plane.screenshot() == done


def test_reduced_motion(visiting, address):
    visit = visiting(address, reduced_motion="reduce")
    open_view(visit, "geometry")
    stage = visit.page.locator(".stage")
    expect(visit.page.get_by_role("button", name="Play")).to_be_visible()
    visit.page.wait_for_timeout(500)
    before = stage.screenshot()
    visit.page.wait_for_timeout(500)
    assert stage.screenshot() == before


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


def test_map(visit):
    open_view(visit, "map")
    page = visit.page
    expect(page.locator("#map-named")).to_contain_text("Lyon")
    canvas = page.locator("canvas.map")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#map-named strong")).not_to_have_text("Lyon")
    named = page.locator("#map-named strong").text_content()
    before = canvas.screenshot()
    city = page.get_by_role("button", name="city")
    city.click()
    expect(city).to_have_attribute("aria-pressed", "false")
    page.wait_for_timeout(200)
    assert canvas.screenshot() != before
    canvas.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="Entity")).to_have_value(named)
    assert "view=" not in page.url


def test_map_by_pointer(visit):
    visit.open("view=map")
    page = visit.page
    canvas = page.locator("canvas.map")
    expect(canvas).to_be_visible()
    page.get_by_role("button", name="Zoom in").click()
    box = canvas.bounding_box()
    named = page.locator("#map-named strong")
    for part in range(1, 40):
        page.mouse.move(box["x"] + box["width"] * part / 40, box["y"] + box["height"] * 0.5)
        if named.count():
            break
    name = named.text_content()
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_role("combobox", name="Entity")).to_have_value(name)


def test_map_by_tsne(visit):
    open_view(visit, "map")
    visit.page.get_by_role("radio", name="t-SNE").check()
    expect(visit.page.locator("#map-body")).not_to_have_attribute("aria-busy", "true")
    expect(visit.page.locator("canvas.map")).to_be_visible()
    assert "method=tsne" in visit.page.url


def test_compare_two_runs(visit):
    open_view(visit, "compare")
    page = visit.page
    for name in ("fivestar", "complex"):
        column = page.get_by_role("region", name=name, exact=True)
        expect(column.locator("li.answer")).to_have_count(10)
        expect(column.locator(".shift")).to_have_count(10)
    expect(page.locator("#compare-body")).to_contain_text("are in both lists")
    page.get_by_label("Run", exact=True).select_option("complex")
    expect(page.get_by_label("Compare with")).to_have_value("fivestar")
    expect(page.locator(".column").first.get_by_role("heading", name="complex")).to_be_visible()


def test_compare_with_one_run(visiting, guarded_address):
    visit = visiting(guarded_address)
    visit.open("view=compare")
    visit.page.get_by_label("Token", exact=True).fill(TOKEN)
    visit.page.get_by_role("button", name="Continue").click()
    expect(visit.page.get_by_text("fivestar serve fivestar ANOTHER_RUN")).to_be_visible()


def test_about_the_graph(visit):
    visit.open()
    visit.page.get_by_text("2,149 entities").last.click()
    expect(visit.page.locator("#about-body")).to_contain_text("train 4,005")


def test_dark_and_light(visit):
    visit.open()
    page = visit.page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for _ in range(2):
        page.get_by_role("button", name="Theme").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize("name", VIEWS)
def test_phone_layout(visiting, address, name):
    visit = visiting(address, viewport={"width": 390, "height": 844}, has_touch=True)
    open_view(visit, name)
    page = visit.page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    heights = "buttons => buttons.filter(b => b.checkVisibility()).map(b => b.offsetHeight)"
    assert min(page.locator("button, select, nav a").evaluate_all(heights)) >= 44


def test_api_docs_work_offline(visiting, address):
    visit = visiting(address)
    visit.page.goto(f"{address}/docs")
    expect(visit.page.get_by_text("/api/predict/tails")).to_be_visible()
