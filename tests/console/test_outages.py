"""What was opened while the server was away loads when it is back."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize, expect
from tests.console.conftest import Opening, both_sizes
from tests.helpers import Thread, start_server

CODE_IS_LOADED = """() => ["library", "reader"].every((name) =>
    performance.getEntriesByType("resource").some((one) => one.name.endsWith(`/views/${name}.js`) && one.responseEnd))"""


@both_sizes
def test_a_thread_opened_during_an_outage_is_shown_when_the_server_is_back(
    window: Opening, tmp_path: Path, viewport: ViewportSize
):
    with start_server(tmp_path) as server, server.client() as api:
        first, second = Thread(api), Thread(api)
        first.post("the first")
        second.post("the second")
        page = window("#/threads", at=server, viewport=viewport)
        expect(page.locator(".threads a")).to_have_count(2)
        port = server.port
    expect(page.locator(".away")).to_be_visible()
    page.locator(f"[data-thread='{second.id}']").click()
    expect(page.locator(".talk .empty h2")).to_have_text("No connection")
    expect(page.get_by_text("No such thread")).to_have_count(0)
    with start_server(tmp_path, port=port):
        expect(page.locator(".message .prose")).to_have_text("the second")
        expect(page.locator(".head h1")).to_have_text(second.topic)
        expect(page.locator(".away")).to_have_count(0)


@pytest.mark.examples(1)
@pytest.mark.parametrize(
    "path, shown",
    [
        ("library/notes", ".cards a"),
        ("open/notes/{note}", ".prose"),
        ("overview", ".tiles li"),
        ("log", ".log table"),
        ("search?q=basalt", ".hit"),
    ],
)
def test_every_view_loads_when_the_server_is_back(window: Opening, tmp_path: Path, path: str, shown: str):
    with start_server(tmp_path) as server, server.client() as api:
        note = api.post("/api/notes", json={"title": "basalt", "content": "a dark rock"}).json()["id"]
        api.delete(f"/api/threads/{Thread(api).id}")  # an entry for the audit log
        page = window("#/threads", at=server)
        expect(page.get_by_role("heading", name="Threads", exact=True)).to_be_visible()
        page.wait_for_function(CODE_IS_LOADED)
        port = server.port
    expect(page.locator(".away")).to_be_visible()
    page.evaluate(f"location.hash = '#/{path.format(note=note)}'")
    expect(page.locator(".pane").first).to_be_visible()
    expect(page.locator(shown)).to_have_count(0)
    with start_server(tmp_path, port=port):
        expect(page.locator(shown).first).to_be_visible()


def test_a_view_whose_code_could_not_be_loaded_is_shown_when_the_server_is_back(window: Opening, tmp_path: Path):
    with start_server(tmp_path) as server, server.client() as api:
        api.post("/api/notes", json={"title": "basalt", "content": "a dark rock"})
        page = window("healthz", at=server)
        page.route("**/views/*.js", lambda route: route.abort())
        page.goto(f"{server.url}/#/threads")
        expect(page.get_by_role("heading", name="Threads", exact=True)).to_be_visible()
        port = server.port
    expect(page.locator(".away")).to_be_visible()
    page.evaluate("location.hash = '#/library/notes'")
    page.unroute("**/views/*.js")
    with start_server(tmp_path, port=port):
        expect(page.locator(".cards a")).to_have_count(1)


def test_a_page_whose_first_event_stream_fails_loads_when_the_server_is_back(window: Opening, tmp_path: Path):
    with start_server(tmp_path) as server, server.client() as api:
        thread = Thread(api)
        thread.post("still here")
        page = window("healthz", at=server, is_new=True)
        page.add_init_script("delete globalThis.SharedWorker")
        page.route("**/events*", lambda route: route.abort())
        page.goto(f"{server.url}/#/threads")
        expect(page.locator(".threads a")).to_have_count(1)
        expect(page.locator(".away")).to_be_visible()
        page.route("**/api/threads/*/messages*", lambda route: route.abort())
        page.locator(".threads a").click()
        expect(page.locator(".talk .empty h2")).to_have_text("No connection")
        page.unroute_all()
        expect(page.locator(".message .prose")).to_have_text("still here")
