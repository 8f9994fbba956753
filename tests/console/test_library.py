"""The library, the reader, imports, agents and the overview."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import apsw
import httpx
from playwright.sync_api import FilePayload, Page, expect
from tests.console.conftest import Opening
from tests.helpers import Server, Thread, eventually, start_server, word


def made(rest: httpx.Client, path: str, **what: object) -> str:
    answer = rest.post(path, json=what)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_a_note_is_written_read_changed_and_deleted(window: Opening, rest: httpx.Client):
    page, title = window("#/library"), word("note ")
    page.get_by_role("button", name="New note").first.click()
    page.get_by_label("Title", exact=True).fill(title)
    page.get_by_label("Text (Markdown)").fill("# Head\n\nsome *words* <script>alert(1)</script>")
    page.get_by_label("Keywords (comma-separated)").fill("one, two")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".head h1")).to_have_text(title)
    expect(page.locator(".prose h2")).to_have_text("Head")
    expect(page.locator(".tag")).to_have_text(["one", "two"])
    page.keyboard.press("e")
    page.get_by_label("Title", exact=True).fill(f"{title} again")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".head h1")).to_have_text(f"{title} again")
    page.get_by_label("More").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.locator(".shelves")).to_be_visible()
    expect(page.locator(".cards a", has_text=title)).to_have_count(0)


def test_cancelling_a_new_note_leaves_none(window: Opening, rest: httpx.Client):
    before = len(rest.get("/api/notes?limit=100").json())
    page = window("#/library/notes")
    page.get_by_role("button", name="New note").first.click()
    page.get_by_label("Title", exact=True).fill("never mind")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".shelves")).to_be_visible()
    assert len(rest.get("/api/notes?limit=100").json()) == before


def test_a_conflicting_edit_is_refused_and_keeps_the_text(window: Opening, rest: httpx.Client):
    id = made(rest, "/api/notes", title="Shared", content="first")
    page = window(f"#/open/notes/{id}")
    page.get_by_role("button", name="Edit").click()
    rest.put(f"/api/notes/{id}", json={"content": "second"})
    page.get_by_label("Text (Markdown)").fill("mine")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".notices")).to_contain_text("It was changed in the meantime")
    expect(page.get_by_label("Text (Markdown)")).to_have_value("mine")


def test_a_prompt_is_written(window: Opening):
    page, name = window("#/library/prompts"), word("prompt ")
    page.get_by_role("button", name="New prompt").first.click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("User prompt ({{name}} becomes an argument)").fill("Review {{diff}}")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".fields")).to_contain_text("Review {{diff}}")
    page.get_by_label("Back").click()
    expect(page.locator(".cards a", has_text=name)).to_be_visible()


def opens(page: Page, source: str, id: str, title: str, text: str) -> None:
    page.evaluate(f"location.hash = '#/open/{source}/{quote(id, safe='')}'")
    expect(page.locator(".head h1")).to_contain_text(title)
    expect(page.locator(".scroll")).to_contain_text(text)


def test_every_source_opens_by_its_link_and_a_result_opens_at_the_match(window: Opening, rest: httpx.Client):
    unique, page = word("quartz"), window("#/library")
    note = made(
        rest, "/api/notes", title="N", content="filler. " * 800 + f"\n\nThe {unique} note.\n\n" + "filler. " * 800
    )
    segments = [{"start": 61.5, "end": 65, "text": f"the {unique} is spoken"}]
    media = made(rest, "/api/media", title="M", media_type="video", content="", transcript={"segments": segments})
    chat = made(rest, "/api/chats", title="C")
    for number in range(60):
        rest.post(f"/api/chats/{chat}/messages", json={"sender": "me", "content": f"filler {number}"})
    said = rest.post(f"/api/chats/{chat}/messages", json={"sender": "Ada", "content": f"{unique} in a chat"}).json()
    character = made(rest, "/api/characters", name="Ada", description=f"knows {unique}")
    prompt = made(rest, "/api/prompts", name=word("P"), user_prompt=f"about {unique}")
    slug = word("agent")
    for number in range(60):
        rest.post(
            f"/api/v1/agents/{slug}/sessions/a%2Fb/messages", json={"role": "user", "content": f"filler {number}"}
        )
    rest.post(f"/api/v1/agents/{slug}/sessions/a%2Fb/messages", json={"role": "assistant", "content": f"{unique} turn"})
    thread = Thread(rest)
    message = thread.post(f"{unique} message")

    opens(page, "notes", note, "N", unique)
    opens(page, "media", media, "M", "01:01")
    opens(page, "chats", chat, "C", "filler 0")
    opens(page, "chats", said["id"], "C", unique)
    expect(page.locator(".turn.found")).to_be_in_viewport()
    opens(page, "characters", character, "Ada", unique)
    opens(page, "prompts", prompt, "P", unique)
    opens(page, "bus", thread.id, thread.topic, unique)
    opens(page, "bus", message["id"], thread.topic, unique)
    assert page.url.endswith(f"#/threads/{thread.id}?message={message['id']}")

    found = rest.post("/api/knowledge/search", json={"query": unique, "limit": 50, "dedupe": False}).json()["results"]
    assert {hit["source"] for hit in found} == {"notes", "media", "chats", "characters", "prompts", "sessions", "bus"}
    for hit in found:
        page.goto(hit["link"])
        expect(page.locator(".scroll")).to_contain_text(unique)
        loc = quote(json.dumps(hit["loc"]), safe="")
        page.evaluate(f"location.hash = '#/open/{hit['source']}/{quote(str(hit['id']), safe='')}?loc={loc}&q={unique}'")
        expect(page.get_by_text(unique).last).to_be_in_viewport()


def test_notes_and_conversations_are_exported_as_markdown(window: Opening, rest: httpx.Client):
    note = made(rest, "/api/notes", title="Taken", content="# All\n\nof *it*")
    chat = made(rest, "/api/chats", title="A long talk")
    for number in range(3):
        rest.post(f"/api/chats/{chat}/messages", json={"sender": "Ann", "content": f"said {number}"})
    page = window()
    for path, name, whole in (
        (f"notes/{note}", "Taken.md", ["# All\n\nof *it*"]),
        (f"chats/{chat}", "A long talk.md", ["# A long talk\n", "## Ann, ", "said 0", "said 1", "said 2"]),
    ):
        page.goto(page.url.partition("#")[0] + f"#/open/{path}")
        page.get_by_label("More").click()
        with page.expect_download() as coming:
            page.get_by_role("menuitem", name="Export Markdown").click()
        assert coming.value.suggested_filename == name
        text = coming.value.path().read_text("utf-8")
        assert [text.find(part) for part in whole] == sorted(text.find(part) for part in whole)
        assert all(part in text for part in whole)


def test_a_missing_document_says_so(window: Opening):
    page = window("#/open/notes/nothing")
    expect(page.locator(".empty.bad h2")).to_have_text("Not found")
    page.evaluate("location.hash = '#/open/bus/nothing'")
    expect(page.locator(".empty.bad h2")).to_have_text("Not found")
    page.evaluate("location.hash = '#/open/nonsense/x'")
    expect(page.locator(".empty.bad h2")).to_have_text("Not found")
    page.evaluate("location.hash = '#/threads/nothing'")
    expect(page.locator(".empty.bad h2")).to_have_text("Not found")


def test_a_history_is_imported_and_read(window: Opening):
    unique = word("basalt")
    export = [_chatgpt(unique)]
    page = window("#/import")
    page.locator(".drop input").first.set_input_files(
        [
            FilePayload(name="conversations.json", mimeType="application/json", buffer=json.dumps(export).encode()),
            FilePayload(name="<img src=x onerror=alert(1)>.txt", mimeType="text/plain", buffer=b"nothing of interest"),
        ]
    )
    expect(page.locator(".job h2")).to_have_text("Done")
    expect(page.locator(".job .numbers li").first).to_have_text("2 new")
    expect(page.locator(".job .formats")).to_contain_text("chatgpt")
    page.get_by_role("link", name="1 in Media").click()
    expect(page.locator(".cards a").first).to_be_visible()
    assert page.locator(".cards img").count() == 0
    page.go_back()
    page.get_by_role("link", name="1 in Imported chats").click()
    page.locator(".cards a", has_text=unique).click()
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.locator(".turn").first).to_contain_text("What is basalt?")


def _chatgpt(title: str) -> dict[str, object]:
    def node(id: str, parent: str | None, role: str, text: str, *children: str) -> dict[str, object]:
        said = {
            "id": id,
            "author": {"role": role},
            "create_time": 1700000000.0,
            "content": {"content_type": "text", "parts": [text]},
        }
        return {"id": id, "parent": parent, "children": list(children), "message": said}

    mapping = {
        "root": {"id": "root", "parent": None, "children": ["a"], "message": None},
        "a": node("a", "root", "user", "What is basalt?", "b"),
        "b": node("b", "a", "assistant", "A dark rock."),
    }
    return {
        "id": title,
        "conversation_id": title,
        "title": title,
        "create_time": 1700000000.0,
        "update_time": 1700000001.0,
        "mapping": mapping,
        "current_node": "b",
    }


DROP = """async ([text, name]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], name));
    const zone = document.querySelector(".drop");
    zone.dispatchEvent(new DragEvent("dragover", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    zone.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


def test_dropping_the_same_file_twice_changes_nothing(window: Opening):
    export = json.dumps([_chatgpt(word("granite"))])
    page = window("#/import")
    for outcome in (["1 new", "0 changed", "0 unchanged"], ["0 new", "0 changed", "1 unchanged"]):
        expect(page.locator(".drop")).to_be_visible()
        page.evaluate(DROP, [export, "conversations.json"])
        expect(page.locator(".job .numbers li").nth(2)).to_have_text(outcome[2])
        expect(page.locator(".job h2")).to_have_text("Done")
        expect(page.locator(".job .numbers li")).to_have_text([*outcome, "2 messages"])


def test_an_unknown_format_is_reported(window: Opening):
    page = window("#/import")
    page.locator(".drop input").first.set_input_files(
        [FilePayload(name="holiday.bin", mimeType="application/octet-stream", buffer=b"\x00\x01\x02")]
    )
    expect(page.locator(".job h2")).to_have_text("Nothing was imported")
    expect(page.locator(".job")).to_contain_text("No supported format was recognised")


def test_agents_are_shown_with_what_they_do_and_how_to_connect_another(
    window: Opening, rest: httpx.Client, place: Server
):
    name = word("Kite")
    rest.post(
        "/api/agents/register",
        json={"display_name": name, "ide": "Codex", "model": "m-1", "capabilities": ["<b>x</b>"]},
    )
    page = window("#/agents")
    card = page.locator(".people li", has_text=name)
    expect(card).to_contain_text("Codex · m-1")
    expect(card.locator(".tag")).to_have_text("<b>x</b>")
    expect(card.locator(".dot.on")).to_have_count(1)
    expect(page.locator(".copyable code")).to_have_text(
        f'claude mcp add --scope user --transport http palaver "{place.url}/mcp?tools=core"'
    )
    page.get_by_role("button", name="Codex", exact=True).click()
    expect(page.locator(".copyable code")).to_contain_text("codex mcp add")
    page.get_by_role("link", name="Administration").click()
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("reviewer")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("dialog code")).to_contain_text("plv_")
    page.get_by_role("button", name="Done").click()
    row = page.locator(".keys-of tbody tr", has_text="reviewer")
    row.get_by_role("button", name="Revoke").click()
    page.locator("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)


def test_the_overview_shows_damage_that_the_server_found(window: Opening, tmp_path: Path):
    with start_server(tmp_path, PALAVER_CHECK="1s") as own, own.client() as rest:
        thread = Thread(rest)
        for text in ("one", "two", "three"):
            thread.post(text, author="Ann")
        eventually(lambda: rest.get("/api/status").json()["check"]["last_round_at"], 60)
        page = window("#/overview", at=own)
        expect(page.locator(".tiles li.good", has_text="Data")).to_contain_text("Intact")
        expect(page.locator(".damage")).to_have_count(0)
        raw = apsw.Connection(str(tmp_path / "workspaces" / "default.db"))
        raw.set_busy_timeout(10_000)
        raw.execute("DELETE FROM passages WHERE position = 2")
        raw.close()
        eventually(lambda: rest.get("/api/status").json()["check"]["findings"], 60)
        page.reload()
        expect(page.locator(".tiles li.bad")).to_contain_text("Damaged")
        expect(page.locator(".damage li")).to_contain_text("1 thread has fewer or more messages than were posted.")
        expect(page.locator(".damage li")).to_contain_text("palaver doctor --repair")


def test_the_overview_counts_messages(window: Opening, rest: httpx.Client, thread: Thread):
    thread.post("one more", author=word("Nell"))
    page = window("#/overview")
    counted = rest.get("/api/overview?days=30").json()
    expect(page.locator(".tiles li").nth(1).locator("b")).to_have_text(f"{counted['status']['threads']:,}")
    expect(page.locator(".days rect.s0")).not_to_have_count(0)
    expect(page.locator(".tiles")).to_contain_text("Complete")
    page.get_by_role("button", name="7 days").click()
    expect(page.locator(".days g")).to_have_count(7)
