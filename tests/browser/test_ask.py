"""Queries and answers in the browser."""

from __future__ import annotations

import json

import pytest
from tests.browser.conftest import TOKEN
from tests.browser.waiting import expect

LYON = "entity=Lyon&relation=in_country"


def answers(page):
    return page.locator("#answers li.answer")


def field(page, name):
    return page.get_by_role("combobox", name=name, exact=True)


def test_examples(visit):
    visit.open("view=ask")
    page = visit.page
    expect(page.get_by_role("heading", name="Ask for the missing part of a fact")).to_be_visible()
    page.locator("#answers .query-link").first.click()
    expect(answers(page)).to_have_count(10)


def test_every_part_of_the_sentence_can_be_changed(visit):
    visit.open("view=ask")
    page = visit.page
    field(page, "Entity").fill("lyo")
    page.get_by_role("option", name="Lyon").click()
    field(page, "Relation").click()
    page.get_by_role("option", name="in country").click()
    expect(answers(page)).to_have_count(10)
    sentence = page.locator(".query-sentence input")
    assert [each.input_value() for each in sentence.all()] == ["Lyon", "in country", ""]
    expect(field(page, "Relation")).to_have_attribute("title", "in_country")
    # An entity in the blank moves the blank to the other end.
    field(page, "Blank").fill("Fran")
    page.get_by_role("option", name="France").first.click()
    expect(field(page, "Entity")).to_have_value("France")
    assert [each.input_value() for each in sentence.all()] == ["", "in country", "France"]
    assert "side=heads" in page.url
    page.get_by_role("button", name="Ask for the tail instead").click()
    assert [each.input_value() for each in sentence.all()] == ["France", "in country", ""]


def test_states_of_answers(visit):
    visit.open(LYON)
    page = visit.page
    known, other = answers(page).first, answers(page).last
    expect(known.locator(".badge")).to_have_text("in train")
    expect(known.locator(".tick")).to_have_text("✓")
    assert "%" not in known.text_content()
    assert known.locator(".bar").count() == 0
    expect(other.locator(".badge")).to_have_text("new")
    expect(other.locator(".figure")).to_contain_text("%")
    expect(other.locator(".bar")).to_be_visible()
    visit.open("entity=Agra&relation=in_country&which=known")
    held_out = answers(page).first
    expect(held_out.locator(".badge")).to_have_text("held out")
    expect(held_out.locator(".figure")).to_contain_text("%")


def test_options(visit):
    visit.open(LYON)
    page = visit.page
    button = page.get_by_role("button", name="Options")
    expect(button).to_have_attribute("aria-expanded", "false")
    known = page.get_by_role("radio", name="in the graph")
    expect(known).to_be_hidden()
    button.click()
    known.check()
    expect(answers(page)).to_have_count(1)
    expect(answers(page).first).to_contain_text("France")
    assert "which=known" in page.url
    page.get_by_role("radio", name="all", exact=True).check()
    page.get_by_role("combobox", name="Answers").select_option("25")
    expect(answers(page)).to_have_count(25)
    page.get_by_label("Type").select_option("city")
    expect(answers(page).filter(has_text="Germany")).to_have_count(0)
    expect(button).to_have_text("Options: top 25, city")
    page.keyboard.press("Escape")
    expect(known).to_be_hidden()
    expect(button).to_be_focused()


def test_nothing_found(visit):
    visit.open("view=ask")
    field(visit.page, "Entity").fill("zzzzqqqq")
    expect(visit.page.get_by_text("No matches.")).to_be_visible()
    visit.page.keyboard.press("Escape")
    expect(field(visit.page, "Entity")).to_have_value("")


def test_click_through_and_back(visit):
    visit.open(f"{LYON}&which=known")
    page = visit.page
    page.locator("#answers").get_by_role("link", name="France").click()
    # France was a tail, so the new query has it as the tail.
    expect(page.locator(".query-sentence input").last).to_have_value("France")
    expect(page.locator("h2.query-title .entity-name").first).to_have_text("?")
    expect(field(page, "Entity")).to_have_value("France")
    page.go_back()
    expect(field(page, "Entity")).to_have_value("Lyon")
    expect(answers(page)).to_have_count(1)


def test_entity_card(visit):
    visit.open("entity=France")
    card = visit.page.get_by_role("region", name="Entity")
    expect(card.get_by_role("heading", name="France")).to_be_visible()
    expect(card).to_contain_text("country")
    expect(card.get_by_role("heading", name="Similar")).to_be_visible()
    card.locator(".query-link").first.click()
    expect(answers(visit.page).first).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_why(visiting, address, width):
    visit = visiting(address, viewport={"width": width, "height": 850})
    visit.open(LYON)
    page = visit.page
    button = page.get_by_role("button", name="Why France?")
    button.click()
    panel = page.get_by_role("region", name="Why France?")
    for heading in (
        "For and against",
        "Supporting paths",
        "Analogous facts",
        "Contribution per dimension",
    ):
        expect(panel.get_by_role("heading", name=heading)).to_be_visible()
    expect(button).to_have_attribute("aria-expanded", "true")
    panel.get_by_role("button", name="Close the explanation").click()
    expect(panel).to_be_hidden()
    expect(button).to_be_focused()


def test_from_an_explanation_to_the_sphere(visit):
    visit.open(f"{LYON}&why=France")
    link = visit.page.get_by_role("link", name="on the sphere").first
    number = link.get_attribute("aria-label").split()[2]
    link.click()
    expect(visit.page.locator(".landing")).to_contain_text(f"Dimension {number}")
    expect(visit.page.get_by_role("heading", name="Lyon in country France")).to_be_visible()


def test_by_keyboard_only(visit):
    visit.open("view=ask")
    page = visit.page
    expect(field(page, "Entity")).to_be_visible()
    for _ in range(20):
        page.keyboard.press("Tab")
        if field(page, "Entity").evaluate("field => field === document.activeElement"):
            break
    page.keyboard.type("Lyo")
    expect(page.get_by_role("option", name="Lyon")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("in_count")
    # Enter may come before the completions.
    page.keyboard.press("Enter")
    expect(answers(page)).to_have_count(10)
    page.locator("#answers a.answer-name").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#why-title")).to_be_focused()


def test_arrow_keys_in_the_list(visit):
    visit.open("view=ask")
    page = visit.page
    field(page, "Relation").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".popup li").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = page.locator('.popup li[aria-selected="true"]')
    expect(chosen).to_have_count(1)
    expect(field(page, "Relation")).to_have_attribute(
        "aria-activedescendant", chosen.get_attribute("id")
    )
    name = chosen.locator(".option-label").text_content()
    page.keyboard.press("Enter")
    expect(field(page, "Relation")).to_have_value(name)


def test_an_unknown_name_offers_the_nearest(visiting, address):
    visit = visiting(address)
    visit.open("entity=Lyonn&relation=in_country")
    visit.page.get_by_role("button", name="Lyon", exact=True).first.click()
    expect(answers(visit.page)).to_have_count(10)


def test_an_unknown_relation_offers_the_nearest(visiting, address):
    visit = visiting(address)
    visit.open("entity=Lyon&relation=in_countri")
    visit.page.get_by_role("button", name="in_country", exact=True).click()
    expect(answers(visit.page)).to_have_count(10)


def test_a_server_error_can_be_retried(visiting, address):
    visit = visiting(address)
    problem = {
        "title": "Error",
        "status": 500,
        "code": "internal",
        "detail": "It broke <b>down</b>.",
    }
    answer = {
        "status": 500,
        "content_type": "application/problem+json",
        "body": json.dumps(problem),
    }
    visit.page.route("**/api/predict/tails", lambda route: route.fulfill(**answer))
    visit.open(LYON)
    # As text, not as markup.
    expect(visit.page.get_by_text("It broke <b>down</b>.").first).to_be_visible()
    visit.page.unroute("**/api/predict/tails")
    visit.page.get_by_role("button", name="Try again").click()
    expect(answers(visit.page)).to_have_count(10)


def test_a_server_with_a_token(visiting, guarded_address):
    visit = visiting(guarded_address)
    visit.open(LYON)
    page = visit.page
    token = page.get_by_label("Token", exact=True)
    token.fill("wrong")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("That token was not accepted.")).to_be_visible()
    token.fill(TOKEN)
    page.keyboard.press("Enter")
    expect(answers(page)).to_have_count(10)
    page.reload()
    expect(answers(page)).to_have_count(10)


def test_an_outdated_query_is_dropped(visit):
    """Answers that come late do not replace those of a newer query."""
    page = visit.page
    held = []
    page.route("**/api/predict/tails", lambda route: held.append(route))  # noqa: PLW0108
    visit.open(LYON)
    while not held:
        page.wait_for_timeout(20)
    page.unroute("**/api/predict/tails")
    field(page, "Entity").fill("Madrid")
    page.get_by_role("option", name="Madrid").first.click()
    expect(answers(page)).to_have_count(10)
    expect(page.locator("h2.query-title")).to_contain_text("Madrid")
