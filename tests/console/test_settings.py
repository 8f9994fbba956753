"""The settings of the browser: name, theme, language, time format, density."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, ViewportSize, expect
from tests.console.conftest import Opening, both_sizes, both_themes
from tests.helpers import Thread, word


def choose(page: Page, group: str, option: str) -> None:
    button = page.get_by_role("group", name=group, exact=True).get_by_role("button", name=option, exact=True)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")


@both_sizes
def test_the_theme_and_the_name_are_chosen_in_the_settings(window: Opening, thread: Thread, viewport: ViewportSize):
    page, name = window("#/threads", viewport=viewport, color_scheme="light"), word("Nora")
    page.get_by_label("Account:").click()
    page.get_by_role("menuitem", name="Settings").click()
    choose(page, "Theme", "Dark")
    expect(page.locator("body")).to_have_attribute("data-theme", "dark")
    page.get_by_label("Name", exact=True).fill(name)
    page.keyboard.press("Tab")
    page.evaluate(f"location.hash = '#/threads/{thread.id}'")
    page.get_by_label("Message", exact=True).fill("hello")
    page.get_by_label("Message", exact=True).press("Enter")
    expect(page.locator(".message .author")).to_have_text(name)
    page.reload()
    expect(page.locator("body")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


def test_the_time_format_is_used_at_once_and_kept(window: Opening, thread: Thread, rest: httpx.Client):
    thread.post("hello", author="Ann")
    page = window(f"#/threads/{thread.id}", locale="en-US")
    when = page.locator(".message header .when")
    expect(when).to_have_text(re.compile("[AP]M$"))
    page.evaluate("location.hash = '#/settings'")
    choose(page, "Time format", "24 hours")
    page.evaluate(f"location.hash = '#/threads/{thread.id}'")
    expect(when).to_have_text(re.compile(r"^\d\d:\d\d$"))
    expect(page.locator(f"[data-thread='{thread.id}'] time")).to_have_text(re.compile(r"^\d\d:\d\d$"))
    page.reload()
    expect(when).to_have_text(re.compile(r"^\d\d:\d\d$"))


@pytest.mark.thorough
@both_themes
@both_sizes
def test_compact_shows_more_messages(
    window: Opening, thread: Thread, rest: httpx.Client, viewport: ViewportSize, scheme: str
):
    for number in range(6):
        thread.post(f"number {number}", author=f"a{number}")
    rest.put("/api/read-marks")
    page = window("#/settings", viewport=viewport, color_scheme=scheme)

    def height() -> float:
        page.evaluate(f"location.hash = '#/threads/{thread.id}'")
        expect(page.locator(".message")).to_have_count(6)
        return float(page.locator(".messages").evaluate("e => e.getBoundingClientRect().height"))

    comfortable = height()
    page.evaluate("location.hash = '#/settings'")
    choose(page, "Density", "Compact")
    assert height() < comfortable * 0.9
    page.reload()
    expect(page.locator("body")).to_have_attribute("data-density", "compact")


def test_notifications_that_the_browser_refuses_stay_off(window: Opening):
    page = window("#/settings", permissions=[])
    page.evaluate("Notification.requestPermission = async () => 'denied'")
    group = page.get_by_role("group", name="Notifications")
    group.get_by_role("button", name="On").click()
    expect(page.locator(".notices")).to_contain_text("does not allow notifications")
    expect(group.get_by_role("button", name="Off")).to_have_attribute("aria-pressed", "true")
