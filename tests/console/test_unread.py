"""Unread messages: where a thread opens, what counts as read, and marks that all devices share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, ViewportSize, expect
from tests.console.conftest import PHONE, WIDE, Opening, both_sizes, both_themes
from tests.helpers import Server, Thread, eventually, start_server, word


@pytest.fixture
def unread(thread: Thread, rest: httpx.Client) -> Thread:
    """A thread with 30 messages that were read and 120 that were not."""
    for number in range(1, 31):
        thread.post(f"old {number}", author="Ann")
    rest.put("/api/read-marks")
    for number in range(31, 151):
        thread.post(f"new {number}", author="Bob")
    return thread


def mark(thread: Thread) -> int:
    return int(thread.api.get(f"{thread.path}/read-mark").json()["seq"])


def news(page: Page, thread: Thread) -> str | None:
    return page.locator(f"[data-thread='{thread.id}'] .news").text_content()


@both_sizes
def test_a_thread_opens_at_its_first_unread_message_and_reading_is_what_was_in_view(
    window: Opening, unread: Thread, viewport: ViewportSize
):
    page = window(f"#/threads/{unread.id}", viewport=viewport)
    expect(page.locator(".new")).to_contain_text("120 new since ")
    expect(page.locator(".new")).to_be_in_viewport()
    expect(page.locator(".message[data-seq='31']")).to_be_in_viewport()
    expect(page.locator(".message[data-seq='30']")).to_be_in_viewport()
    expect(page.locator(".message[data-seq='150']")).to_have_count(0)
    eventually(lambda: 31 <= mark(unread) < 80)
    before = mark(unread)
    expect(page.locator(".to-end")).to_have_text(f"{150 - before} new messages")
    page.locator(".scroll[role=log]").evaluate("box => box.scrollTop += box.clientHeight")
    eventually(lambda: before < mark(unread) < 120)
    page.locator(".to-end").click()
    expect(page.locator(".message[data-seq='150']")).to_be_in_viewport()
    expect(page.locator(".to-end")).to_have_count(0)
    eventually(lambda: mark(unread) == 150)


@both_themes
def test_the_line_above_new_messages_can_be_read_in_both_themes(window: Opening, unread: Thread, scheme: str):
    page = window(f"#/threads/{unread.id}", color_scheme=scheme)
    line = page.locator(".new span")
    expect(line).to_be_in_viewport()
    colour, ground = line.evaluate("line => [getComputedStyle(line).color, getComputedStyle(document.body).color]")
    assert colour != ground


def test_a_link_into_the_middle_leaves_the_messages_before_it_unread(window: Opening, unread: Thread):
    wanted = unread.messages(after_seq=99, limit=1)[0]
    page = window(f"#/threads/{unread.id}?message={wanted['id']}")
    expect(page.locator(f"#m-{wanted['id']}")).to_be_in_viewport()
    page.locator(".scroll[role=log]").evaluate("box => box.scrollTop += 100")
    page.wait_for_timeout(700)
    assert mark(unread) == 30
    expect(page.locator(".to-end")).to_have_text("120 new messages")


def test_few_unread_messages_open_at_the_end_with_the_line_in_view(window: Opening, thread: Thread, rest: httpx.Client):
    for number in range(40):
        thread.post(f"old {number}", author="Ann")
    rest.put("/api/read-marks")
    thread.post("news", author="Bob")
    page = window(f"#/threads/{thread.id}")
    expect(page.locator(".new")).to_contain_text("1 new since")
    expect(page.locator(".message").last).to_be_in_viewport()
    expect(page.locator(".to-end")).to_have_count(0)
    eventually(lambda: mark(thread) == 41)


@pytest.mark.thorough
def test_marks_are_the_same_on_another_device(window: Opening, unread: Thread):
    desk = window("#/threads", viewport=WIDE)
    row = desk.locator(f"[data-thread='{unread.id}']")
    expect(row.locator(".news")).to_have_text("99+")
    phone = window(f"#/threads/{unread.id}", viewport=PHONE)
    phone.locator(".to-end").click()
    eventually(lambda: mark(unread) == 150)
    desk.bring_to_front()
    desk.wait_for_timeout(3100)  # marks are not asked for more often than that
    desk.evaluate("dispatchEvent(new Event('focus'))")
    expect(row.locator(".news")).to_have_count(0)


def test_reading_on_one_device_does_not_move_the_mark_of_another_back(window: Opening, unread: Thread):
    page = window(f"#/threads/{unread.id}")
    eventually(lambda: mark(unread) > 30)
    unread.api.put(f"{unread.path}/read-mark", json={"seq": 150})
    page.locator(".scroll[role=log]").evaluate("box => box.scrollTop += box.clientHeight / 2")
    page.wait_for_timeout(900)
    assert mark(unread) == 150


def test_a_message_can_be_marked_unread_and_stays_so_until_the_thread_is_opened_again(
    window: Opening, thread: Thread, rest: httpx.Client
):
    for number in range(5):
        thread.post(f"message {number}", author="Ann")
    rest.put("/api/read-marks")
    page = window(f"#/threads/{thread.id}")
    page.locator(".message[data-seq='3']").hover()
    page.get_by_label("More").click()
    page.get_by_role("menuitem", name="Mark as unread").click()
    expect(page.locator(f"[data-thread='{thread.id}'] .news")).to_have_text("3")
    expect(page.locator(".new")).to_contain_text("3 new since")
    eventually(lambda: mark(thread) == 2)
    page.locator(".scroll[role=log]").hover()
    page.mouse.wheel(0, 50)
    page.wait_for_timeout(700)
    assert mark(thread) == 2
    page.evaluate("location.hash = '#/agents'")
    expect(page.get_by_role("heading", name="Connect an agent")).to_be_visible()
    page.evaluate(f"location.hash = '#/threads/{thread.id}'")
    eventually(lambda: mark(thread) == 5)
    expect(page.locator(f"[data-thread='{thread.id}'] .news")).to_have_count(0)


def test_all_threads_are_marked_read_at_once(window: Opening, unread: Thread, rest: httpx.Client):
    Thread(rest).post("more", author="Bob")
    page = window("#/threads")
    expect(page.locator(".threads .news").first).to_be_visible()
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator(".threads .news")).to_have_count(0)
    expect(page.get_by_role("button", name="Mark all as read")).to_have_count(0)
    eventually(lambda: mark(unread) == 150)
    page.reload()
    expect(page.locator(".threads a").first).to_be_visible()
    expect(page.locator(".threads .news")).to_have_count(0)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Server]:
    with start_server(tmp_path) as server:
        yield server


def test_at_the_first_visit_everything_counts_as_read_also_by_a_link(window: Opening, fresh: Server):
    with fresh.client() as rest:
        thread, other = Thread(rest), Thread(rest)
        other.post("long ago")
        thread.post("here")
        page = window(f"#/threads/{thread.id}", at=fresh)
        row = page.locator(f"[data-thread='{other.id}']")
        expect(row).to_be_visible()
        expect(page.locator(".threads .news")).to_have_count(0)
        expect(page.locator(".new")).to_have_count(0)
        eventually(lambda: mark(other) == 1)
        other.post("just now", author="Bob")
        expect(row.locator(".news")).to_have_text("1")
        page.reload()
        expect(row.locator(".news")).to_have_text("1")


def test_messages_that_nobody_looks_at_stay_unread(window: Opening, thread: Thread, rest: httpx.Client):
    rest.put("/api/read-marks")
    page = window(f"#/threads/{thread.id}")
    expect(page.get_by_text("No messages yet.")).to_be_visible()
    page.evaluate("document.hasFocus = () => false")
    thread.post("while you were away", author="Bob")
    expect(page.locator(".message")).to_have_count(1)
    expect(page.locator(f"[data-thread='{thread.id}'] .news")).to_have_text("1")
    page.evaluate("document.hasFocus = () => true; dispatchEvent(new Event('focus'))")
    expect(page.locator(f"[data-thread='{thread.id}'] .news")).to_have_count(0)
    eventually(lambda: mark(thread) == 1)


@both_sizes
def test_the_home_lists_what_is_new(window: Opening, rest: httpx.Client, viewport: ViewportSize):
    page = window("#/threads", viewport=viewport)
    expect(page.locator(".threads a").first).to_be_visible()
    thread, agent = Thread(rest), word("Finch")
    rest.post("/api/agents/register", json={"display_name": agent})
    thread.post(f"{thread.topic} for @human", author=agent)
    home = page.locator(".news-of")
    if viewport == PHONE:
        expect(home).to_be_hidden()
        return
    expect(home.locator("section", has_text="Agents online")).to_contain_text(agent)
    expect(home.locator("section", has_text="Mentions")).to_contain_text("for @human")
    unread = home.locator("section", has_text="Unread threads")
    expect(unread.locator("li", has_text=thread.topic)).to_contain_text("1 new")
    unread.get_by_role("link", name=thread.topic).click()
    expect(page.locator(".message")).to_contain_text("for @human")


def test_a_message_that_i_wrote_on_another_device_means_that_i_have_read_the_thread(window: Opening, thread: Thread):
    page = window("#/threads")
    page.evaluate("localStorage.setItem('palaver.name', JSON.stringify('Ann'))")
    page.reload()
    row = page.locator(f"[data-thread='{thread.id}']")
    thread.post("a question", author="Bob")
    thread.post("another one", author="Bob")
    expect(row.locator(".news")).to_have_text("2")
    thread.post("an answer", author="Ann")
    expect(row.locator(".last")).to_contain_text("You: an answer")
    expect(row.locator(".news")).to_have_count(0)
    thread.post("thanks", author="Bob")
    expect(row.locator(".news")).to_have_text("1")
