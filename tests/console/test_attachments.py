"""Files, pictures and emoji in messages."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import httpx
from playwright.sync_api import FilePayload, Page, ViewportSize, expect
from tests.console.conftest import PHONE, Opening, both_sizes, both_themes
from tests.helpers import Thread, eventually


def png(width: int = 400, height: int = 200, red: int = 120) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes((red, 90, 60)) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def file(name: str, data: bytes) -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": data}


def write(page: Page, text: str) -> None:
    page.locator("#say").press_sequentially(text)


def contents(rest: httpx.Client, thread: Thread) -> list[str]:
    return [message["content"] for message in rest.get(f"/api/threads/{thread.id}/messages").json()]


# Files


@both_themes
@both_sizes
def test_a_file_of_any_type_is_attached_and_shown_as_a_card(
    window: Opening, rest: httpx.Client, thread: Thread, viewport: ViewportSize, scheme: str
):
    page = window(f"#/threads/{thread.id}", viewport=viewport, color_scheme=scheme)
    page.get_by_label("Attach files").set_input_files([file("a report.pdf", b"%PDF" * 1_000), file("chart.png", png())])
    expect(page.locator(".compose .file")).to_contain_text("a report.pdf")
    expect(page.locator(".compose .images img")).to_have_count(1)
    page.reload()
    expect(page.locator(".compose .file")).to_contain_text("a report.pdf")  # a draft keeps its files
    page.get_by_role("button", name="Send").click()
    card = page.locator(".message .file")
    expect(card).to_contain_text("a report.pdf")
    expect(card).to_contain_text("PDF · 4 kB")
    expect(page.locator(".compose .file")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert contents(rest, thread) == ["chart.png, a report.pdf"]


def test_a_file_is_downloaded_under_its_name_and_never_shown(
    window: Opening, rest: httpx.Client, thread: Thread, tmp_path: Path
):
    data = b"<script>document.title = 'ran'</script>"
    uploaded = rest.post("/api/upload/file", files={"file": ("page of notes.html", data)}).json()
    thread.post("look", files=[uploaded])
    page = window(f"#/threads/{thread.id}", accept_downloads=True)
    with page.expect_download() as download:
        page.get_by_role("link", name="page of notes.html").click()
    assert download.value.suggested_filename == "page of notes.html"
    download.value.save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == data


def test_a_file_can_be_removed_again_and_a_file_that_is_too_large_says_so(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    page.get_by_label("Attach files").set_input_files([file("a.csv", b"a,b")])
    page.get_by_role("button", name="Remove a.csv").click()
    expect(page.locator(".compose .file")).to_have_count(0)
    large = file("large.bin", b"x" * (5 * 1024 * 1024 + 1))
    page.get_by_label("Attach files").set_input_files([large])
    expect(page.get_by_text("Not attached: large.bin. A file can have at most")).to_be_visible()


def test_a_foreign_address_in_the_files_of_a_message_is_not_shown(window: Opening, thread: Thread):
    thread.post(
        "odd", files=[{"url": "https://example.org/x", "name": "x"}, {"url": "javascript:alert(1)", "name": "y"}, {}]
    )
    page = window(f"#/threads/{thread.id}")
    expect(page.get_by_text("odd")).not_to_have_count(0)
    expect(page.locator(".message .file")).to_have_count(0)


# Pictures


@both_themes
@both_sizes
def test_pictures_open_large_and_can_be_paged(
    window: Opening, rest: httpx.Client, thread: Thread, viewport: ViewportSize, scheme: str
):
    images = [
        rest.post("/api/upload/image", files={"file": (f"chart {n}.png", png(red=60 * n))}).json() for n in (1, 2)
    ]
    thread.post("two charts", images=images)
    page = window(f"#/threads/{thread.id}", viewport=viewport, color_scheme=scheme)
    page.get_by_role("link", name="chart 1.png").click()
    box = page.get_by_role("dialog", name="Picture")
    expect(box).to_contain_text("chart 1.png 1 of 2")
    expect(box.get_by_role("img")).to_have_js_property("complete", True)
    page.keyboard.press("ArrowRight")
    expect(box).to_contain_text("chart 2.png 2 of 2")
    box.get_by_role("button", name="Next picture").click()
    expect(box).to_contain_text("chart 1.png")
    width = box.get_by_role("img").evaluate("(img) => img.getBoundingClientRect().width")
    assert width <= viewport["width"]
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(page.get_by_role("link", name="chart 1.png")).to_be_focused()


def test_a_picture_in_the_text_opens_large_too(window: Opening, rest: httpx.Client, thread: Thread):
    image = rest.post("/api/upload/image", files={"file": ("a.png", png())}).json()
    thread.post(f"see ![the plan]({image['url']})")
    page = window(f"#/threads/{thread.id}")
    page.get_by_role("link", name="the plan", exact=True).click()
    expect(page.get_by_role("dialog", name="Picture")).to_contain_text("the plan")
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


# Emoji


@both_sizes
def test_a_shortcode_is_completed_while_typing(
    window: Opening, rest: httpx.Client, thread: Thread, viewport: ViewportSize
):
    page = window(f"#/threads/{thread.id}", viewport=viewport)
    write(page, "Done :tad")
    expect(page.get_by_role("listbox", name="Emoji").get_by_role("option").first).to_contain_text(":tada:")
    page.keyboard.press("Enter")
    expect(page.locator("#say")).to_have_value("Done 🎉")
    write(page, " and :+1:")
    expect(page.locator("#say")).to_have_value("Done 🎉 and 👍")
    page.keyboard.press("Enter")
    eventually(lambda: contents(rest, thread) == ["Done 🎉 and 👍"])


def test_times_and_addresses_are_not_shortcodes(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    write(page, "at 10:30 on http://localhost:3000 and C:\\tmp :nosuchcode: ")
    expect(page.locator("#say")).to_have_value("at 10:30 on http://localhost:3000 and C:\\tmp :nosuchcode: ")
    expect(page.get_by_role("listbox")).to_have_count(0)


def test_the_emoji_for_a_reaction_to_the_last_message_are_above_the_box(window: Opening, thread: Thread):
    for number in range(12):
        thread.post(f"message {number}\n\n" + "line\n\n" * 8)
    thread.api.put("/api/read-marks")
    page = window(f"#/threads/{thread.id}", viewport={"width": 1440, "height": 757})
    last = page.locator(".message").last
    expect(last).to_be_in_viewport()
    last.hover()
    last.get_by_label("React", exact=True).click()
    last.get_by_label("All emoji").click()
    expect(last.get_by_role("searchbox", name="Search emoji")).to_be_focused()
    panel, box = last.locator(".picker > div").bounding_box(), page.locator(".compose").bounding_box()
    assert panel
    assert box
    assert panel["y"] >= 0
    assert panel["y"] + panel["height"] <= box["y"]


@both_themes
@both_sizes
def test_an_emoji_is_chosen_from_the_panel(window: Opening, thread: Thread, viewport: ViewportSize, scheme: str):
    page = window(f"#/threads/{thread.id}", viewport=viewport, color_scheme=scheme)
    write(page, "Hello !")
    page.locator("#say").press("ArrowLeft")
    page.get_by_label("Add an emoji").click()
    search = page.get_by_role("searchbox", name="Search emoji")
    expect(search).to_be_focused()
    panel = page.locator(".compose .emoji-panel").bounding_box()
    assert panel
    assert panel["x"] >= 0
    assert panel["y"] >= 0
    assert panel["x"] + panel["width"] <= viewport["width"]
    assert panel["y"] + panel["height"] <= viewport["height"]
    search.fill("rocket")
    page.get_by_role("button", name=":rocket:").click()
    expect(page.locator("#say")).to_have_value("Hello 🚀!")
    expect(page.locator(".compose .emoji-picker[open]")).to_have_count(0)
    page.get_by_label("Add an emoji").click()
    expect(page.get_by_role("group", name="Recent").get_by_role("button")).to_have_accessible_name(":rocket:")
    page.get_by_role("button", name="Food").click()
    page.keyboard.press("Escape")
    expect(page.locator(".compose .emoji-picker[open]")).to_have_count(0)


def test_the_panel_is_used_with_the_keyboard(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    page.get_by_label("Add an emoji").press("Enter")
    page.get_by_role("searchbox", name="Search emoji").fill("heart")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".emoji button").first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".emoji button").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("searchbox", name="Search emoji")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#say")).to_have_value(re.compile("^\\S+$"))
    expect(page.locator("#say")).to_be_focused()


@both_sizes
def test_any_emoji_can_be_a_reaction(window: Opening, rest: httpx.Client, thread: Thread, viewport: ViewportSize):
    message = thread.post("react to this")
    page = window(f"#/threads/{thread.id}", viewport=viewport)
    shown = page.locator(f"#m-{message['id']}")
    shown.hover()
    shown.get_by_label("React", exact=True).click()
    shown.get_by_role("button", name="All emoji").click()
    shown.get_by_role("searchbox", name="Search emoji").fill("rocket")
    box = shown.get_by_role("button", name=":rocket:").bounding_box()
    assert box
    assert 0 <= box["x"] < viewport["width"]
    shown.get_by_role("button", name=":rocket:").click()
    expect(shown.locator(".pill")).to_contain_text("🚀")
    shown.hover()
    shown.get_by_label("React", exact=True).click()
    shown.get_by_label("Another reaction").fill(":tada:")
    page.keyboard.press("Enter")
    expect(shown.locator(".pill")).to_have_count(2)

    def reactions() -> set[str]:  # a pill is shown before the server has answered
        return {one["reaction"] for one in rest.get(f"/api/messages/{message['id']}").json()["reactions"]}

    eventually(lambda: reactions() == {"🚀", "🎉"})


def test_emoji_are_loaded_when_they_are_needed(window: Opening, thread: Thread):
    page = window("#/search", is_new=True, viewport=PHONE)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(f"location.hash = '#/threads/{thread.id}'")
    expect(page.locator("#say")).to_be_visible()
    page.evaluate("new Promise((done) => requestIdleCallback(() => requestIdleCallback(done)))")
    assert not [url for url in asked if "emoji" in url]
    page.get_by_label("Add an emoji").click()
    expect(page.get_by_role("searchbox", name="Search emoji")).to_be_focused()
    assert [url for url in asked if "emoji" in url]
