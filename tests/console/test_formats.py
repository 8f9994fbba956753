"""Times, days and numbers as the viewer writes them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import httpx
import pytest
from playwright.sync_api import Page, ViewportSize, expect
from tests.console.conftest import Opening, both_sizes
from tests.helpers import Thread


def heights(page: Page) -> list[float]:
    expect(page.locator(".message.going-on")).to_have_count(3)
    return [float(one.evaluate("e => e.getBoundingClientRect().height")) for one in page.locator(".going-on").all()]


@both_sizes
def test_grouped_messages_are_as_high_with_a_12_hour_clock_as_with_24_hours(
    window: Opening, thread: Thread, rest: httpx.Client, viewport: ViewportSize
):
    for number in range(4):
        thread.post(f"number {number}", author="Ann")
    rest.put("/api/read-marks")
    page = window(f"#/threads/{thread.id}", viewport=viewport, locale="de-DE")
    usual = heights(page)
    page = window(f"#/threads/{thread.id}", viewport=viewport, locale="en-US")
    expect(page.locator(".message header .when").first).to_contain_text("M")
    assert heights(page) == usual
    inside = page.locator(".going-on .side").first.evaluate("side => side.scrollWidth <= side.clientWidth")
    assert inside, "the time is not cut and does not reach into the text"


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Niue"])
def test_the_days_of_the_overview_are_the_viewer_s(window: Opening, thread: Thread, zone: str):
    thread.post("now")
    page = window("#/overview", timezone_id=zone, locale="en-GB")
    today = datetime.now(ZoneInfo(zone))
    bar = page.locator(".days g").last
    expect(bar.locator("rect.s0")).to_have_count(1)
    expect(bar.locator("title")).to_contain_text(f"{today.day} {today:%b}")


@both_sizes
def test_large_numbers_are_not_cut_in_the_chart(window: Opening, thread: Thread, viewport: ViewportSize):
    thread.post("now")
    page = window("healthz", viewport=viewport)

    def many(route: object) -> None:
        answer = route.fetch()  # type: ignore[attr-defined]
        body = answer.json()
        body["days"] = [{"day": body["days"][-1]["day"], "source": "bus", "messages": 1_234_567}]
        route.fulfill(response=answer, json=body)  # type: ignore[attr-defined]

    page.route("**/api/overview*", many)
    page.goto(page.url.replace("healthz", "#/overview"))
    label = page.locator(".days .y").last
    expect(label).to_have_text("2,000,000")
    chart, text = page.locator(".days").bounding_box(), label.bounding_box()
    assert chart
    assert text
    assert text["x"] >= chart["x"]


def test_the_rest_of_a_very_long_message_is_shown_on_request(window: Opening, thread: Thread, rest: httpx.Client):
    thread.post("word " * 60_000 + "the very end")
    rest.put("/api/read-marks")
    page = window(f"#/threads/{thread.id}")
    page.get_by_role("button", name="Show all", exact=True).click()
    page.get_by_role("button", name="Show the rest as plain text (100,012 characters)").click()
    expect(page.locator(".prose .rest")).to_contain_text("the very end")


def test_headings_of_a_note_follow_one_another(window: Opening, rest: httpx.Client):
    text = "### Deep first\n\n# Then high\n\n#### And deep again\n\ntext"
    id = rest.post("/api/notes", json={"title": "Heads", "content": text}).json()["id"]
    page = window(f"#/open/notes/{id}")
    expect(page.locator(".prose > :is(h2, h3, h4)")).to_have_text(["Deep first", "Then high", "And deep again"])
    assert page.evaluate("[...document.querySelectorAll('.prose > *')].map((one) => one.tagName)") == [
        "H2",
        "H2",
        "H3",
        "P",
    ]
