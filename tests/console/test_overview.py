"""The overview: a year as a heat map, authors and projects over time, and each chart as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize, expect
from tests.console.conftest import Opening, both_sizes
from tests.helpers import Server, Thread, start_server, word

TODAY = datetime.now(UTC)


@dataclass(frozen=True)
class Busy:
    server: Server
    word: str
    """A word of the message of today."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    """A server with a message of today and turns of an agent in a project, the oldest of 200 days ago."""
    said = word("said")
    with start_server(tmp_path_factory.mktemp("busy")) as server, server.client() as api:
        Thread(api).post(f"hello {said}", author="Zoe")
        turns = [
            {
                "id": word(),
                "role": "assistant",
                "content": f"turn of {ago} days ago",
                "ts": (TODAY - timedelta(days=ago)).isoformat(),
                "project": "/src/garden",
            }
            for ago in (0, 1, 1, 1, 20, 200)
        ]
        answer = api.put("/api/v1/agents/coder/sessions/s/messages", json={"turns": turns})
        assert answer.status_code == 200, answer.text
        yield Busy(server, said)


@both_sizes
def test_a_day_of_the_heat_map_leads_to_its_messages(window: Opening, busy: Busy, viewport: ViewportSize):
    page = window("#/overview", at=busy.server, viewport=viewport, timezone_id="UTC")
    squares = page.locator(".heat rect")
    expect(squares).to_have_count(366)
    expect(page.locator(".heat a")).to_have_count(4)
    expect(page.get_by_text("7 messages on 4 days.")).to_be_visible()
    levels = page.locator(".heat a rect").evaluate_all("squares => squares.map((square) => square.className.baseVal)")
    assert levels[2] == "l4", "the busiest day is the darkest"
    assert levels[0] == "l1"
    last = page.locator(".heat a").last
    expect(last).to_be_in_viewport()
    last.click()
    expect(page.locator(".hits")).to_contain_text(busy.word)
    expect(page.locator(".hits")).not_to_contain_text("turn of 1 days ago")
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


@both_sizes
def test_authors_and_projects_have_lanes_over_the_period(window: Opening, busy: Busy, viewport: ViewportSize):
    page = window("#/overview", at=busy.server, viewport=viewport, timezone_id="UTC")
    authors = page.get_by_role("region", name="Authors over time").locator(".lanes li")
    expect(authors.locator("> span")).to_have_text(["coder", "Zoe"])
    expect(authors.locator("b")).to_have_text(["5", "1"])
    expect(authors.first.locator("a")).to_have_count(3)
    page.get_by_role("button", name="7 days").click()
    expect(authors.first.locator("a")).to_have_count(2)
    projects = page.get_by_role("region", name="Projects over time").locator(".lanes li")
    expect(projects.locator("> span")).to_have_text(["garden"])
    projects.locator("a").first.click()
    expect(page.locator(".hits")).to_contain_text("turn of 1 days ago")
    expect(page.locator(".hits")).not_to_contain_text(busy.word)


@both_sizes
def test_every_chart_can_be_read_as_a_table(window: Opening, busy: Busy, viewport: ViewportSize):
    page = window("#/overview", at=busy.server, viewport=viewport, timezone_id="UTC")
    for title, columns, newest in (
        ("Messages in the last year", ["Day", "Messages"], ["2"]),
        ("Messages per day", ["Day", "Threads", "Sessions"], ["1", "1"]),
        ("Authors over time", ["Day", "coder", "Zoe"], ["1", "1"]),
        ("Projects over time", ["Day", "garden"], ["1"]),
    ):
        page.get_by_role("button", name=f"Show as table: {title}").click()
        table = page.get_by_role("region", name=title).get_by_role("table")
        expect(table.get_by_role("columnheader")).to_have_text(columns)
        expect(table.locator("tbody tr").first.locator("td")).to_have_text(newest)
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    page.get_by_role("button", name="Show as chart: Messages per day").click()
    expect(page.locator(".days")).to_be_visible()
    page.get_by_role("region", name="Authors over time").get_by_role("link", name="3", exact=True).click()
    expect(page.locator(".hits")).to_contain_text("turn of 1 days ago")


def test_a_new_home_says_how_to_begin_instead_of_showing_charts(window: Opening, tmp_path: Path):
    with start_server(tmp_path) as empty:
        page = window("#/overview", at=empty)
        expect(page.locator(".overview .empty")).to_contain_text("No messages yet")
        expect(page.locator(".overview svg.heat, .overview svg.days")).to_have_count(0)
        expect(page.get_by_role("link", name="Import files")).to_be_visible()
        expect(page.locator(".tiles li").first).to_be_visible()


def test_new_messages_move_the_figures(window: Opening, tmp_path: Path):
    with start_server(tmp_path) as server, server.client() as rest:
        thread = Thread(rest)
        thread.post("one", author="Ann")
        page = window("#/overview", at=server)
        first = page.locator(".tiles li").first.locator("b")
        expect(first).to_have_text("1")
        for number in range(4):
            thread.post(f"more {number}", author="Ann")
        expect(first).to_have_text("5")
        expect(page.get_by_role("region", name="Authors over time").locator(".lanes b")).to_have_text("5")
        rest.post("/api/agents/register", json={"display_name": "Kite"})
        expect(page.locator(".tiles li", has_text="online").locator("b")).to_have_text("1")
