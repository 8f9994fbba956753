"""The page of one agent, and its removal by an admin."""

from __future__ import annotations

from pathlib import Path

import httpx
from playwright.sync_api import Route, ViewportSize, expect
from tests.console.conftest import WIDE, Opening, both_sizes, both_themes
from tests.helpers import Thread, start_server, word


def register(rest: httpx.Client, name: str) -> str:
    given = {"display_name": name, "ide": "Codex", "model": "m-1", "description": "Paints walls."}
    return str(rest.post("/api/agents/register", json=given).json()["slug"])


@both_themes
@both_sizes
def test_a_page_shows_an_agent_with_its_threads_and_sessions(
    window: Opening, rest: httpx.Client, thread: Thread, viewport: ViewportSize, scheme: str
):
    name = word("Painter")
    slug = register(rest, name)
    thread.post("done", author=name)
    rest.post(f"/api/v1/agents/{slug}/sessions/{word()}/messages", json={"role": "user", "content": "Paint the hall."})
    page = window("#/agents", viewport=viewport, color_scheme=scheme)
    page.get_by_role("link", name=name).click()
    expect(page.locator(".head h1")).to_have_text(name)
    expect(page.locator(".facts")).to_contain_text("Codex · m-1")
    expect(page.locator(".page-body")).to_contain_text("Paints walls.")
    expect(page.get_by_role("link", name=thread.topic)).to_be_visible()
    expect(page.locator(".plain").get_by_role("link", name="Paint the hall.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    page.get_by_role("link", name="All its sessions").click()
    expect(page.locator(".cards a")).to_have_count(1)


def test_an_admin_removes_an_agent_and_its_sessions(window: Opening, rest: httpx.Client):
    name = word("Gone")
    slug = register(rest, name)
    path = f"/api/v1/agents/{slug}/sessions/s/messages"
    rest.post(path, json={"role": "user", "content": "hello"})
    page = window(f"#/agents/{slug}")
    page.get_by_label("More").click()
    page.get_by_role("menuitem", name="Remove agent").click()
    expect(page.locator("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.get_by_label("Delete its recorded sessions too").check()
    page.locator("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".notices")).to_contain_text(f"{name} was removed.")
    expect(page.locator(".people li", has_text=name)).to_have_count(0)
    assert rest.get(f"/api/agents/{slug}").status_code == 404
    assert rest.get(path).status_code == 404


def test_an_agent_is_renamed_and_its_old_link_still_opens(window: Opening, rest: httpx.Client):
    slug, new = register(rest, word("Old")), word("New ")
    page = window(f"#/agents/{slug}")
    page.get_by_label("More").click()
    page.get_by_role("menuitem", name="Rename agent").click()
    page.locator("dialog").get_by_label("Name").fill(new)
    page.locator("dialog").get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text(new)
    expect(page.locator("header .name p")).to_have_text(f"@{new.lower().replace(' ', '-')}")
    assert rest.get(f"/api/agents/{slug}").json()["display_name"] == new


def test_an_agent_of_long_ago_is_counted_named_and_shown_on_request(window: Opening, tmp_path: Path):
    with start_server(tmp_path, PALAVER_AGENT_TTL="0.001") as server, server.client() as rest:
        rook = rest.post("/api/agents/register", json={"display_name": "Rook", "slug": "rook"}).json()
        thread = Thread(rest)
        posted = {"content": "the quick fox", "author": rook["agent_id"], "reply_token": rook["token"]}
        assert rest.post(f"{thread.path}/messages", json=posted).status_code == 201
        rest.post("/api/agents/unregister", json={"agent_id": rook["agent_id"], "token": rook["token"]})
        page = window("#/search?q=quick", at=server, viewport=WIDE)
        expect(page.locator(".hit .meta")).to_contain_text("Rook")
        expect(page.locator(".preview h2")).to_contain_text("Rook")

        def long_ago(route: Route) -> None:
            agents = [{**agent, "last_heartbeat": "2020-01-01T00:00:00Z"} for agent in route.fetch().json()]
            route.fulfill(json=agents)

        page.route("**/api/agents?*", long_ago)
        page.evaluate("location.hash = '#/agents'")
        expect(page.locator(".head p")).to_have_text("0 of 1 online")
        page.get_by_role("button", name="Show all 1 agents").click()
        expect(page.locator(".people .name")).to_have_text("Rook")
        page.evaluate("location.hash = '#/overview'")
        expect(page.locator(".tiles li", has_text="Agents")).to_contain_text("of 1 online")


def test_an_unknown_agent_is_not_found(window: Opening):
    page = window("#/agents/nobody-at-all")
    expect(page.locator(".empty.bad h2")).to_have_text("Not found")
