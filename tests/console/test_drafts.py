"""What one has written is not lost: drafts of notes, prompts, edits and topics."""

from __future__ import annotations

import httpx
from playwright.sync_api import ViewportSize, expect
from tests.console.conftest import Opening, both_sizes
from tests.helpers import Thread, word


@both_sizes
def test_a_changed_note_is_kept_after_a_click_elsewhere_and_after_a_reload(
    window: Opening, rest: httpx.Client, viewport: ViewportSize
):
    id = rest.post("/api/notes", json={"title": word("note "), "content": "old"}).json()["id"]
    page = window(f"#/open/notes/{id}", viewport=viewport)
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Text (Markdown)").fill("half a thou")
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_role("heading", name="Connect an agent")).to_be_visible()
    page.get_by_role("link", name="Library").click()
    card = page.locator(f".cards a[href='#/open/notes/{id}']")
    expect(card.locator(".tag")).to_have_text("Not saved")
    card.click()
    expect(page.get_by_label("Text (Markdown)")).to_have_value("half a thou")
    expect(page.locator(".draft-note")).to_contain_text("not saved yet")
    page.reload()
    expect(page.get_by_label("Text (Markdown)")).to_have_value("half a thou")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".prose")).to_have_text("half a thou")
    assert rest.get(f"/api/notes/{id}").json()["content"] == "half a thou"
    page.reload()
    expect(page.locator(".prose")).to_have_text("half a thou")


def test_a_draft_is_discarded_only_when_asked(window: Opening, rest: httpx.Client):
    id = rest.post("/api/prompts", json={"name": word("prompt "), "user_prompt": "old"}).json()["id"]
    page = window(f"#/open/prompts/{id}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Description").fill("new")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Description")).to_have_value("new")
    page.reload()
    expect(page.get_by_label("Description")).to_have_value("new")
    page.get_by_role("button", name="Discard changes").click()
    expect(page.locator(".fields")).to_contain_text("old")
    page.reload()
    expect(page.locator(".fields")).to_contain_text("old")
    expect(page.get_by_label("Description")).to_have_count(0)


def test_a_draft_of_an_older_version_does_not_overwrite_a_newer_one(window: Opening, rest: httpx.Client):
    id = rest.post("/api/notes", json={"title": "Shared", "content": "first"}).json()["id"]
    page = window(f"#/open/notes/{id}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Text (Markdown)").fill("mine")
    page.evaluate("location.hash = '#/agents'")
    rest.put(f"/api/notes/{id}", json={"content": "theirs"})
    page.evaluate(f"location.hash = '#/open/notes/{id}'")
    expect(page.get_by_label("Text (Markdown)")).to_have_value("mine")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".notices")).to_contain_text("It was changed in the meantime")
    assert rest.get(f"/api/notes/{id}").json()["content"] == "theirs"
    expect(page.get_by_label("Text (Markdown)")).to_have_value("mine")


def test_a_new_note_exists_when_it_is_saved_and_a_begun_one_is_kept(window: Opening, rest: httpx.Client):
    def notes() -> int:
        return len(rest.get("/api/notes?limit=100").json())

    before, title = notes(), word("begun ")
    page = window("#/library/notes")
    page.get_by_role("button", name="New note").first.click()
    expect(page.get_by_label("Title", exact=True)).to_be_focused()
    page.keyboard.type(title)
    page.goto("about:blank")
    page.go_back()
    expect(page.get_by_label("Title", exact=True)).to_have_value(title)
    page.evaluate("location.hash = '#/library/notes'")
    expect(page.locator(".head .tag.warn")).to_have_text("Not saved")
    assert notes() == before
    page.get_by_role("button", name="New note").first.click()
    expect(page.get_by_label("Title", exact=True)).to_have_value(title)
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".head h1")).to_have_text(title)
    assert notes() == before + 1
    page.get_by_label("Back").click()
    expect(page.locator(".cards b", has_text=title)).to_be_visible()
    page.get_by_role("button", name="New note").first.click()
    expect(page.get_by_label("Title", exact=True)).to_have_value("")


def test_a_half_edited_message_is_kept(window: Opening, thread: Thread, rest: httpx.Client):
    message, other = thread.post("old", author="human"), Thread(rest)
    page = window(f"#/threads/{thread.id}")
    page.locator(f"#m-{message['id']}").hover()
    page.get_by_label("More").click()
    page.get_by_role("menuitem", name="Edit").click()
    page.get_by_label("Edit the message").fill("half a thou")
    page.evaluate(f"location.hash = '#/threads/{other.id}'")
    expect(page.get_by_text("No messages yet.")).to_be_visible()
    page.reload()
    page.evaluate(f"location.hash = '#/threads/{thread.id}'")
    expect(page.get_by_label("Edit the message")).to_have_value("half a thou")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".message .prose")).to_have_text("half a thou")
    page.reload()
    expect(page.locator(".message .prose")).to_have_text("half a thou")


def test_the_topic_of_a_new_thread_is_kept_until_it_is_created(window: Opening):
    page, topic = window("#/threads"), word("topic ")
    page.get_by_label("New thread").click()
    page.get_by_label("Topic").fill(topic)
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.get_by_label("New thread").click()
    expect(page.get_by_label("Topic")).to_have_value(topic)
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".head h1")).to_have_text(topic)
    page.get_by_label("New thread").click()
    expect(page.get_by_label("Topic")).to_have_value("")
