"""The first view: facts that the graph is probably missing."""

from __future__ import annotations

import json
import re

from tests.browser.waiting import expect


def facts(page):
    return page.locator("li.probable-fact")


def test_closing_an_explanation(visit, completion):
    visit.open()
    page = visit.page
    why = facts(page).first.get_by_role("button", name="Why?")
    why.click()
    box = facts(page).first.get_by_role("region", name="Why")
    expect(page.locator("#why-title")).to_be_focused()
    head, tail = (completion["facts"][0][end]["label"] for end in ("head", "tail"))
    expect(page.locator("#why-title")).to_contain_text(re.compile(f"{head} .* {tail}"))
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    expect(why).to_be_focused()


def test_from_a_probable_fact_to_the_sphere(visit, completion):
    """The sphere shows the fact that was explained, in the dimension that was pressed."""
    visit.open()
    page = visit.page
    facts(page).first.get_by_role("button", name="Why?").click()
    link = page.get_by_role("link", name="on the sphere").first
    number = link.get_attribute("aria-label").split()[2]
    link.click()
    expect(page.locator(".landing")).to_contain_text(f"Dimension {number}")
    title = page.locator("#geometry-body h2")
    for end in ("head", "tail"):
        expect(title).to_contain_text(completion["facts"][0][end]["label"])


def test_show_more_and_the_filter(visit, completion):
    visit.open()
    page = visit.page
    expect(facts(page)).to_have_count(5)
    page.get_by_role("button", name="Show more").click()
    expect(facts(page)).to_have_count(15)
    expect(facts(page).nth(5).locator("a").first).to_be_focused()
    assert "shown=15" in page.url
    relation = next(each for each in completion["relations"] if each["id"] == "language_spoken")
    page.locator("#home-relation").select_option(relation["id"])
    expect(facts(page)).to_have_count(min(5, relation["num_facts"]))
    titles = facts(page).locator(".predicate, .arrow")
    assert {each.get_attribute("title") for each in titles.all()} == {relation["id"]}
    page.reload()
    expect(page.locator("#home-relation")).to_have_value(relation["id"])
    page.get_by_role("link", name="Home").click()
    expect(page.locator("#home-relation")).to_have_value("")


def test_the_reverse_of_a_fact_is_not_listed_again(visit):
    visit.open("view=home&relation=neighbour_of&shown=20")
    page = visit.page
    expect(facts(page)).to_have_count(20)
    pairs = [
        tuple(link.get_attribute("href").split("&")[0] for link in row.locator("a.entity").all())
        for row in facts(page).all()
    ]
    assert not {(tail, head) for head, tail in pairs} & set(pairs)
    expect(page.get_by_text("And the other way round").first).to_contain_text("%")


def test_what_was_searched(visit, completion):
    visit.open()
    scope = visit.page.locator(".scope")
    expect(scope).to_contain_text(f"{completion['searched']['num_candidates']:,} possible facts")
    expect(scope).to_contain_text("9 relations")


def answered(completion, **changes):
    return {
        "status": 200,
        "content_type": "application/json",
        "body": json.dumps({**completion, **changes}),
    }


def test_a_search_in_progress_and_a_large_graph(visiting, address, completion):
    visit = visiting(address)
    page = visit.page
    replies = [
        answered(completion, status="running", progress=0.4, facts=[], searched=None),
        answered(
            completion,
            facts=completion["facts"][:5],
            searched={
                "relations": 20,
                "num_relations": 800,
                "queries": 400,
                "num_queries": 40_000,
                "num_candidates": 9_000,
                "num_second_answers": 1,
                "is_complete": False,
            },
        ),
    ]
    page.route("**/api/probable-facts*", lambda route: route.fulfill(**replies[0]))
    visit.open()
    expect(page.locator("#home-body .loading")).to_contain_text("Searching the graph")
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "0.4")
    del replies[0]
    expect(facts(page)).to_have_count(5)
    scope = page.locator(".scope")
    expect(scope).to_contain_text("the 20 most frequent of 800 relations")
    expect(scope).to_contain_text("1.0 % of all heads and tails")


def test_no_probable_fact(visiting, address, completion):
    visit = visiting(address)
    empty = answered(completion, facts=[], num_facts=0, relations=[])
    visit.page.route("**/api/probable-facts*", lambda route: route.fulfill(**empty))
    visit.open()
    expect(visit.page.get_by_role("heading", name="No probable fact found")).to_be_visible()


def test_an_unknown_relation_leads_back(visiting, address):
    visit = visiting(address)
    visit.open("view=home&relation=in_countri")
    visit.page.get_by_role("link", name="Show all relations").click()
    expect(facts(visit.page)).to_have_count(5)


def test_by_keyboard_and_announced(visit):
    visit.open()
    page = visit.page
    expect(facts(page)).to_have_count(5)
    expect(page.locator("#status")).to_have_text("5 probable facts.")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('why-button')"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("#why-title")).to_be_focused()
    expect(page.locator("#why-body h4").first).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # close
    expect(page.locator("#why")).to_be_hidden()
    button = facts(page).first.get_by_role("button")
    expect(button).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "false")


def test_an_explanation_does_not_contradict_itself(visit):
    """No path supports an answer that the rest of the page ranks high: the page says so."""
    visit.open("entity=Lyon&relation=in_country&why=Germany")
    why = visit.page.locator("#why-body")
    expect(why.locator(".finding.against").filter(has_text="another tail")).to_contain_text(
        "France"
    )
    expect(why.get_by_text("No path supports it")).to_be_visible()
    more = why.locator("details")
    more.locator("summary").click()
    expect(more).to_contain_text("None of")
    text = why.inner_text()
    assert "Confidence" not in text
    assert "0.0 %" not in text
