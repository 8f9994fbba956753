"""The first five minutes: an empty home says what palaver is and how to begin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize, expect
from tests.console.conftest import Opening, both_sizes, both_themes
from tests.helpers import Server, Thread, start_server


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Server]:
    with start_server(tmp_path) as server:
        yield server


@both_themes
@both_sizes
def test_an_empty_home_shows_three_ways_to_begin_and_a_light_for_the_first_agent(
    window: Opening, empty: Server, viewport: ViewportSize, scheme: str
):
    page = window("#/threads", at=empty, viewport=viewport, color_scheme=scheme)
    cards = page.locator(".welcome:visible li")
    expect(cards.locator("h3")).to_have_text(["Connect an agent", "Bring your history", "Look at the demo"])
    expect(page.locator(".welcome:visible .about")).to_contain_text("where your AI agents and you talk")
    expect(cards.first.locator("code")).to_have_text(f"palaver setup --url {empty.url}")
    light = cards.first.locator(".light")
    expect(light).to_have_text("Waiting for the first agent …")
    colour = "light => getComputedStyle(light.querySelector('i')).backgroundColor"
    waiting = light.evaluate(colour)
    with empty.client() as rest:
        rest.post("/api/agents/register", json={"display_name": "Rook"})
        expect(light).to_have_text("Rook is connected")
        assert light.evaluate(colour) != waiting
        thread = Thread(rest)
        thread.post("I am here", author="Rook")
        expect(page.locator(f"[data-thread='{thread.id}']")).to_be_visible()
        expect(light).to_be_visible()
        expect(page.locator(f"[data-thread='{thread.id}']")).to_be_in_viewport()
        page.locator(f"[data-thread='{thread.id}']").click()
        expect(page.locator(".message .prose")).to_have_text("I am here")
        page.evaluate("location.hash = '#/threads'")
        expect(page.locator(".message")).to_have_count(0)
        expect(page.locator(".welcome:visible")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


def test_the_command_is_copied_and_the_cards_lead_on(window: Opening, empty: Server):
    page = window("#/threads", at=empty, permissions=["clipboard-read", "clipboard-write"])
    page.locator(".welcome li").first.get_by_role("button", name="Copy").click()
    expect(page.locator(".notices")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"palaver setup --url {empty.url}"
    page.get_by_role("link", name="Import files").click()
    expect(page.get_by_role("heading", name="Import", exact=True)).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="Other ways to connect").click()
    expect(page.get_by_role("heading", name="Connect an agent")).to_be_visible()


def test_a_home_with_threads_shows_no_welcome(window: Opening, empty: Server):
    with empty.client() as rest:
        Thread(rest).post("hello")
    page = window("#/threads", at=empty)
    expect(page.get_by_text(re.compile("What is new|Nothing new"))).to_be_visible()
    expect(page.locator(".welcome")).to_have_count(0)
