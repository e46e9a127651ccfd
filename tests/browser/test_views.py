"""The other views: the map, two runs side by side; themes and narrow screens."""

from __future__ import annotations

import httpx
import pytest
from tests.browser.conftest import TOKEN
from tests.browser.waiting import expect

VIEWS = {
    "home": "fact=Lyon&fact=in_country&fact=Germany",
    "welcome": "view=ask",
    "answers": "entity=Lyon&relation=in_country&why=France",
    "geometry": "view=geometry&relation=in_country",
    "map": "view=map&entity=Lyon",
    "comparison": "view=compare",
    "compare": "view=compare&entity=France&relation=neighbour_of",
}
SHOWN = {
    "home": ".home:has(.probable-fact) #why-body h4",
    "comparison": ".disagreement",
    "welcome": ".welcome",
    "answers": "#why-body h4",
    "geometry": ".stage canvas",
    "map": "canvas.map",
    "compare": ".columns .answer",
}


def open_view(visit, name):
    visit.open(VIEWS[name])
    expect(visit.page.locator(SHOWN[name]).first).to_be_visible()


def cut_off(page):
    """Return the texts that reach beyond the right edge of the screen."""
    return page.evaluate(
        """() => [...document.querySelectorAll("main :is(a, button, p, h2, h3, h4, li, input)")]
          .filter(each => each.checkVisibility() && !each.closest(".table-frame, .visually-hidden"))
          .filter(each => each.getBoundingClientRect().right > innerWidth)
          .map(each => each.textContent)"""
    )


def test_map(visit):
    visit.open("view=map&method=pca&entity=Lyon")
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
    visit.open("view=map&method=pca")
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
    """PCA is shown at once, t-SNE when it is computed; what is selected stays selected."""
    page = visit.page
    held = []
    page.route("**/api/map?*tsne*", lambda route: held.append(route))  # noqa: PLW0108
    open_view(visit, "map")
    canvas = page.locator("canvas.map")
    expect(canvas).to_have_attribute("data-method", "pca")
    expect(page.get_by_text("t-SNE is being computed")).to_be_visible()
    expect(page.get_by_role("radio", name="t-SNE")).to_be_checked()
    expect(page.locator(".map-count")).to_contain_text(
        "2,000 of 2,149 entities, those with the most facts."
    )
    expect(page.locator("#map-text")).to_contain_text("city")
    before = canvas.screenshot()
    for route in held:
        route.continue_()
    page.unroute("**/api/map?*tsne*")
    expect(canvas).to_have_attribute("data-method", "tsne")
    expect(page.get_by_text("Layout by t-SNE.")).to_be_visible()
    expect(page.locator("#map-named")).to_contain_text("Lyon")
    assert canvas.screenshot() != before
    page.get_by_role("radio", name="PCA").check()
    expect(canvas).to_have_attribute("data-method", "pca")
    assert "method=pca" in page.url


def test_map_without_tsne(visiting, address):
    """Where scikit-learn is missing, there is nothing to choose, and no error."""
    visit = visiting(address)

    def without(route):
        answer = route.fetch()
        runs = answer.json()
        for run in runs["runs"]:
            run["map_methods"] = ["pca"]
        route.fulfill(response=answer, json=runs)

    visit.page.route("**/api/runs", without)
    open_view(visit, "map")
    expect(visit.page.locator("canvas.map")).to_have_attribute("data-method", "pca")
    expect(visit.page.get_by_text("t-SNE")).to_have_count(0)
    expect(visit.page.get_by_role("group", name="Layout")).to_be_hidden()


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


def test_largest_disagreements_first(visit):
    """The list of the page is that of the server, and a query opens both lists of answers."""
    open_view(visit, "comparison")
    page = visit.page
    found = httpx.get(f"{visit.address}/api/compare?other=complex", timeout=60).json()
    rows = page.locator(".disagreement")
    expect(rows).to_have_count(100)
    gaps = rows.evaluate_all("rows => rows.map(row => Math.abs(row.dataset.difference))")
    assert gaps == sorted(gaps, reverse=True)
    first = found["queries"][0]
    answer = first["tail" if first["side"] == "tails" else "head"]["label"]
    ranks = [f"{rank:,g}" for rank in first["ranks"]]
    expect(rows.first).to_contain_text(
        f"{answer}: rank {ranks[0]} in fivestar, {ranks[1]} in complex"
    )
    held_out = f"All {found['num_triples']:,} test facts that neither run was trained on"
    expect(page.locator("#compare-body")).to_contain_text(held_out)
    table = page.get_by_role("region", name="Metrics per relation")
    relation = found["relations"][0]
    row = table.get_by_role("row").filter(has=page.get_by_title(relation["relation"]["id"]))
    for metrics in relation["metrics"]:
        expect(row).to_contain_text(f"{metrics['mrr']:.3f}")
    rows.first.get_by_role("link").click()
    for name in ("fivestar", "complex"):
        column = page.get_by_role("region", name=name, exact=True)
        expect(column.locator("li.answer")).to_have_count(10)
    page.get_by_role("link", name="All differences of these runs").click()
    expect(rows).to_have_count(100)


@pytest.mark.parametrize(("name", "path"), [("comparison", "compare"), ("map", "map")])
def test_a_result_that_is_still_being_computed(visit, name, path):
    """The page asks again, without an error, until it is there."""
    replies = [{"status": 202, "json": {"run": "fivestar", "status": "running"}}] * 3

    def reply(route):
        if replies:
            route.fulfill(**replies.pop())
        else:
            route.continue_()

    visit.page.route(f"**/api/{path}?*", reply)
    open_view(visit, name)
    assert replies == []
    expect(visit.page.locator(".problem")).to_have_count(0)


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


@pytest.mark.parametrize("name", VIEWS)
def test_narrowest_screens(visiting, address, name):
    visit = visiting(address, viewport={"width": 320, "height": 700}, has_touch=True)
    open_view(visit, name)
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 320
    assert cut_off(visit.page) == []


def test_the_map_is_above_the_fold_of_the_narrowest_screens(visiting, address):
    """However many types the legend has."""
    visit = visiting(address, viewport={"width": 320, "height": 640}, has_touch=True)
    visit.open("view=map&method=pca")
    canvas, legend = visit.page.locator("canvas.map"), visit.page.locator(".map-parts > .legend")
    expect(canvas).to_be_visible()
    assert canvas.bounding_box()["y"] < 400
    assert legend.bounding_box()["y"] > canvas.bounding_box()["y"]


def test_api_docs_work_offline(visiting, address):
    visit = visiting(address)
    visit.page.goto(f"{address}/docs")
    expect(visit.page.get_by_text("/api/predict/tails")).to_be_visible()
