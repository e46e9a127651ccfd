"""A walk through all views as a person takes it, on a phone: what is seen, and where."""

from __future__ import annotations

import re

from tests.browser.test_home import facts
from tests.browser.waiting import expect

PHONE = {"width": 390, "height": 844}


def above_the_fold(locator):
    box = locator.bounding_box()
    return box["y"] >= 0 and box["y"] + box["height"] <= PHONE["height"]


def test_a_walk_through_all_views(visiting, address, completion):
    visit = visiting(address, viewport=PHONE, has_touch=True, reduced_motion="reduce")
    page = visit.page
    nav = page.get_by_role("navigation", name="Views")
    best = completion["facts"][0]
    head, relation, tail = (best[part]["label"] for part in ("head", "relation", "tail"))

    # Home: five sentences, each with a probability; the first is the most probable fact.
    visit.open()
    expect(page.get_by_role("heading", name="Links this graph is probably missing")).to_be_visible()
    expect(facts(page)).to_have_count(5)
    sentence = facts(page).first.locator(".sentence").inner_text()
    assert re.fullmatch(rf"{head} (is|has|uses) .* {tail}", sentence), sentence
    for row in facts(page).all():
        assert re.fullmatch(r"\d+(\.\d)? %", row.locator(".figure").inner_text())
    assert above_the_fold(facts(page).nth(2))

    # Why? opens under its fact, and says what is for and against it.
    facts(page).first.get_by_role("button", name="Why?").click()
    why = facts(page).first.get_by_role("region", name="Why")
    expect(why.get_by_role("heading", name="For and against")).to_be_visible()
    expect(why.locator(".finding").first).to_contain_text(re.compile("most similar|path"))
    shared = page.url

    # Ask: the query as a sentence, the first answer above the fold, a tick for facts of train.
    facts(page).first.get_by_role("link").first.click()
    parts = [field.input_value() for field in page.locator(".query-sentence input").all()]
    assert parts == [head, relation.replace("_", " "), ""]
    first = page.locator("li.answer").first
    expect(first).to_be_visible()
    assert above_the_fold(first)
    known = page.locator("li.answer:has(.badge.train)")
    assert all("%" not in text for text in known.all_inner_texts())

    # Geometry: the answer and others by name on the sphere; Play moves heads to their images.
    nav.get_by_role("link", name="Geometry").click()
    answer = page.locator("#geometry-body h2")
    expect(answer).to_contain_text(head)
    expect(page.locator(".lead")).to_contain_text("contributes most to the score of this answer")
    names = page.locator(".stage .name-label").filter(visible=True)
    expect(names.filter(has_text=head).first).to_be_visible()
    assert len(names.all_inner_texts()) >= 8
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".transport .figure")).to_have_text("s = 1.00")

    # Map: how many entities there are and how many are shown; the entity of the query is marked.
    nav.get_by_role("link", name="Map").click()
    expect(page.locator(".map-count")).to_contain_text("2,000 of 2,149 entities")
    expect(page.locator("#map-named strong")).to_have_text(head)

    # Compare: both lists of answers, then where the runs disagree most.
    nav.get_by_role("link", name="Compare").click()
    expect(page.locator(".column li.answer").first).to_be_visible()
    page.get_by_role("link", name="All differences of these runs").click()
    disagreement = page.locator(".disagreement").first
    expect(disagreement).to_contain_text(re.compile(r"rank \S+ in fivestar, \S+ in complex"))

    # A link that was copied on the way opens the same explanation.
    again = visiting(address, viewport=PHONE)
    again.page.goto(shared)
    expect(facts(again.page).first.get_by_role("region", name="Why")).to_be_visible()
