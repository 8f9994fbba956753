"""Search as you type, operators and their completion, counts, the preview, evidence, and saved searches."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from playwright.sync_api import Request, Route, ViewportSize, expect
from tests.console.conftest import PHONE, WIDE, Opening, both_sizes, both_themes
from tests.console.sessions import coding_session, record, turn
from tests.helpers import Thread, eventually, word
from tests.library_items import SOURCES, Library

ROOMY = 1100
"""The least width at which there is a preview."""


@both_sizes
def test_every_letter_of_a_word_finds_it(window: Opening, rest: httpx.Client, viewport: ViewportSize):
    unique, library = word("postmortem"), Library(rest)
    for source in SOURCES:
        library.put_in(source, f"Read the {unique} of {source}")
    page = window("#/search", viewport=viewport)
    page.locator("#search").focus()
    page.keyboard.type(unique[:-4])
    for letter in unique[-4:]:
        expect(page.locator(".hit")).to_have_count(len(SOURCES))
        expect(page.locator(".hit mark")).to_have_text([unique] * len(SOURCES))
        page.keyboard.type(letter)
    expect(page.get_by_text("Nothing found")).to_have_count(0)


def test_two_letters_find_words_also_in_one_thread(window: Opening, thread: Thread):
    thread.post("The postmortem is due")
    page = window(f"#/search?thread={thread.id}")
    page.locator("#search").focus()
    page.keyboard.type("po")
    expect(page.locator(".hit mark")).to_have_text("postmortem")


@both_sizes
def test_operators_and_their_values_are_completed_with_the_keyboard(
    window: Opening, thread: Thread, viewport: ViewportSize
):
    unique, name = word("otter"), f"{word('Ada')} Lo"
    thread.post(f"{unique} by her", author=name)
    thread.post(f"{unique} by another", author="someone")
    page = window("#/search", viewport=viewport)
    field, options = page.locator("#search"), page.locator("#completions li")
    field.focus()
    page.keyboard.type(f"{unique} fro")
    expect(options).to_have_text([re.compile("from:")])
    expect(field).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Tab")
    expect(field).to_have_value(f"{unique} from:")
    page.keyboard.type(name.lower()[:12])
    expect(options).to_have_text([re.compile(name)])
    expect(field).to_have_attribute("aria-activedescendant", "completion-0")
    # An operator that is not finished leaves nothing out yet.
    expect(page.locator(".hit")).to_have_count(2)
    page.keyboard.press("Enter")
    expect(field).to_have_value(f'{unique} from:"{name}" ')
    expect(page.locator(".hit .snippet")).to_have_text([f"{unique} by her"])
    expect(field).to_have_attribute("aria-expanded", "false")
    page.keyboard.type("source:no")
    expect(options).to_have_text([re.compile("notes")])
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(field).to_be_focused()


def test_an_operator_with_a_minus_is_completed_and_excludes(window: Opening, thread: Thread):
    unique, name = word("otter"), f"{word('Ada')} Lo"
    thread.post(f"{unique} by her", author=name)
    thread.post(f"{unique} by another", author="someone")
    page = window("#/search")
    field, options = page.locator("#search"), page.locator("#completions li")
    field.focus()
    page.keyboard.type(f"{unique} -fro")
    expect(options).to_have_text([re.compile("-from:")])
    page.keyboard.press("Tab")
    page.keyboard.type(name.lower()[:12])
    expect(options).to_have_text([re.compile(name)])
    page.keyboard.press("Enter")
    expect(field).to_have_value(f'{unique} -from:"{name}" ')
    expect(page.locator(".hit .snippet")).to_have_text([f"{unique} by another"])


def test_a_typed_operator_counts_when_it_is_finished(window: Opening, thread: Thread):
    unique = word("mink")
    thread.post(f"{unique} one", author="someone")
    page = window("#/search")
    page.locator("#search").focus()
    page.keyboard.type(f"{unique} before:2001")
    expect(page.get_by_text("Nothing found")).to_be_visible()
    page.locator("#search").fill(f"{unique} after:2001 ")
    expect(page.locator(".hit")).to_have_count(1)
    page.locator("#search").fill(f"{unique} after:whenever ")
    expect(page.locator(".hint")).to_contain_text("is not a date. Use after:2026-05-01")


def test_a_date_that_is_still_being_typed_is_not_scolded(window: Opening, thread: Thread):
    mark = word("fox")
    thread.post(f"the quick {mark}", author="Ann")
    page = window("#/search")
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/knowledge/search" in request.url:
            asked.append(request.post_data or "")

    page.on("request", note)
    page.clock.install()
    page.locator("#search").focus()
    for letter in "before:2031-1":
        page.keyboard.type(letter)
        page.clock.run_for(500)
    page.keyboard.type("1 ")
    page.keyboard.type(mark)
    page.clock.run_for(500)
    expect(page.locator(".hit")).to_have_count(1)
    halves = [json.loads(body)["query"] for body in asked]
    assert not [query for query in halves if re.search(r"before:(\d{1,3}|2031-\d?)$", query)]
    expect(page.get_by_role("alert")).to_have_count(0)


def test_the_error_of_a_query_goes_with_that_query(window: Opening, thread: Thread):
    page = window("#/search?q=before:nonsense fox")
    expect(page.get_by_role("alert")).to_contain_text("is not a date")
    held: list[Route] = []
    page.route("**/api/knowledge/search", lambda route: held.append(route))
    with page.expect_request("**/api/knowledge/search"):
        page.locator("#search").fill("fox")
    expect(page.get_by_role("alert")).to_have_count(0)
    for route in held:
        route.continue_()


def test_a_name_offers_what_that_person_wrote(window: Opening, thread: Thread):
    name, mark = word("Paula"), word("fox")
    thread.post(f"the quick {mark}", author=name)
    thread.post(f"the slow {mark}", author="Ben")
    page = window("#/search")
    page.locator("#search").focus()
    page.keyboard.type(name[:-2])
    offered = page.get_by_role("option", name=f"from:{name}")
    expect(offered).to_contain_text("person")
    page.keyboard.press("Tab")
    expect(page.locator("#search")).to_have_value(f"from:{name} ")
    page.keyboard.type(mark)
    expect(page.locator(".hit .snippet")).to_have_text(f"the quick {mark}")


def test_the_title_is_not_repeated_in_the_snippet(window: Opening, rest: httpx.Client):
    mark = word("fox")
    thread = Thread(rest, f"about the {mark}")
    thread.post("the first message")
    page = window(f"#/search?q={mark}")
    expect(page.locator(".hit b").first).to_have_text(f"about the {mark}")
    expect(page.locator(".hit .snippet").first).to_have_text("the first message")


def test_operators_alone_list_the_newest(window: Opening, thread: Thread):
    name = word("Zoe")
    for number in range(3):
        thread.post(f"number {number}", author=name)
    page = window(f"#/search?q=from:{name}")
    expect(page.locator(".hit .snippet")).to_have_text(["number 2", "number 1", "number 0"])


@both_sizes
def test_counts_are_filters(window: Opening, rest: httpx.Client, viewport: ViewportSize):
    unique, library = word("gecko"), Library(rest)
    for day in ("2026-05-02", "2026-05-20", "2026-03-10"):
        library.note(f"{unique} {day}", created_at=f"{day}T12:00:00Z")
    library.prompt(details=f"{unique} in a prompt")
    page = window(f"#/search?q={unique}", viewport=viewport)
    sources, months = page.get_by_role("group", name="Source"), page.get_by_role("group", name="Month")
    expect(sources.get_by_role("button", name="Notes")).to_have_text("Notes 3")
    expect(sources.get_by_role("button", name="Everything")).to_have_text("Everything 4")
    expect(months.get_by_role("button", name="May 2026")).to_have_text(re.compile(r"May 2026\s+2"))
    sources.get_by_role("button", name="Notes", exact=True).click()
    expect(page.locator(".hit")).to_have_count(3)
    expect(sources.get_by_role("button", name="Prompts")).to_have_text("Prompts 1")
    expect(months.get_by_role("button")).to_have_count(2)
    months.get_by_role("button", name="May 2026").click()
    expect(page.locator(".hit")).to_have_count(2)
    expect(months.get_by_role("button", name="May 2026")).to_have_attribute("aria-pressed", "true")
    months.get_by_role("button", name="All months").click()
    expect(page.locator(".hit")).to_have_count(3)


@both_themes
def test_the_preview_shows_the_selected_result_in_its_surroundings(window: Opening, rest: httpx.Client, scheme: str):
    unique, thread = word("heron"), Thread(rest, word("Birds "))
    for number in range(9):
        thread.post(f"{unique} seen" if number == 4 else f"message {number}", author="Ann")
    Library(rest).note(f"the {unique} in a note", title="Note of birds")
    page = window(f"#/search?q={unique}", viewport=WIDE, color_scheme=scheme, is_new=True)
    expect(page.locator(".hit")).to_have_count(2)
    preview, current = page.get_by_label("Preview"), page.locator(".hit[aria-current]")
    seen = set()
    for _ in range(2):
        title = current.locator("b").first.inner_text()
        expect(preview.locator("header b")).to_have_text(title)
        expect(preview.locator(".texts")).to_contain_text(unique)
        eventually(lambda: set(page.evaluate("[...(CSS.highlights.get('found') ?? [])].map(String)")) == {unique})
        if title == thread.topic:
            expect(preview.locator("article")).to_have_count(9)
            expect(preview.locator("article.found")).to_contain_text(f"{unique} seen")
            expect(preview.locator("article.found")).to_be_in_viewport()
        seen.add(title)
        page.keyboard.press("ArrowDown")
    assert seen == {thread.topic, "Note of birds"}
    page.set_viewport_size({"width": ROOMY - 1, "height": 800})
    expect(preview).to_have_count(0)
    page.set_viewport_size({"width": ROOMY, "height": 800})
    expect(preview).to_have_count(1)
    preview.get_by_role("link", name="Open").click()
    expect(page).to_have_url(re.compile("#/(threads|open)/"))


def test_the_preview_of_a_session_is_the_view_of_the_reader(window: Opening, rest: httpx.Client):
    mark = word("heron")
    turns = [
        *coding_session(),
        turn("user", f"Where does the {mark} nest?", 2600),
        turn("assistant", "In the reeds.", 2601),
    ]
    record(rest, word("agent"), word("s"), turns)
    page = window(f"#/search?q={mark}", viewport=WIDE)
    preview = page.get_by_label("Preview")
    expect(preview.locator(".step.found")).to_contain_text(f"Where does the {mark} nest?")
    expect(preview.locator(".step.found")).to_be_in_viewport()
    expect(preview.locator(".step.call").last).to_contain_text("Bash")
    expect(preview).not_to_contain_text("[tool")
    shown = preview.locator(".step .line").all_inner_texts()
    preview.get_by_role("link", name="Open").click()
    expect(page.locator(".reader .step.found")).to_be_in_viewport()
    expect(page.locator(".reader .step .line")).to_have_text([re.sub(r"\s+", " ", one).strip() for one in shown])


def test_only_the_words_that_the_server_found_are_marked(window: Opening, thread: Thread, rest: httpx.Client):
    mark = word("fox")
    thread.post(f"{mark} theme: ask them, themselves, about the Theme")
    rest.put("/api/read-marks")
    page = window(f"#/search?q={mark} theme", viewport=WIDE)
    marked = "[...(CSS.highlights.get('found') ?? [])].map(String)"
    eventually(lambda: page.evaluate(marked) == [mark, "theme", "Theme"])
    page.get_by_label("Preview").get_by_role("link", name="Open").click()
    expect(page.locator(".message.found")).to_be_in_viewport()
    eventually(lambda: page.evaluate(marked) == [mark, "theme", "Theme"])


def test_a_phone_has_no_preview_and_opens_a_result(window: Opening, thread: Thread):
    unique = word("crane")
    sent = thread.post(f"{unique} here")
    page = window(f"#/search?q={unique}", viewport=PHONE)
    expect(page.get_by_label("Preview")).to_have_count(0)
    page.locator(".hit").click()
    expect(page.locator(f"#m-{sent['id']}")).to_be_in_viewport()


@both_sizes
@both_themes
def test_the_evidence_is_one_key_away(window: Opening, rest: httpx.Client, viewport: ViewportSize, scheme: str):
    unique = word("stoat")
    Library(rest).note(f"The {unique} is white in winter.", title="Stoats")
    page = window(
        f"#/search?q={unique}",
        viewport=viewport,
        color_scheme=scheme,
        permissions=["clipboard-read", "clipboard-write"],
    )
    expect(page.locator(".hit")).to_have_count(1)
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre")).to_contain_text(f"The {unique} is white in winter.")
    expect(dialog.locator("[role=status]")).to_have_text(re.compile(r"1 passage · about \d+ tokens"))
    dialog.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == dialog.locator("pre").inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("show the evidence that an agent gets")


@both_sizes
def test_searches_are_saved_renamed_and_removed(window: Opening, rest: httpx.Client, viewport: ViewportSize):
    unique, name = word("lynx"), word("Cats ")
    Library(rest).note(f"a {unique}")
    page = window(f"#/search?q={unique}&source=notes", viewport=viewport)
    expect(page.locator(".hit")).to_have_count(1)
    page.keyboard.press("b")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Save", exact=True).last.click()
    expect(page.locator(".notices")).to_contain_text("Saved.")
    assert {"name": name, "query": f"{unique} source:notes"}.items() <= next(
        one for one in rest.get("/api/searches").json() if one["name"] == name
    ).items()
    page.locator("#search").fill("")
    expect(page.locator(".hit")).to_have_count(0)
    saved = page.get_by_label("Saved searches").locator("li", has_text=name)
    saved.get_by_role("button", name=f"Rename {name}").click()
    page.get_by_label("Name", exact=True).fill(f"{name} again")
    page.get_by_role("button", name="Save", exact=True).last.click()
    expect(saved).to_contain_text(f"{name} again")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to a page").fill(f"{name} again")
    expect(page.locator("#commands li").first).to_contain_text("Saved search")
    page.keyboard.press("Enter")
    expect(page.locator("#search")).to_have_value(f"{unique} source:notes")
    expect(page.locator(".hit")).to_have_count(1)
    page.locator("#search").fill("")
    expect(page.locator(".hit")).to_have_count(0)
    saved.get_by_role("button", name=f"Remove {name} again").click()
    expect(saved).to_have_count(0)
    eventually(lambda: name not in rest.get("/api/searches").text)


def test_a_removed_search_stays_removed_if_the_list_cannot_be_loaded_and_can_be_undone(
    window: Opening, rest: httpx.Client
):
    name = word("Dogs ")
    rest.post("/api/searches", json={"name": name, "query": "wolf"})
    page = window("#/search")
    saved = page.get_by_label("Saved searches").locator("li", has_text=name)
    expect(saved).to_be_visible()
    page.route("**/api/searches", lambda route: route.fulfill(status=503, json={"detail": "busy"}))
    saved.get_by_role("button", name=f"Remove {name}").click()
    expect(saved).to_have_count(0)
    eventually(lambda: name not in rest.get("/api/searches").text)
    page.unroute("**/api/searches")
    page.get_by_role("button", name="Undo").click()
    expect(saved).to_be_visible()
    page.route("**/api/searches/*", lambda route: route.fulfill(status=503, json={"detail": "The server is busy."}))
    saved.get_by_role("button", name=f"Remove {name}").click()
    expect(page.locator(".notices")).to_contain_text("The server is busy.")
    expect(saved).to_be_visible()


def test_a_misspelt_word_is_named_and_can_be_searched_exactly(window: Opening, thread: Thread):
    thread.post("a wobbegong is a shark")
    page = window("#/search?q=wobbegnog%20shark")
    expect(page.locator(".hit mark").first).to_have_text("wobbegong")
    note = page.locator(".hint", has_text="Read as “wobbegong”, search exactly:")
    note.get_by_role("link", name='"wobbegnog" shark').click()
    expect(note).to_have_count(0)
    expect(page.get_by_label("Search everything", exact=True)).to_have_value('"wobbegnog" shark')
    expect(page.locator(".hit mark").first).to_have_text("shark")


@pytest.mark.parametrize("path", ["#/threads", "#/threads/{id}", "#/search"])
def test_the_first_visit_is_small_and_takes_few_requests(window: Opening, thread: Thread, path: str):
    thread.post("hello")
    page = window(path.format(id=thread.id), is_new=True)

    # The last views are loaded while the browser is idle.
    def loaded() -> list[tuple[str, int]]:
        return list(
            page.evaluate("performance.getEntriesByType('resource').map((one) => [one.name, one.transferSize])")
        )

    eventually(lambda: any("reader_sources.js" in name for name, _ in loaded()))
    assert len(loaded()) + 1 <= 20, loaded()
    assert sum(size for _, size in loaded()) <= 150_000
