"""The library with many documents: filters, order, pages, deleted documents; templates, rules, and media by address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, ViewportSize, expect
from tests.console.conftest import Opening, both_sizes, both_themes
from tests.helpers import Server, Thread, start_server, word
from tests.library.test_web_fetch import running

NOTES = 150


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with 150 notes. Every tenth has the tag "rare"."""
    with start_server(tmp_path_factory.mktemp("shelf")) as server, server.client() as rest:
        for number in range(NOTES):
            keywords = ["common", "rare"] if number % 10 == 0 else ["common"]
            rest.post("/api/notes", json={"title": f"Note {number:03}", "content": "text", "keywords": keywords})
        yield server


def shown(page: Page) -> list[str]:
    return page.locator(".cards .title b").all_inner_texts()


@both_themes
@both_sizes
def test_notes_are_filtered_sorted_and_paged(window: Opening, shelf: Server, viewport: ViewportSize, scheme: str):
    page = window("#/library/notes", at=shelf, viewport=viewport, color_scheme=scheme)
    expect(page.locator(".sieve output")).to_have_text("150 documents")
    expect(page.locator(".cards li")).to_have_count(60)
    assert shown(page)[0] == "Note 149"
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".pager span").nth(0)).to_contain_text("61–120 of 150")
    assert shown(page)[0] == "Note 089"
    page.get_by_label("Order").select_option("title")
    expect(page.locator(".cards .title b").first).to_have_text("Note 000")
    page.get_by_label("Tag", exact=True).select_option("rare")
    expect(page.locator(".sieve output")).to_have_text("15 documents")
    page.get_by_label("Filter by title or tag").press_sequentially("05")
    expect(page.locator(".cards .title b")).to_have_text(["Note 050"])
    assert page.url.endswith("#/library/notes?text=05&tag=rare&sort=title")
    page.reload()
    expect(page.locator(".cards .title b")).to_have_text(["Note 050"])
    expect(page.get_by_label("Filter by title or tag")).to_have_value("05")
    page.get_by_label("Filter by title or tag").fill("nothing like it")
    expect(page.get_by_role("heading", name="No document matches")).to_be_visible()
    page.get_by_role("link", name="Clear filters").click()
    expect(page.locator(".sieve output")).to_have_text("150 documents")
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


def test_the_back_button_returns_to_the_page_and_the_filter(window: Opening, shelf: Server):
    page = window("#/library/notes?tag=common&page=2", at=shelf)
    page.locator(".cards a", has_text="Note 080").click()
    expect(page.locator(".head h1")).to_have_text("Note 080")
    page.get_by_role("link", name="rare").click()
    expect(page.locator(".sieve output")).to_have_text("15 documents")
    page.go_back()
    page.get_by_label("Back").click()
    expect(page.locator(".pager")).to_contain_text("61–120 of 150")


def test_keys_typed_while_the_list_is_loading_are_kept(window: Opening, shelf: Server):
    page = window("#/library/notes", at=shelf)
    box = page.get_by_label("Filter by title or tag")
    for letter in "note 12":
        box.press_sequentially(letter, delay=60)
    expect(page.locator(".sieve output")).to_have_text("12 documents")
    expect(box).to_have_value("note 12")
    box.press("Escape")
    expect(page.locator(".sieve output")).to_have_text("150 documents")
    expect(box).to_have_value("")


@both_sizes
def test_a_deleted_note_is_restored_from_the_notice_or_from_the_list(
    window: Opening, rest: httpx.Client, viewport: ViewportSize
):
    title = word("precious ")
    id = rest.post("/api/notes", json={"title": title, "content": "gold"}).json()["id"]
    page = window(f"#/open/notes/{id}", viewport=viewport)
    page.get_by_label("More").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".head h1")).to_have_text(title)
    expect(page.locator(".prose")).to_have_text("gold")
    page.get_by_label("More").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.locator(".sieve")).to_be_visible()
    page.get_by_role("button", name="Deleted").click()
    gone = page.locator(".cards li", has_text=title)
    expect(gone).to_contain_text("deleted")
    gone.get_by_role("button", name="Restore").click()
    expect(gone).to_have_count(0)
    assert rest.get(f"/api/notes/{id}").json()["content"] == "gold"


def test_a_session_is_deleted_for_good_after_a_question(window: Opening, rest: httpx.Client):
    agent, session = word("agent"), word("session")
    path = f"/api/v1/agents/{agent}/sessions/{session}/messages"
    rest.post(path, json={"role": "user", "content": f"hello {word()}"})
    agent_id = rest.get(f"/api/agents/{agent}").json()["agent_id"]
    page = window(f"#/open/sessions/{agent_id}%2F{session}")
    page.get_by_label("More").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.locator("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".notices")).to_contain_text("Deleted.")
    assert rest.get(path).status_code == 404


@both_sizes
def test_a_template_is_copied_used_and_deleted(window: Opening, rest: httpx.Client, viewport: ViewportSize):
    page, name, topic = window("#/library/templates", viewport=viewport), word("Review "), word("topic ")
    page.get_by_label("Code review").get_by_role("button", name="Copy").click()
    page.get_by_label("Name").fill(name)
    page.locator("dialog").get_by_label("Rules").fill("Be kind.")
    page.get_by_role("button", name="Create").click()
    card = page.get_by_label(name)
    card.get_by_text("Rules").click()
    expect(card).to_contain_text("Be kind.")
    card.get_by_role("button", name="New thread").click()
    expect(page.get_by_role("combobox", name="Template")).to_have_value(name.lower().replace(" ", "-"))
    page.get_by_label("Topic").fill(topic)
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".talk h1")).to_have_text(topic)
    [thread] = rest.get("/api/threads", params={"topic": topic}).json()["threads"]
    assert rest.get(f"/api/threads/{thread['id']}").json()["system_prompt"] == "Be kind."
    page.evaluate("location.hash = '#/library/templates'")
    card.get_by_role("button", name="Delete").click()
    page.locator("dialog").get_by_role("button", name="Delete").click()
    expect(card).to_have_count(0)


@both_sizes
def test_a_template_is_edited_and_its_text_is_not_lost(window: Opening, rest: httpx.Client, viewport: ViewportSize):
    name = word("Review ")
    path = "/api/templates/" + name.lower().replace(" ", "-")
    rest.post("/api/templates", json={"id": path.rpartition("/")[2], "name": name, "system_prompt": "Be kind."})
    page = window("#/library/templates", viewport=viewport)
    expect(page.get_by_label("Code review").get_by_role("button", name="Edit")).to_have_count(0)
    page.get_by_label(name).get_by_role("button", name="Edit").click()
    rules = page.locator("dialog").get_by_label("Rules")
    expect(rules).to_have_value("Be kind.")
    rules.fill("Be brief.")
    page.keyboard.press("Escape")
    expect(page.locator(".notices")).to_contain_text("Not saved yet")
    page.mouse.click(5, 5)
    expect(rules).to_have_value("Be brief.")
    page.get_by_label("Name").fill(f"{name} 2")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.get_by_label(f"{name} 2")).to_be_visible()
    saved = rest.get(path).json()
    assert (saved["name"], saved["system_prompt"]) == (f"{name} 2", "Be brief.")
    page.get_by_label(name).get_by_role("button", name="Edit").click()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_the_rules_of_a_thread_are_changed_in_its_menu(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    page.get_by_label("Thread menu").click()
    page.get_by_role("menuitem", name="Rules").click()
    page.locator("dialog textarea").fill("Answer in German.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert thread.api.get(thread.path).json()["system_prompt"] == "Answer in German."
    page.get_by_label("Thread menu").click()
    page.get_by_role("menuitem", name="Rules").click()
    expect(page.locator("dialog textarea")).to_have_value("Answer in German.")
    page.locator("dialog textarea").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert not thread.api.get(thread.path).json()["system_prompt"]


def test_a_new_thread_can_have_rules(window: Opening, rest: httpx.Client):
    page, topic = window("#/threads"), word("ruled ")
    page.get_by_label("New thread").click()
    page.get_by_label("Topic").fill(topic)
    page.get_by_text("Template and rules").click()
    expect(page.get_by_role("combobox", name="Template").locator("option")).not_to_have_count(1)
    page.get_by_label("Rules for agents").fill("Be brief.")
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".talk h1")).to_have_text(topic)
    [thread] = rest.get("/api/threads", params={"topic": topic}).json()["threads"]
    assert rest.get(f"/api/threads/{thread['id']}").json()["system_prompt"] == "Be brief."


def fetching(home: Path, port: int) -> AbstractContextManager[Server]:
    """A server that may fetch from this port of this machine."""
    return start_server(home, PALAVER_FETCH="on", PALAVER_FETCH_HOSTS=f"127.0.0.1:{port}")


@both_sizes
def test_a_web_page_is_added_by_its_address(window: Opening, tmp_path: Path, viewport: ViewportSize):
    with running() as site, fetching(tmp_path, site.port) as own:
        address = site.page("/page", "text/html", b"<title>Basalt</title><main><p>A dark rock.</p></main>")
        page = window("#/library/media", at=own, viewport=viewport)
        page.get_by_role("button", name="Add from address").click()
        page.get_by_label("Address of a web page or document").fill(address)
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.locator(".head h1")).to_have_text("Basalt")
        expect(page.locator(".page-body")).to_contain_text("A dark rock.")


def test_an_address_says_why_it_cannot_be_added(window: Opening):
    page = window("#/library/media")
    page.get_by_role("button", name="Add from address").click()
    page.get_by_label("Address of a web page or document").fill("http://127.0.0.1:9/x")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".notices")).to_contain_text("PALAVER_FETCH")
    expect(page.get_by_label("Address of a web page or document")).to_be_visible()
