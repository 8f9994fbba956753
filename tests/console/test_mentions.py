"""The agents of a thread, mentions of people, the inbox, and notifications."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import httpx
from playwright.sync_api import Page, ViewportSize, expect
from tests.console.conftest import Opening, Slow, both_sizes, both_themes
from tests.helpers import Thread, eventually, word


def called(page: Page, name: str) -> None:
    """Choose a name, as people do where no login is needed."""
    page.evaluate(f"localStorage.setItem('palaver.name', JSON.stringify('{name}'))")
    page.reload()


@both_themes
@both_sizes
def test_the_strip_says_who_listens_who_is_active_and_who_fell_silent_and_a_click_mentions(
    window: Opening, thread: Thread, rest: httpx.Client, viewport: ViewportSize, scheme: str
):
    ids = {}
    for slug in (word("kite"), word("wren")):
        made = rest.post("/api/agents/register", json={"display_name": slug.title(), "slug": slug}).json()
        ids[slug] = made
        thread.post("here", author=slug)
    kite, wren = ids
    gone = ids[wren]
    rest.post("/api/agents/unregister", json={"agent_id": gone["agent_id"], "token": gone["token"]})
    page = window(f"#/threads/{thread.id}", viewport=viewport, color_scheme=scheme)
    strip = page.get_by_role("list", name="Agents in this thread")
    expect(strip.locator("button", has_text=kite.title())).to_have_attribute("data-state", "works")
    expect(strip.locator("button", has_text=kite.title())).to_contain_text("active just now")
    expect(strip.locator("button", has_text=wren.title())).to_have_count(0)
    strip.get_by_label("Show all 2 agents").click()
    expect(strip.locator("button", has_text=wren.title())).to_have_attribute("data-state", "silent")
    expect(strip.locator("button").first).to_contain_text(kite.title())
    page.get_by_label("Message", exact=True).fill("please look")
    strip.locator("button", has_text=kite.title()).click()
    expect(page.get_by_label("Message", exact=True)).to_have_value(f"please look @{kite} ")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.get_by_label("Message", exact=True).press("Enter")
    eventually(lambda: thread.messages()[-1]["mentions"] == [ids[kite]["agent_id"]])
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


@both_sizes
def test_the_strip_says_what_an_agent_works_on_and_for_how_long(
    window: Opening, thread: Thread, rest: httpx.Client, viewport: ViewportSize
):
    slug = word("crow")
    rest.post("/api/agents/register", json={"display_name": slug.title(), "slug": slug})
    thread.post("here", author=slug)
    started = datetime.now(UTC) - timedelta(minutes=30)
    turns = [
        {
            "id": word(),
            "role": "user",
            "content": "Mend the fence",
            "ts": started.isoformat(),
            "project": "/src/garden",
        },
        {"id": word(), "role": "assistant", "content": "On it.", "ts": datetime.now(UTC).isoformat()},
    ]
    answer = rest.put(f"/api/v1/agents/{slug}/sessions/{word()}/messages", json={"turns": turns})
    assert answer.status_code == 200, answer.text
    page = window(f"#/threads/{thread.id}", viewport=viewport)
    button = page.locator(".strip button", has_text=slug.title())
    expect(button).to_contain_text("works for 30 min on “Mend the fence” (garden)")
    expect(button).to_have_attribute("data-state", "works")
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    page.evaluate("location.hash = '#/agents'")
    card = page.locator(".people li", has_text=slug.title())
    expect(card).to_contain_text("works for 30 min on Mend the fence")
    card.get_by_role("link", name="Mend the fence").click()
    expect(page.locator(".step").first).to_be_visible()


def test_an_agent_that_waits_in_the_thread_listens(window: Opening, thread: Thread, rest: httpx.Client):
    slug = word("rook")
    rest.post("/api/agents/register", json={"display_name": slug.title(), "slug": slug})
    thread.post("here", author=slug)
    page = window("healthz")

    def waiting(route: object) -> None:
        answer = route.fetch()  # type: ignore[attr-defined]
        body = answer.json()
        for agent in body:
            if agent["slug"] == slug:
                agent["waiting_in"] = thread.id
        route.fulfill(response=answer, json=body)  # type: ignore[attr-defined]

    page.route("**/api/agents?*", waiting)
    page.goto(page.url.replace("healthz", f"#/threads/{thread.id}"))
    expect(page.locator(".strip button", has_text=slug.title())).to_have_attribute("data-state", "listens")
    expect(page.locator(".strip button", has_text=slug.title())).to_contain_text("listens")


@both_sizes
def test_the_strip_is_one_row_however_many_agents_a_thread_has(
    window: Opening, thread: Thread, rest: httpx.Client, viewport: ViewportSize
):
    slugs = [word(f"crow{number}") for number in range(25)]
    for slug in slugs:
        rest.post("/api/agents/register", json={"display_name": slug.title(), "slug": slug})
        thread.post("here", author=slug)
    page = window(f"#/threads/{thread.id}", viewport=viewport)
    strip = page.locator(".strip")
    expect(strip.locator("button[data-state]")).to_have_count(4)
    closed = strip.bounding_box()
    assert closed
    assert closed["height"] < 60
    expect(strip.locator(".rest")).to_have_text("+21")
    strip.get_by_label("Show all 25 agents").click()
    expect(strip.locator("button[data-state]")).to_have_count(25)
    strip.get_by_label("Show fewer").click()
    expect(strip.locator("button[data-state]")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


def test_a_mention_of_a_person_keeps_its_mark_when_the_page_is_loaded_again(
    window: Opening, thread: Thread, rest: httpx.Client
):
    name = word("Paula")
    Thread(rest).post("hello", author=name)
    thread.post(f"and you, @{name}?")
    rest.put("/api/read-marks")
    page = window("healthz")
    late = Slow(page, "**/api/threads/glance?*")
    page.goto(page.url.replace("healthz", f"#/threads/{thread.id}"))
    expect(page.locator(".message")).to_have_count(1)
    eventually(late.is_given)
    late.arrives()
    expect(page.locator(".message .mention")).to_have_text(f"@{name}")


def test_a_thread_without_agents_has_no_strip(window: Opening, thread: Thread):
    thread.post("people only", author="Ann")
    page = window(f"#/threads/{thread.id}")
    expect(page.locator(".message")).to_have_count(1)
    expect(page.locator(".strip")).to_have_count(0)


def test_people_are_suggested_and_mentioned_also_with_a_space_in_their_name(window: Opening, thread: Thread):
    mark = word("lovelace")
    thread.post("hello", author=f"Ada {mark}")
    page = window(f"#/threads/{thread.id}")
    box = page.get_by_label("Message", exact=True)
    box.press_sequentially(f"thanks @{mark[:12]}")
    expect(page.locator(".names li")).to_have_text(re.compile(f"Ada {mark}"))
    page.keyboard.press("Enter")
    expect(box).to_have_value(f"thanks @Ada-{mark} ")
    page.keyboard.press("Enter")
    expect(page.locator(".message .mention")).to_have_text(f"@Ada-{mark}")
    assert thread.messages()[-1]["mentions"] == [f"Ada {mark}"]
    assert [one["seq"] for one in thread.api.get("/api/mentions", params={"name": f"Ada {mark}"}).json()] == [2]


@both_themes
@both_sizes
def test_mentions_arrive_in_the_inbox_and_are_read_in_their_thread(
    window: Opening, thread: Thread, rest: httpx.Client, viewport: ViewportSize, scheme: str
):
    name = word("Nora")
    rest.put("/api/read-marks")
    page = window("#/threads", viewport=viewport, color_scheme=scheme)
    called(page, name)
    bell = page.locator(".bell")
    expect(bell).to_have_attribute("aria-label", "Mentions")
    message = thread.post(f"@{name} can you decide?", author="Ann")
    expect(bell).to_have_attribute("aria-label", "Mentions, 1 unread")
    bell.click()
    row = page.locator(".mentions .hit")
    expect(row).to_have_text(re.compile("can you decide"))
    expect(row).to_contain_text(thread.topic)
    expect(page.get_by_text("1 unread mention")).to_be_visible()
    row.click()
    expect(page.locator(f"#m-{message['id']}")).to_be_in_viewport()
    eventually(lambda: rest.get(f"{thread.path}/read-mark").json()["seq"] == 1)
    page.evaluate("location.hash = '#/mentions'")
    expect(page.get_by_text("0 unread mentions")).to_be_visible()
    expect(row).to_have_count(1)


NOTIFICATIONS = """() => {
    globalThis.shown = [];
    globalThis.Notification = class {
        static permission = "granted";
        static requestPermission = async () => "granted";
        constructor(title, options) { globalThis.shown.push([title, options.body]); }
    };
}"""


def test_a_mention_is_shown_by_the_system_only_when_wanted_and_nobody_looks(window: Opening, thread: Thread):
    name = word("Nora")
    page = window("#/settings")
    called(page, name)
    page.evaluate(NOTIFICATIONS)
    page.evaluate("document.hasFocus = () => false")
    thread.post(f"@{name} first", author="Ann")
    eventually(
        lambda: (
            page.evaluate(
                "performance.getEntriesByType('resource').filter(r => r.name.includes('/api/mentions')).length"
            )
            >= 2
        )
    )
    assert page.evaluate("shown") == []
    page.get_by_role("group", name="Notifications").get_by_role("button", name="On").click()
    thread.post(f"@{name} second", author="Ann")
    eventually(lambda: page.evaluate("shown.length") == 1)
    assert page.evaluate("shown") == [[f"Ann mentions you in {thread.topic}", f"@{name} second"]]
    page.evaluate("document.hasFocus = () => true")
    thread.post(f"@{name} third", author="Ann")
    page.evaluate("location.hash = '#/mentions'")
    expect(page.locator(".mentions .hit")).to_have_count(3)
    assert page.evaluate("shown.length") == 1
