"""Markdown, tables, tabs and faces look right, also on phones and with forced colours."""

from __future__ import annotations

import httpx
from playwright.sync_api import FloatRect, Locator, ViewportSize, expect
from tests.console.conftest import PHONE, WIDE, Opening, both_sizes, both_themes
from tests.helpers import Thread

MARKDOWN = """\
A paragraph.

## Heading

Text.

- [ ] open
  - [x] nested
- plain

1. one

- [ ] loose

- [x] another

| component | responsibility | configuration |
|---|---|---|
| scheduler | distributes the waiting requests | PALAVER_TOOL_LIMITS |
"""


def box(element: Locator) -> FloatRect:
    found = element.bounding_box()
    assert found
    return found


@both_sizes
def test_a_heading_is_nearer_to_its_text_than_to_the_text_above(
    window: Opening, thread: Thread, viewport: ViewportSize
):
    thread.post(MARKDOWN)
    page = window(f"#/threads/{thread.id}", viewport=viewport)
    heading, (above, below) = (
        box(page.locator(".prose").get_by_role("heading")),
        [box(one) for one in page.locator(".prose > p").all()],
    )
    before = heading["y"] - (above["y"] + above["height"])
    after = below["y"] - (heading["y"] + heading["height"])
    assert 0 < after < before < 30


@both_sizes
def test_nested_and_loose_task_lists_are_indented_and_show_no_brackets(
    window: Opening, thread: Thread, viewport: ViewportSize
):
    thread.post(MARKDOWN)
    page = window(f"#/threads/{thread.id}", viewport=viewport)
    boxes = page.locator(".prose li.task > input")
    expect(boxes).to_have_count(4)
    first, nested, loose = (box(boxes.nth(number)) for number in (0, 1, 2))
    assert nested["x"] > first["x"] + 10
    assert loose["x"] == first["x"]
    expect(page.locator(".prose")).not_to_contain_text("[ ]")
    expect(page.locator(".prose")).not_to_contain_text("[x]")
    text = box(page.locator(".prose li.task > p").first)
    assert abs(text["y"] + text["height"] / 2 - (loose["y"] + loose["height"] / 2)) < 6, "the box is beside its text"


def test_words_in_tables_are_not_broken_on_a_phone(window: Opening, thread: Thread):
    thread.post(MARKDOWN)
    page = window(f"#/threads/{thread.id}", viewport=PHONE)
    lines = page.locator(".prose th").first.evaluate("cell => cell.getClientRects()[0].height")
    assert lines < 40
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


@both_sizes
def test_every_tab_of_the_library_is_in_view(window: Opening, viewport: ViewportSize):
    page = window("#/library", viewport=viewport)
    expect(page.locator(".shelves a")).to_have_count(8)
    for tab in page.locator(".shelves a").all():
        expect(tab).to_be_in_viewport(ratio=1)


def test_faces_of_numbered_agents_differ(window: Opening, thread: Thread):
    for name in ("agent-01", "agent-02", "agent-12", "Ada Lovelace", "rook"):
        thread.post("hello", author=name)
    page = window(f"#/threads/{thread.id}")
    expect(page.locator(".message")).to_have_count(5)
    faces = page.locator(".message .face").evaluate_all("faces => faces.map((face) => face.dataset.initials)")
    assert faces == ["A1", "A2", "A12", "AL", "RO"]


@both_themes
def test_what_is_chosen_can_be_seen_with_forced_colours(window: Opening, thread: Thread, scheme: str):
    thread.post("hello")
    page = window(f"#/threads/{thread.id}", forced_colors="active", color_scheme=scheme)
    styles = "element => getComputedStyle(element).outlineStyle"
    for chosen in (".choice [aria-pressed=true]", ".threads [aria-current]", ".rail [aria-current]"):
        assert page.locator(chosen).first.evaluate(styles) == "solid", chosen
    assert page.locator(".choice [aria-pressed=false]").first.evaluate(styles) == "none"


def test_every_page_has_exactly_one_main_part(window: Opening, thread: Thread, rest: httpx.Client):
    for viewport in (WIDE, PHONE):
        page = window("#/threads", viewport=viewport)
        expect(page.locator(".threads a").first).to_be_visible()
        for path in ("threads", f"threads/{thread.id}", "library", "agents", "overview", "import", "search"):
            page.evaluate(f"location.hash = '#/{path}'")
            expect(page.locator(f".shell[data-view={path.partition('/')[0]}]")).to_have_count(1)
            expect(page.get_by_role("main")).to_have_count(1)
