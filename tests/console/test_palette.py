"""The command palette, and what can be done by keys."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
from playwright.sync_api import Page, ViewportSize, expect
from tests.console.conftest import Opening, both_sizes, both_themes
from tests.helpers import Server, Thread, eventually, start_server, word


def ask(page: Page, text: str) -> None:
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Go to a page or run an action")
    expect(box).to_be_focused()
    box.fill(text)


@both_themes
@both_sizes
def test_the_palette_goes_to_threads_agents_notes_prompts_projects_and_pages(
    window: Opening, rest: httpx.Client, viewport: ViewportSize, scheme: str
):
    mark = word("pal")
    thread = Thread(rest, f"thread {mark}")
    rest.post("/api/agents/register", json={"display_name": f"Agent {mark}", "slug": mark})
    note = rest.post("/api/notes", json={"title": f"note {mark}", "content": "x"}).json()["id"]
    prompt = rest.post("/api/prompts", json={"name": f"prompt {mark}", "user_prompt": "x"}).json()["id"]
    turn = {"role": "user", "content": "hello", "project": f"/home/ann/{mark}"}
    assert rest.post(f"/api/v1/agents/{mark}/sessions/s/messages", json=turn).status_code < 300
    page = window("#/import", viewport=viewport, color_scheme=scheme)
    expect(page.locator(".drop")).to_be_visible()
    for text, hash in (
        (f"thread {mark}", f"#/threads/{thread.id}"),
        (f"note {mark}", f"#/open/notes/{note}"),
        (f"prompt {mark}", f"#/open/prompts/{prompt}"),
        (f"agent {mark}", f"#/agents/{mark}"),
        ("overv", "#/overview"),
        ("imported", "#/library/archive"),
        ("setti", "#/settings"),
    ):
        ask(page, text)
        expect(page.locator(".palette li").first).to_contain_text(text, ignore_case=True)
        expect(page.locator(".palette li").first).not_to_contain_text("Search everything")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(f"{re.escape(hash)}$"))
        expect(page.locator("dialog")).to_have_count(0)
    ask(page, mark)
    expect(page.locator(".palette li", has_text="Project")).to_have_count(1)
    page.locator(".palette li", has_text="Project").click()
    expect(page).to_have_url(re.compile(f"#/search\\?project=.*{mark}$"))
    ask(page, "nothing like this")
    expect(page.locator(".palette li")).to_have_text(re.compile("Search everything for “nothing like this”"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/search\\?q=nothing"))


def test_what_can_be_done_is_found_by_other_words_and_comes_before_documents(
    window: Opening, thread: Thread, rest: httpx.Client
):
    for text in ("dark", "german", "token", "export"):
        rest.post("/api/notes", json={"title": f"{text} matter", "content": "x"})
    page = window(f"#/threads/{thread.id}", color_scheme="light")
    for text, found in (("export", "Export this thread"), ("dark", "Theme: dark"), ("token", "New token")):
        ask(page, text)
        expect(page.locator(".palette li").first).to_contain_text(found)
        page.keyboard.press("Escape")
    ask(page, "dark")
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_have_attribute("data-theme", "dark")
    ask(page, "token")
    page.keyboard.press("Enter")
    expect(page.locator("dialog").get_by_label("Name")).to_be_focused()
    page.keyboard.press("Escape")
    ask(page, "german")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Verwaltung")).to_be_visible()


def test_many_threads_do_not_hide_a_note_or_an_action(window: Opening, rest: httpx.Client):
    mark = word("sett")
    for number in range(15):
        Thread(rest, f"{mark} {number}")
    rest.post("/api/notes", json={"title": f"About {mark}", "content": "x"})
    page = window("#/import")
    ask(page, mark)
    expect(page.locator(".palette li")).to_have_count(17)
    expect(page.locator(".palette li").nth(6)).to_contain_text(f"About {mark}")
    page.keyboard.press("Escape")
    ask(page, "sett")
    expect(page.locator(".palette li", has_text="Settings")).to_be_visible()


def test_the_palette_is_left_by_escape_and_by_its_own_key_and_walked_by_arrows(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    ask(page, "")
    count = page.locator(".palette li").count()
    assert count > 10
    page.keyboard.press("ArrowUp")
    expect(page.locator(".palette li").last).to_have_attribute("aria-selected", "true")
    expect(page.locator(".palette li").last).to_be_in_viewport()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".palette li").first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.keyboard.press("Control+k")
    expect(page.locator(".palette")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.locator("dialog")).to_have_count(0)


def test_actions_of_the_palette_run(window: Opening, thread: Thread, rest: httpx.Client):
    thread.post("news", author="Bob")
    page = window("#/agents", color_scheme="light")
    expect(page.get_by_role("heading", name="Connect an agent")).to_be_visible()
    ask(page, "mark all")
    page.keyboard.press("Enter")
    eventually(lambda: rest.get(f"{thread.path}/read-mark").json()["seq"] == 1)
    ask(page, "switch theme")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Theme: light")).to_be_visible()
    ask(page, "new thread")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Topic")).to_be_focused()
    page.keyboard.press("Escape")
    ask(page, "keyboard")
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_contain_text("mark the selected message as unread")
    page.keyboard.press("Escape")
    ask(page, "new note")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Title", exact=True)).to_be_visible()


def test_pages_and_unread_threads_are_reached_by_keys(window: Opening, thread: Thread, rest: httpx.Client):
    rest.put("/api/read-marks")
    page = window("#/threads")
    expect(page.locator(".threads a").first).to_be_visible()
    for key, name in (
        ("l", "library"),
        ("a", "agents"),
        ("o", "overview"),
        ("i", "import"),
        ("s", "settings"),
        ("t", "threads"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"#/{name}$"))
    page.keyboard.press("Shift+N")
    expect(page.locator(".notices")).to_contain_text("no other unread threads")
    thread.post("news", author="Bob")
    expect(page.locator(f"[data-thread='{thread.id}'] .news")).to_have_text("1")
    page.keyboard.press("Shift+N")
    expect(page.locator(".message .prose")).to_have_text("news")


def test_a_message_is_reacted_to_and_marked_unread_by_keys(window: Opening, thread: Thread, rest: httpx.Client):
    message = thread.post("shall we?", author="Ann")
    rest.put("/api/read-marks")
    page = window(f"#/threads/{thread.id}")
    expect(page.locator(".message")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    expect(page.locator(".message")).to_be_focused()
    page.keyboard.press("+")
    page.keyboard.press("Enter")
    expect(page.locator(".pill")).to_have_text("👍")
    eventually(lambda: len(rest.get(f"/api/messages/{message['id']}/reactions").json()) == 1)
    page.locator(".message").focus()
    page.keyboard.press("u")
    eventually(lambda: rest.get(f"{thread.path}/read-mark").json()["seq"] == 0)


def test_what_is_typed_into_a_new_note_or_prompt_is_no_command(window: Opening):
    page = window("#/library/notes")
    for source, field in (("note", "Title"), ("prompt", "Name")):
        ask(page, f"new {source}")
        page.keyboard.press("Enter")
        expect(page.get_by_label(field, exact=True)).to_be_focused()
        page.keyboard.type("new idea")
        expect(page.get_by_label(field, exact=True)).to_have_value("new idea")
        expect(page.locator("dialog")).to_have_count(0)
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator(".shelves")).to_be_visible()


def test_escape_does_not_leave_the_console(window: Opening, place: Server, thread: Thread):
    page = window("docs")
    for link in ("#/search?q=x", "#/open/notes/0"):
        page.goto(f"{place.url}/docs")
        page.evaluate(
            "link => document.body.prepend(Object.assign(document.createElement('a'), {href: link, textContent: 'the console'}))",
            f"/{link}",
        )
        page.get_by_text("the console", exact=True).click()
        expect(page.locator(".head h1")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page).to_have_url(re.compile("#/(threads|library/notes)$"))
    page.evaluate(f"location.hash = '#/threads/{thread.id}'")
    expect(page.locator(".head h1")).to_have_text(thread.topic)
    page.evaluate("location.hash = '#/search?q=x'")
    expect(page.locator(".head h1")).to_have_text("Search")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(thread.id))


def test_the_palette_finds_a_note_that_is_not_among_the_last_two_hundred(window: Opening, tmp_path: Path):
    with start_server(tmp_path) as server, server.client() as rest:
        old = rest.post("/api/notes", json={"title": "Granite", "created_at": "2001-01-01"}).json()["id"]
        for number in range(205):
            rest.post("/api/notes", json={"title": f"Note {number}"})
        page = window("#/threads", at=server)
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Go to a page").fill("granite")
        expect(page.locator("#commands li").first).to_have_text(re.compile(r"Granite\s+Note"))
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(f"#/open/notes/{old}"))
