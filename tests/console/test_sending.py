"""Messages on their way, files that cannot be attached, notices, and imports that go on."""

from __future__ import annotations

from typing import Any

import httpx
from playwright.sync_api import FilePayload, Page, Route, ViewportSize, expect
from tests.console.conftest import Opening, both_sizes, both_themes
from tests.helpers import Thread, word


def hold(page: Page, address: str) -> list[Route]:
    held: list[Route] = []
    page.route(address, lambda route: held.append(route))
    return held


@both_sizes
def test_a_message_on_its_way_is_shown_at_once_and_once(
    window: Opening, thread: Thread, rest: httpx.Client, viewport: ViewportSize
):
    page = window(f"#/threads/{thread.id}", viewport=viewport)
    expect(page.get_by_text("No messages yet.")).to_be_visible()
    held = hold(page, "**/messages")
    page.get_by_label("Message", exact=True).fill("on its **way**")
    page.get_by_label("Message", exact=True).press("Enter")
    pending = page.locator(".message.pending")
    expect(pending).to_contain_text("Sending")
    expect(pending.locator(".prose")).to_have_text("on its **way**")
    expect(pending).to_be_in_viewport()
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    expect(pending).to_have_count(0)
    expect(page.locator(".message .prose")).to_have_text("on its way")


def test_a_message_is_not_shown_twice_when_its_event_comes_before_the_answer(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    expect(page.get_by_text("No messages yet.")).to_be_visible()
    answers: list[tuple[Route, Any]] = []
    page.route("**/messages", lambda route: answers.append((route, route.fetch())))
    page.get_by_label("Message", exact=True).fill("once")
    page.get_by_label("Message", exact=True).press("Enter")
    expect(page.locator(".message[data-seq='1']")).to_be_visible()
    expect(page.locator(".message")).to_have_count(1)
    route, answer = answers[0]
    route.fulfill(response=answer)
    expect(page.locator(".message")).to_have_count(1)


@both_themes
@both_sizes
def test_a_file_that_cannot_be_attached_is_named_and_the_notice_leaves_the_box_free(
    window: Opening, thread: Thread, viewport: ViewportSize, scheme: str
):
    page = window(f"#/threads/{thread.id}", viewport=viewport, color_scheme=scheme)
    page.locator(".compose input[type=file]").set_input_files(
        [FilePayload(name="report.pdf", mimeType="application/pdf", buffer=b"")]
    )
    notice = page.locator(".notices p")
    expect(notice).to_contain_text("Not attached: report.pdf")
    expect(page.locator(".compose .images")).to_have_count(0)
    shown, box = notice.bounding_box(), page.locator(".compose").bounding_box()
    assert shown
    assert box
    assert shown["y"] + shown["height"] <= box["y"]
    assert shown["x"] >= 0
    assert shown["x"] + shown["width"] <= viewport["width"]


def test_the_button_to_the_end_says_how_many_messages_came(window: Opening, thread: Thread, rest: httpx.Client):
    for number in range(60):
        thread.post(f"old {number}", author="Ann")
    rest.put("/api/read-marks")
    page = window(f"#/threads/{thread.id}")
    expect(page.locator(".message").last).to_be_in_viewport()
    page.locator(".scroll[role=log]").evaluate("box => box.scrollTop = 0")
    expect(page.locator(".to-end")).to_have_text("Newest messages")
    for number in range(3):
        thread.post(f"new {number}", author="Bob")
    expect(page.locator(".to-end")).to_have_text("3 new messages")


@both_sizes
def test_an_import_is_followed_again_after_a_reload(window: Opening, viewport: ViewportSize):
    page, name = window("#/import", viewport=viewport), word("note-")
    running: dict[str, Any] = {}

    def still_running(route: Route) -> None:
        answer = route.fetch()
        running.update(answer.json(), status="running", bytes_total=100, bytes_read=40)
        route.fulfill(response=answer, json=running)

    page.route("**/api/import", still_running)
    page.route("**/api/import/*", still_running)
    page.route("**/api/import/*/events", lambda route: route.abort())
    page.locator(".drop input").first.set_input_files(
        [FilePayload(name=f"{name}.md", mimeType="text/markdown", buffer=f"# {name}".encode())]
    )
    expect(page.locator(".job h2")).to_have_text("Importing …")
    page.reload()
    expect(page.locator(".job h2")).to_have_text("Importing …")
    expect(page.locator(".job .files")).to_contain_text(f"{name}.md")
    page.unroute_all()
    expect(page.locator(".job h2")).to_have_text("Done")
    expect(page.locator(".job .numbers li").first).to_have_text("1 new")


def test_a_burst_of_messages_is_all_there_and_the_end_stays_in_view(window: Opening, rest: httpx.Client):
    thread = rest.post("/api/threads", json={"topic": word("burst")}).json()["id"]
    page = window(f"#/threads/{thread}")
    expect(page.locator(".compose textarea")).to_be_visible()
    for number in range(60):
        text = (
            f"number {number}\n\n- one thing\n- another\n\n```\ncode\n```\n\n> a quote"
            if number % 2
            else f"short {number}"
        )
        rest.post(f"/api/threads/{thread}/messages", json={"author": f"agent{number % 3}", "content": text})
    expect(page.locator(".message")).to_have_count(60)
    expect(page.locator(".message").last).to_be_in_viewport()
    expect(page.locator(".message.late")).to_have_count(0)  # a moment later all are laid out
    expect(page.locator(".message").last).to_be_in_viewport()


def test_somebody_who_reads_older_messages_is_not_moved_by_a_burst(window: Opening, rest: httpx.Client):
    thread = rest.post("/api/threads", json={"topic": word("burst")}).json()["id"]
    for number in range(40):
        rest.post(f"/api/threads/{thread}/messages", json={"author": "ann", "content": f"older {number}\n\n- a\n- b"})
    page = window(f"#/threads/{thread}")
    page.locator(".to-end").click()
    expect(page.locator(".message").last).to_be_in_viewport()
    box = page.locator(".scroll[role=log]")
    box.evaluate("box => box.scrollTop = box.scrollHeight / 3")
    place = "box => [...box.querySelectorAll('.message')].find((one) => one.getBoundingClientRect().top > 200)"
    expect(page.locator(".message.late")).to_have_count(0)  # from now on nothing moves by itself
    page.wait_for_timeout(300)
    seq = box.evaluate(f"box => ({place})(box).dataset.seq")
    top = f"box => box.querySelector('.message[data-seq=\"{seq}\"]').getBoundingClientRect().top"
    before = box.evaluate(top)
    for number in range(30):
        rest.post(f"/api/threads/{thread}/messages", json={"author": "bea", "content": f"newer {number}\n\n> quote"})
    expect(page.locator(".to-end")).to_contain_text("30 new messages")
    expect(page.locator(".message.late")).to_have_count(0)
    assert abs(box.evaluate(top) - before) < 2
