"""The console in German: every text has a translation, and every view shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, ViewportSize, expect
from tests.console.conftest import PHONE, WIDE, Opening, both_sizes
from tests.helpers import Server, Thread, start_server, word

import palaver
from palaver.store.bus import receipts

CODE = Path(palaver.__file__).parent / "console" / "js"
TEXTS = CODE / "texts"
TEXT = r'"((?:[^"\\]|\\.)*)"'
USES = (
    rf"\b(?:t|rich)\(\s*{TEXT}",
    rf"\b(?:iconButton|choice|loading|notify)\(\s*{TEXT}",
    rf"\bemptyState\(\s*[^,()]+,\s*{TEXT}",
    rf"\bemptyState\(\s*[^,()]+,\s*{TEXT},\s*{TEXT}",
    rf"\bemptyView\(\s*{TEXT},[^,]+,\s*{TEXT},\s*{TEXT}",
    rf"\b(?:about|label|singular): {TEXT}",
)
"""Where the code has a text that is translated: in calls of t, and of functions and tables that hand it to t."""


def translations() -> dict[str, str]:
    body = (TEXTS / "de.js").read_text("utf-8").partition("texts = {")[2]
    found = re.findall(rf"^  (?:{TEXT}|(\w+)):\s+{TEXT},$", body, re.MULTILINE)
    return {json.loads(f'"{quoted or bare}"'): json.loads(f'"{text}"') for quoted, bare, text in found}


def sources() -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(CODE.rglob("*.js")) if path.parent != TEXTS)


def used_texts() -> set[str]:
    code, found = sources(), set()
    for pattern in USES:
        for match in re.finditer(pattern, code):
            found |= {json.loads(f'"{text}"') for text in match.groups()}
    return found


def test_every_text_of_the_code_has_a_german_translation():
    assert len(used_texts()) > 400
    assert used_texts() - translations().keys() == set()


class Templates:
    """Finds the texts of the templates in JavaScript, without their expressions."""

    def __init__(self, code: str) -> None:
        self.code, self.found = code + "}", list[str]()
        self._expression(0)

    def _template(self, at: int) -> tuple[str, int]:
        text = ""
        while self.code[at] != "`":
            if self.code.startswith("${", at):
                at, text = self._expression(at + 2), text + " "
            else:
                step = 2 if self.code[at] == "\\" else 1
                text, at = text + self.code[at : at + step], at + step
        return text, at + 1

    def _expression(self, at: int) -> int:
        """Returns where the expression ends, after its closing brace."""
        depth = 0
        while depth >= 0:
            skipped = re.compile(r'//.*|/\*[\s\S]*?\*/|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'').match(self.code, at)
            before = self.code[max(0, at - 20) : at]
            pattern = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\]|\\.)*\])+/").match(self.code, at)
            if skipped:
                at = skipped.end()
            elif pattern and re.search(r"[=(,:!&|?\[]\s*$", before):
                at = pattern.end()
            elif self.code[at] == "`":
                text, at = self._template(at + 1)
                if before.endswith(("html", "svg")):
                    self.found.append(text)
            else:
                depth += {"{": 1, "}": -1}.get(self.code[at], 0)
                at += 1
        return at


def literal_texts(code: str) -> list[str]:
    """Words that a template shows without t: between tags, or in an attribute that is read aloud."""
    found = []
    for template in Templates(code).found:
        said = re.findall(r'(?:aria-label|title|placeholder|alt)="([^"]*)"', template)
        shown = re.sub(r"<(code|kbd)\b[^>]*>[^<]*</\1>", "", template)
        found += [text.strip() for text in [*said, *re.split(r"<[^>]*>", shown)] if re.search(r"[A-Za-z]{2,}", text)]
    return found


def test_templates_have_no_text_that_cannot_be_translated():
    assert literal_texts('f(/`/, html`<p title="Two words">${t(`x`)} Read <code>x</code></p>`)') == [
        "Two words",
        "Read",
    ]
    left = {
        text
        for path in sorted(CODE.rglob("*.js"))
        if path.parent != TEXTS
        for text in literal_texts(path.read_text("utf-8"))
    }
    assert left == {"palaver", "· palaver", "plv_…"}


def test_a_translation_has_the_same_values():
    for text, translated in translations().items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", translated)), text


def test_no_text_is_left_over():
    code = sources()
    made = re.compile(r"^(New|No) (note|prompt|notes|prompts|media|chats|characters)( yet)?$")
    plural = {
        "messages", "new messages", "turns", "steps", "results", "unread mentions", "open questions", "passages", "documents",
    }  # fmt: skip
    values = {"discuss", "implement", "review", "done", "closed", "archived", "open", "system", "light", "dark"}
    unused = {
        text
        for text in translations()
        if json.dumps(text, ensure_ascii=False) not in code and not re.search(rf"\b{re.escape(text)}: ", code)
    }
    reasons = {value for name, value in vars(receipts).items() if name.isupper()}
    assert {text for text in unused if not made.match(text)} <= plural | values | reasons


LEFT_IN_ENGLISH = """(texts) => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) found.push(node.textContent.trim());
    for (const element of document.querySelectorAll("[aria-label], [title], [placeholder]"))
        for (const name of ["aria-label", "title", "placeholder"]) found.push(element.getAttribute(name) ?? "");
    const german = new Set(Object.values(texts));
    return [...new Set(found)].filter((text) => text in texts && !german.has(text));
}"""


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Server]:
    """A server without the texts of other tests, which may be English words of the console."""
    with start_server(tmp_path) as server:
        yield server


def choose_german(page: Page) -> None:
    page.evaluate("location.hash = '#/settings'")
    page.get_by_role("button", name="Deutsch").click()
    expect(page.get_by_role("heading", name="Einstellungen")).to_be_visible()


@pytest.mark.thorough
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_every_view_is_german_when_that_is_chosen(window: Opening, fresh: Server, viewport: ViewportSize):
    with fresh.client() as rest:
        visit_every_view(window, fresh, rest, viewport)


def visit_every_view(window: Opening, fresh: Server, rest: httpx.Client, viewport: ViewportSize) -> None:
    thread = Thread(rest)
    message = thread.post("Guten Morgen", author="Zoe")
    rest.put(f"/api/messages/{message['id']}", json={"content": "Guten Tag"})
    agent = rest.post("/api/agents/register", json={"display_name": word("Kite")}).json()["agent_id"]
    asked = {"text": "Guten Abend?", "choices": ["ja", "nein"], "thread_id": thread.id, "wait_s": 0}
    rest.post("/api/questions", json=asked)
    note = rest.post("/api/notes", json={"title": word("Notiz "), "content": ""}).json()["id"]
    page = window("#/threads", at=fresh, viewport=viewport)
    choose_german(page)
    german = translations()
    for path, shown in (
        ("threads", ".threads a"),
        (f"threads/{thread.id}", ".message"),
        ("questions", ".question"),
        ("library/notes", ".cards a"),
        ("library/sessions", ".library"),
        ("library/notes?deleted=1", ".empty"),
        ("library/templates", ".cards section"),
        (f"open/notes/{note}", ".reader .beginning"),
        (f"open/notes/{note}?edit=1", ".sheet"),
        ("agents", ".people li"),
        (f"agents/{agent}", ".facts"),
        ("administration", ".keys-of"),
        ("applications", ".applications .empty"),
        ("overview", ".tiles li"),
        ("import", ".drop"),
        ("search", ".how"),
        ("search?q=Guten", ".hits"),
        ("log", ".log"),
        ("settings", ".settings"),
        ("nowhere", ".empty"),
    ):
        page.evaluate(f"location.hash = '#/{path}'")
        expect(page.locator(shown).first).to_be_visible()
        assert page.evaluate(LEFT_IN_ENGLISH, german) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"], path
    page.evaluate("location.hash = '#/search?q=Fehlanzeige'")
    expect(page.locator(".empty")).to_contain_text("Kein Dokument enthält diese Wörter.")
    page.evaluate("location.hash = '#/threads'")
    expect(page.locator(".threads a").first).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Tastenkürzel")).to_be_visible()
    assert page.evaluate(LEFT_IN_ENGLISH, german) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.locator(".palette li").first).to_be_visible()
    assert page.evaluate(LEFT_IN_ENGLISH, german) == []
    page.keyboard.press("Escape")
    page.evaluate("location.hash = '#/search'")
    page.get_by_role("button", name="Hilfe zur Suche").click()
    expect(page.locator("dialog")).to_contain_text("Akzente sind egal")
    assert page.evaluate(LEFT_IN_ENGLISH, german) == []


@both_sizes
def test_the_language_is_kept_and_can_be_changed_back(window: Opening, thread: Thread, viewport: ViewportSize):
    thread.post("hello", author="Ann")
    page = window(f"#/threads/{thread.id}", viewport=viewport)
    expect(page.locator(".day")).to_have_text("Today")
    choose_german(page)
    page.evaluate(f"location.hash = '#/threads/{thread.id}'")
    expect(page.locator(".day")).to_have_text("Heute")
    page.reload()
    expect(page.locator(".day")).to_have_text("Heute")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    page.evaluate("location.hash = '#/settings'")
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_a_german_browser_gets_german(window: Opening):
    page = window("#/threads", locale="de-AT")
    expect(page.get_by_role("link", name="Übersicht")).to_be_visible()
    page = window("#/threads", locale="fr-FR")
    expect(page.get_by_role("link", name="Overview")).to_be_visible()
