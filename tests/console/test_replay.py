"""A session as a timeline: folded calls, failures, diffs, jumps, branches, and sessions of 10,000 steps."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect
from tests.console.conftest import PHONE, WIDE, Opening, both_sizes, both_themes
from tests.console.sessions import LONG, address, coding_session, record, turn
from tests.helpers import Thread, eventually, word

CONTRAST = """(element) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgb = (colour, under) => {
        canvas.clearRect(0, 0, 1, 1);
        if (under) { canvas.fillStyle = `rgb(${under})`; canvas.fillRect(0, 0, 1, 1); }
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const grounds = [];
    for (let at = element; at; at = at.parentElement) grounds.unshift(getComputedStyle(at).backgroundColor);
    let ground = [255, 255, 255];
    for (const colour of grounds) ground = rgb(colour, ground);
    const light = (colour) => {
        const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [a, b] = [light(rgb(getComputedStyle(element).color, ground)), light(ground)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


IN_VIEW = """(steps) => steps.some((step) => {
    const { top, bottom } = step.getBoundingClientRect();
    return top < innerHeight && bottom > 100;
})"""


def contrast(element: Locator) -> float:
    found: float = element.evaluate(CONTRAST)
    return found


def step(page: Page, number: int) -> Locator:
    return page.locator(f'.step[data-step="0/{number}"]')


def line(page: Page, number: int) -> Locator:
    return step(page, number).locator("> .line")


def opened(window: Opening, url: str, **options: Any) -> Page:
    page = window(url, **options)
    expect(page.locator(".step").first).to_be_visible()
    return page


@both_themes
@both_sizes
def test_a_session_is_a_timeline_with_folded_calls_and_a_summary(
    window: Opening, rest: httpx.Client, viewport: ViewportSize, scheme: str
):
    page = opened(
        window, record(rest, word("agent"), word("s"), coding_session()), viewport=viewport, color_scheme=scheme
    )
    summary = page.get_by_role("toolbar", name="Summary of the session")
    for text in ("1 error", "1 edit", "2 questions", "7 tool calls", "42 min"):
        expect(summary).to_contain_text(text)
    expect(page.locator(".step")).to_have_count(12)
    expect(line(page, 1)).to_have_attribute("aria-expanded", "true")
    expect(step(page, 1).locator("strong")).to_have_text("retry")
    failed = line(page, 4)
    expect(failed).to_have_attribute("aria-expanded", "false")
    expect(failed).to_have_accessible_name(
        re.compile(r"^\+0:10 Tool call Bash pytest -q tests/test_retry.py (Exit code 1 )?failed 13 s$")
    )
    expect(failed.locator(".at")).to_have_text("+0:10")
    expect(failed.locator(".took")).to_have_text("13 s")
    expect(step(page, 4).locator(".detail")).to_have_count(0)
    assert contrast(failed.locator(".short b")) >= 4.5
    assert contrast(line(page, 3).locator(".took")) >= 4.5
    expect(line(page, 7)).to_contain_text("no output")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.get_by_role("heading", name="Question: Now release it.").count() == 1


@both_sizes
def test_a_call_is_unfolded_with_its_output_and_a_long_output_stays_short(
    window: Opening, rest: httpx.Client, viewport: ViewportSize
):
    page = opened(window, record(rest, word("agent"), word("s"), coding_session()), viewport=viewport)
    line(page, 4).click()
    expect(line(page, 4)).to_have_attribute("aria-expanded", "true")
    output = step(page, 4).locator(".output.failed pre")
    expect(output).to_contain_text("AssertionError")
    assert "mono" in output.evaluate("(pre) => getComputedStyle(pre).fontFamily")
    line(page, 6).click()
    expect(step(page, 6).locator(".output")).to_contain_text("test_case_1 PASSED")
    expect(step(page, 6).locator(".output")).not_to_contain_text("test_case_80")
    step(page, 6).get_by_role("button", name="Show all").click()
    expect(step(page, 6).locator(".output pre")).to_have_text(LONG)
    expect(step(page, 6).get_by_role("button", name="Show all")).to_have_count(0)
    line(page, 4).click()
    expect(step(page, 4).locator(".detail")).to_have_count(0)


@both_themes
def test_an_edit_is_a_coloured_diff(window: Opening, rest: httpx.Client, scheme: str):
    page = opened(window, record(rest, word("agent"), word("s"), coding_session()), color_scheme=scheme)
    line(page, 5).click()
    diff = step(page, 5).locator(".diff")
    expect(diff.locator(".removed").first).to_have_text("-def wait(attempt):\n")
    expect(diff.locator(".added").last).to_have_text(re.compile(r"^\+    return min"))
    expect(step(page, 5).locator("figcaption").first).to_contain_text("/src/relay/retry.py")
    for kind in ("added", "removed"):
        assert contrast(diff.locator(f".{kind}").first) >= 4.5
    grounds = {
        diff.locator(f".{kind}").first.evaluate("(e) => getComputedStyle(e).backgroundColor")
        for kind in ("added", "removed")
    }
    assert len(grounds) == 2


@both_sizes
def test_keys_jump_to_errors_edits_questions_and_answers(window: Opening, rest: httpx.Client, viewport: ViewportSize):
    page = opened(window, record(rest, word("agent"), word("s"), coding_session()), viewport=viewport)
    for key, number in (("j", 1), ("j", 2), ("k", 1), ("e", 4), ("Shift+U", 1), ("d", 5), ("u", 9), ("a", 11), ("a", 9),
                        ("ArrowDown", 10), ("Shift+E", 4), ("End", 12), ("Home", 1)):  # fmt: skip
        page.keyboard.press(key)
        expect(step(page, number)).to_be_focused()
        expect(step(page, number)).to_be_in_viewport()
    page.keyboard.press("e")
    page.keyboard.press("Enter")
    expect(line(page, 4)).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("e")
    expect(page.get_by_text("There are no more.")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next, previous error")


def test_buttons_jump_too_and_all_steps_can_be_one_line(window: Opening, rest: httpx.Client):
    page = opened(window, record(rest, word("agent"), word("s"), coding_session()), viewport=WIDE)
    page.get_by_role("button", name="Next error").click()
    expect(step(page, 4)).to_be_focused()
    page.get_by_role("button", name="Next question").click()
    expect(step(page, 9)).to_be_focused()
    page.get_by_role("button", name="Previous question").click()
    expect(step(page, 1)).to_be_focused()
    page.get_by_role("button", name="One line each").click()
    expect(page.locator(".detail")).to_have_count(0)
    assert all(box["height"] < 50 for row in page.locator(".step .line").all() if (box := row.bounding_box()))
    page.get_by_role("button", name="Show messages").click()
    expect(page.locator(".detail").first).to_be_visible()


def test_a_call_without_a_result_is_running_or_was_never_answered(window: Opening, rest: httpx.Client):
    old, new, agent = word("s"), word("s"), word("agent")
    page = opened(window, record(rest, agent, old, coding_session()))
    expect(line(page, 12)).to_contain_text("never answered")
    now = datetime.now(UTC).isoformat()
    call = {"id": uuid4().hex, "role": "tool", "content": "[tool Bash] make", "ts": now, "tool": {"call": "x"}}
    url = record(rest, agent, new, [call])
    page.evaluate(f"location.hash = {url!r}")
    expect(line(page, 1)).to_contain_text("running")
    result = {**call, "id": uuid4().hex, "content": "made", "ts": datetime.now(UTC).isoformat()}
    answer = {"id": uuid4().hex, "role": "assistant", "content": "it is made", "ts": result["ts"]}
    record(rest, agent, new, [result, answer])  # the session goes on while it is read
    expect(line(page, 1)).not_to_contain_text("running")
    expect(step(page, 2)).to_contain_text("it is made")


@both_sizes
def test_a_link_opens_the_session_at_its_step(window: Opening, rest: httpx.Client, viewport: ViewportSize):
    agent, session = word("agent"), word("s")
    turns = [turn("user" if n % 5 == 0 else "assistant", f"step number {n}", n) for n in range(1, 700)]
    turns[400:402] = [
        turn("tool", "[tool Bash] make", 401, call="c"),
        turn("tool", "needle in the output", 402, call="c"),
    ]
    record(rest, agent, session, turns)
    page = opened(window, f"{address(rest, agent, session, turns[401]['id'])}&q=needle", viewport=viewport)
    found = page.locator(".step.found")
    expect(found).to_be_in_viewport()
    expect(found).to_contain_text("needle in the output")
    expect(found).to_be_focused()
    assert page.evaluate("CSS.highlights.get('found')?.size") == 1
    page.keyboard.press("j")
    expect(step(page, 402)).to_be_focused()


def test_a_link_to_a_step_can_be_copied(window: Opening, rest: httpx.Client):
    turns = coding_session()
    page = opened(
        window, record(rest, word("agent"), word("s"), turns), permissions=["clipboard-read", "clipboard-write"]
    )
    step(page, 1).hover()
    step(page, 1).get_by_role("button", name="Copy link").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert turns[0]["id"] in copied
    page.goto("about:blank")
    page.goto(copied)
    expect(page.locator(".step.found")).to_contain_text("The relay gives up too early")


def test_ten_thousand_steps_draw_only_what_is_in_view(window: Opening, rest: httpx.Client):
    turns = [
        turn("assistant" if n % 3 else "user", f"step number {n}\n\nwith a second paragraph", n / 10)
        for n in range(1, 9_999)
    ]
    turns += [turn("tool", "[tool Bash] false", 1001, call="z"), turn("tool", "Exit code 1", 1002, call="z", is_error=True),
              turn("assistant", "the end of it all", 1003)]  # fmt: skip
    page = opened(window, record(rest, word("agent"), word("s"), turns), viewport=WIDE)
    assert page.locator(".step").count() <= 300
    page.keyboard.press("e")
    failed = step(page, 9_999)
    expect(failed).to_be_focused()
    expect(failed).to_be_in_viewport()
    page.keyboard.press("j")
    expect(step(page, 10_000)).to_contain_text("the end of it all")
    page.keyboard.press("Home")
    expect(step(page, 1)).to_be_in_viewport()
    page.locator(".scroll").evaluate("(box) => box.scrollTo(0, box.scrollHeight / 2)")
    expect(page.locator(".step").first).to_be_attached()
    eventually(lambda: page.locator(".step").evaluate_all(IN_VIEW))
    assert page.locator(".step").count() <= 500


def test_a_huge_output_is_loaded_when_it_is_asked_for(window: Opening, rest: httpx.Client):
    huge = "\n".join(f"line {n} of a very long log" for n in range(30_000))
    page = opened(window, record(rest, word("agent"), word("s"), [
        turn("tool", "[tool Bash] cat log", 0, call="a"), turn("tool", huge, 1, call="a")]))  # fmt: skip
    line(page, 1).click()
    expect(step(page, 1).locator(".output")).not_to_contain_text("line 29999")
    step(page, 1).get_by_role("button", name="Show all").click()
    expect(step(page, 1).locator(".piece").last).to_contain_text("line 29999 of a very long log")
    assert step(page, 1).locator(".piece").count() > 10


@both_themes
@both_sizes
def test_branches_subagents_and_the_command_to_resume(
    window: Opening, rest: httpx.Client, viewport: ViewportSize, scheme: str
):
    session, turns = str(uuid4()), coding_session()
    wrong = [turn("user", "a wrong turn", 210), turn("assistant", "as you like", 215)]
    record(rest, "claude-code", session, [*turns[:12], *wrong])
    url = record(rest, "claude-code", session, turns[12:], removed=[one["id"] for one in wrong])
    record(rest, "claude-code", f"{session}.agent-1", [turn("assistant", "write the release notes", 1512)])
    page = opened(window, url, viewport=viewport, color_scheme=scheme)
    expect(page.locator(".resume code")).to_have_text(f"claude --resume {session}")
    branch = page.get_by_role("button", name="Other branch a wrong turn 2 steps")
    branch.click()
    expect(branch).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".branch .inside")).to_contain_text("as you like")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="Subagent: write the release notes").click()
    expect(page.locator(".related")).to_contain_text("Started by: The relay gives up")
    expect(page.locator(".resume")).to_have_count(0)
    page.get_by_role("link", name=re.compile("^Started by")).click()
    expect(page.locator(".step")).to_have_count(12)


def test_the_replay_can_be_read_with_forced_colours(window: Opening, rest: httpx.Client):
    page = opened(window, record(rest, word("agent"), word("s"), coding_session()), forced_colors="active")
    line(page, 5).click()
    borders = [
        step(page, 5).locator(f".{kind}").first.evaluate("(e) => getComputedStyle(e).borderLeftStyle")
        for kind in ("added", "removed")
    ]
    assert borders == ["solid", "double"]
    expect(line(page, 4).locator(".state")).to_have_text("failed")


def test_the_replay_is_german_when_that_is_chosen(window: Opening, rest: httpx.Client):
    url = record(rest, word("agent"), word("s"), coding_session())
    page = opened(window, url, locale="de-DE", viewport=PHONE)
    expect(page.get_by_role("toolbar", name="Überblick über die Sitzung")).to_contain_text("7 Werkzeugaufrufe")
    expect(line(page, 4)).to_contain_text("fehlgeschlagen")
    expect(line(page, 12)).to_contain_text("nie beantwortet")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("nächster, voriger Fehler")


def test_a_chat_without_tools_shows_no_errors_and_no_edits(window: Opening, rest: httpx.Client):
    turns = [turn("user", "hello", 0), turn("assistant", "good day", 5)]
    page = opened(window, record(rest, word("agent"), word("s"), turns))
    summary = page.get_by_role("toolbar", name="Summary of the session")
    expect(summary).to_contain_text("1 question")
    expect(summary).not_to_contain_text("error")
    expect(summary).not_to_contain_text("tool call")
    expect(page.locator(".reader .head time")).to_have_attribute("datetime", re.compile("^2026-03-01T10:00:00"))


# Code in colour


CODE = {
    "python": ("def f(x):\n    return 'a'  # note", "def"),
    "ts": ("const x: number = 1; // note", "const"),
    "json": ('{"a": true}', "true"),
    "bash": ("if true; then echo 1; fi # note", "if"),
    "sql": ("SELECT 1 FROM t -- note", "SELECT"),
    "go": ("func main() { return } // note", "func"),
    "rust": ("fn main() {} // note", "fn"),
    "java": ("class A {} // note", "class"),
    "c++": ("int main() { return 0; } // note", "return"),
    "cs": ("class A {} // note", "class"),
    "html": ("<!-- note --><p class='a'>x</p>", "p"),
    "css": ("/* note */ a { color: red }", None),
    "yaml": ("a: true # note", "true"),
    "toml": ("a = true # note", "true"),
    "php": ("<?php function f() {} // note", "function"),
    "ruby": ("def f; end # note", "def"),
    "kotlin": ("fun main() {} // note", "fun"),
    "swift": ("func f() {} // note", "func"),
    "dockerfile": ("FROM scratch\n# note", "FROM"),
}


@pytest.mark.thorough
@both_themes
def test_code_of_common_languages_is_coloured_and_legible(window: Opening, thread: Thread, scheme: str):
    for language, (code, _) in CODE.items():
        thread.post(f"```{language}\n{code}\n```", author=language)
    page = window(f"#/threads/{thread.id}", color_scheme=scheme)
    for language, (code, keyword) in CODE.items():
        block = page.locator(".message", has_text=language).locator("figure.code", has_text=code.split("\n")[0]).first
        block.scroll_into_view_if_needed()
        expect(block.locator("code span").first).to_be_attached()
        expect(block.locator("code")).to_have_text(code)
        if keyword:
            expect(block.locator("code span").get_by_text(keyword, exact=True).first).to_be_attached()
        for one in block.locator("code span").all():
            assert contrast(one) >= 4.5, (language, one.text_content())


def test_code_is_never_parsed_as_html_and_long_code_stays_plain(window: Opening, thread: Thread):
    thread.post("```html\n<img src=x onerror=alert(1)><script>alert(2)</script>\n```")
    long = "x = 1\n" * 9_000
    thread.post(f"```python\n{long}```")
    page = window(f"#/threads/{thread.id}")
    first = page.locator("figure.code").first
    first.scroll_into_view_if_needed()
    expect(first.locator("code span").first).to_be_attached()
    expect(first.locator("code")).to_have_text("<img src=x onerror=alert(1)><script>alert(2)</script>")
    assert first.locator("img, script").count() == 0
    last = page.locator("figure.code").last
    last.scroll_into_view_if_needed()
    page.evaluate("new Promise((done) => requestIdleCallback(() => requestIdleCallback(done)))")
    assert last.locator("code span").count() == 0


def test_a_fence_with_a_diff_is_a_diff_and_can_be_copied(window: Opening, thread: Thread):
    thread.post("```diff\n-old\n+new\n same\n```")
    page = window(f"#/threads/{thread.id}", permissions=["clipboard-read", "clipboard-write"])
    block = page.locator("figure.code")
    expect(block.locator(".added")).to_have_text("+new\n")
    expect(block.locator(".removed")).to_have_text("-old\n")
    block.get_by_role("button", name="Copy the code").click()
    assert page.evaluate("navigator.clipboard.readText()") == "-old\n+new\n same"


def test_the_highlighter_is_loaded_only_where_there_is_code(window: Opening, thread: Thread):
    thread.post("no code here")
    asked: list[str] = []
    page = window("#/search", is_new=True)
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(f"location.hash = '#/threads/{thread.id}'")
    expect(page.locator(".message").get_by_text("no code here")).to_be_visible()
    page.evaluate("new Promise((done) => requestIdleCallback(() => requestIdleCallback(done)))")
    assert not [url for url in asked if "highlight" in url]
    thread.post("```python\nx = 1\n```")
    expect(page.locator("code .hljs-number")).to_have_text("1")
    assert len([url for url in asked if "highlight" in url]) == 3  # the module, the library, the language


def test_an_open_point_of_a_session_can_be_closed(window: Opening, rest: httpx.Client):
    left, agent, session = word("left"), word("agent-"), word("s-")
    turns = [turn("user", "go", 0), turn("assistant", f"It works. TODO: rotate the {left}.", 1)]
    page = opened(window, record(rest, agent, session, turns))
    point = page.locator(".related .point", has_text=left)
    expect(point).to_be_visible()
    point.get_by_role("button", name="Close this open point").click()
    expect(point).to_have_count(0)
    assert left not in rest.get("/api/open-points").text


def test_a_line_of_a_change_says_why_it_is_there(window: Opening, rest: httpx.Client):
    agent, first, second = word("agent"), word("s"), word("s")
    record(rest, agent, first, coding_session())
    again = coding_session()[6:8]
    again[0]["content"] = (
        again[0]["content"]
        .replace("return 1.0", "return min(60.0, 0.5 * 2**attempt)")
        .replace('"new_string":"', '"new_string":"# seconds until the next try\\n')
    )
    page = opened(window, record(rest, agent, second, [turn("user", "Say what it returns.", 30), *again]))
    line(page, 2).click()
    kept = step(page, 2).locator(".diff > span", has_text="return min(60.0")
    kept.click()
    told = step(page, 2).locator(".origin")
    expect(told).to_contain_text("Asked for")
    expect(told).to_contain_text("The relay gives up too early.")
    told.get_by_role("link").first.click()
    expect(page.locator(".found .diff")).to_be_visible()
    page.go_back()
    line(page, 2).click()
    step(page, 2).locator("pre").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(step(page, 2).locator(".origin")).to_contain_text("in this step")
