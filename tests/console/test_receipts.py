"""The marks under a message: what became of it at each agent that it names."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, Request, ViewportSize, expect
from tests.catchup.test_wake import Desk, text_of
from tests.console.conftest import Opening, both_sizes, both_themes
from tests.console.test_accessibility import AXE, RUN
from tests.console.test_language import translations
from tests.helpers import Server, Thread, eventually, word

from palaver.store.bus import receipts


@pytest.fixture
def desk(place: Server) -> Desk:
    return Desk(place)


def asked_for(page: Page) -> list[str]:
    """The ids of messages whose receipts the page asks for from now on."""
    found: list[str] = []

    def heard(request: Request) -> None:
        if match := re.search(r"/api/messages/([\w-]+)/receipts$", request.url):
            found.append(match[1])

    page.on("request", heard)
    return found


@both_themes
@both_sizes
def test_a_mark_follows_a_message_to_its_answer(
    window: Opening, thread: Thread, desk: Desk, viewport: ViewportSize, scheme: str
):
    waiting = desk.held()
    page = window(f"#/threads/{thread.id}", viewport=viewport, color_scheme=scheme)
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    message = thread.post(f"@{desk.agent} which port?")
    name = message["receipts"][0]["name"]
    mark = page.locator(f"#m-{message['id']} .mark")
    expect(mark.locator("span")).to_have_text(name)
    assert text_of(waiting)
    desk.report("confirm")
    expect(mark).to_have_attribute("title", f"{name} read this in turn 1, woken by it")
    line = page.locator(f"#m-{message['id']} summary")
    expect(line.get_by_text(f"{name} read this in turn 1, woken by it")).to_have_count(1)
    answer = thread.post("8080", author=desk.agent)
    expect(mark).to_have_attribute("data-state", "answered")
    line.press("Enter")
    page.get_by_role("link", name=f"{name} answered this, woken by it").click()
    expect(page.locator(f"#m-{answer['id']}")).to_be_focused()
    expect(page.locator(f"#m-{answer['id']} .mark")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


def test_a_reaction_and_its_end_change_the_mark(window: Opening, thread: Thread, desk: Desk):
    message = thread.post(f"@{desk.agent} will you?")
    page = window(f"#/threads/{thread.id}")
    mark = page.locator(f"#m-{message['id']} .mark")
    expect(mark).to_have_attribute("data-state", "stored")
    agent, path = thread.api.get(f"/api/agents/{desk.agent}").json()["id"], f"/api/messages/{message['id']}/reactions"
    thread.api.post(path, json={"agent_id": agent, "reaction": "declined"})
    expect(mark).to_have_attribute("data-state", "declined")
    thread.api.delete(f"{path}/declined", params={"agent_id": agent})
    expect(mark).to_have_attribute("data-state", "stored")


@both_themes
@both_sizes
def test_many_agents_are_one_line_and_open_to_all_with_the_reasons(
    window: Opening, thread: Thread, place: Server, viewport: ViewportSize, scheme: str
):
    desks = [Desk(place) for _ in range(4)]
    desks[0].report("session-end")
    nobody = word("nobody-")
    message = thread.post(" ".join(f"@{name}" for name in [*(one.agent for one in desks), nobody]))
    page = window(f"#/threads/{thread.id}", viewport=viewport, color_scheme=scheme)
    line = page.locator(f"#m-{message['id']} .receipts")
    expect(line.locator(".mark")).to_have_count(4)
    expect(line.locator(".mark[data-state=not_reached]")).to_have_count(2)
    expect(line.locator(".mark > span").last).to_have_text("+2")
    line.locator("summary").click()
    expect(line.locator("li")).to_have_count(5)
    expect(line).to_contain_text("was not reached. No session of it runs. It reads this when one starts.")
    expect(line).to_contain_text(f"{nobody} was not reached. Nobody has this name.")
    page.evaluate(AXE)
    assert page.evaluate(RUN, None) == []
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


def test_receipts_are_loaded_only_for_messages_in_view_that_may_have_some(
    window: Opening, thread: Thread, desk: Desk, rest: httpx.Client
):
    hidden = thread.post(f"@{desk.agent} out of view")
    for _ in range(30):
        thread.post("nobody is named\n\n" * 3)
    rest.put("/api/read-marks")
    page = window("healthz")
    asked = asked_for(page)
    page.goto(page.url.replace("healthz", f"#/threads/{thread.id}"))
    expect(page.locator(".message").last).to_be_in_viewport()
    last = thread.post(f"@{desk.agent} in view")
    expect(page.locator(f"#m-{last['id']} .mark")).to_be_visible()
    assert set(asked) == {last["id"]}
    page.locator(f"#m-{hidden['id']}").scroll_into_view_if_needed()
    expect(page.locator(f"#m-{hidden['id']} .mark")).to_be_visible()
    eventually(lambda: set(asked) == {last["id"], hidden["id"]})


def test_every_reason_has_a_german_translation():
    reasons = {value for name, value in vars(receipts).items() if name.isupper() and isinstance(value, str)}
    assert receipts.ENDED in reasons
    assert reasons - translations().keys() == set()
