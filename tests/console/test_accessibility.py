"""axe-core finds nothing to complain about: every view and dialog, in both themes, in a wide window and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect
from tests.console.sessions import coding_session, record
from tests.helpers import PATIENCE, Server, start_server, started
from tests.oauth.flow import Person, Program

AXE = (Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js").read_text("utf-8")
STILL = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("* { transition: none !important; animation: none !important }");
    document.adoptedStyleSheets.push(sheet);
}"""
"""Colours change at once: halfway between two themes nothing can be read."""
RUN = """async (rules) => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}\\n` + nodes.slice(0, 5)
        .map((node) => `    ${node.target.join(" ")}\\n    ${node.html.slice(0, 200)}\\n    ${node.failureSummary}`).join("\\n"));
}"""
WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
"""The rules whose result depends on the theme."""
EMPTY = "empty"
"""A workspace without data."""


@dataclass(frozen=True)
class Story:
    """A server with the story of `palaver demo`, where people log in."""

    server: Server
    admin: str
    newcomer: str
    """The token of a person in the empty workspace."""
    thread: str
    session: str
    note: str
    consent: str


def run_command(home: Path, *command: str) -> str:
    done = started(home, *command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    home = tmp_path_factory.mktemp("story")
    run_command(home, "demo")
    run_command(home, "workspace", "create", EMPTY)
    admin = run_command(home, "user", "add", "anna", "--scope", "read,write,admin")
    newcomer = run_command(home, "user", "add", "ben", "--workspace", EMPTY, "--scope", "read,write,admin")
    with start_server(home, PALAVER_AUTH="token") as server, server.client() as api:
        api.headers["authorization"] = f"Bearer {admin}"
        glance = api.get("/api/threads/glance").json()["threads"]
        pinned = next(one["thread"]["id"] for one in glance if (one["thread"]["metadata"] or {}).get("pinned"))
        api.post(f"/api/threads/{pinned}/messages", json={"content": "@anna please look at this"})
        session = record(api, "coder", "retry", coding_session())
        [note, *_] = api.get("/api/notes").json()
        deleted = api.post("/api/notes", json={"title": "An old plan", "content": "x", "keywords": ["old"]}).json()
        api.delete(f"/api/notes/{deleted['id']}")
        Program(server, name="Scribe").connect(Person(server, admin))
        consent = Program(server, name="Reader").page().partition("#")[2]
        yield Story(server, admin, newcomer, pinned, session, f"#/open/notes/{note['id']}", f"#{consent}")


def open_page(browser: Browser, story: Story, token: str | None) -> Page:
    page = browser.new_context(viewport=WIDE, locale="en-GB").new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(f"{story.server.url}/")
    if token:
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_label("New thread")).to_be_visible()
    page.evaluate(AXE)
    page.evaluate(STILL)
    return page


def check(page: Page) -> None:
    """Fail with a list of what axe finds."""
    found: dict[str, list[str]] = {}
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        expect(page.locator("main:visible, [role=main]:visible")).to_have_count(
            1
        )  # the list of threads knows the width
        page.emulate_media(color_scheme="light")
        found[f"light, {size['width']} px"] = page.evaluate(RUN)
        page.emulate_media(color_scheme="dark")
        found[f"dark, {size['width']} px"] = page.evaluate(RUN, COLOUR_RULES)
    page.set_viewport_size(WIDE)
    assert not any(found.values()), "\n".join(
        f"== {where}\n" + "\n".join(violations) for where, violations in found.items() if violations
    )


@pytest.fixture(scope="module")
def visited(browser: Browser, story: Story) -> Page:
    """One page for all views, as an admin sees them. Each test only changes what is after the #."""
    return open_page(browser, story, story.admin)


def go(page: Page, address: str, awaited: str) -> None:
    if page.locator("dialog[open]").count():
        page.keyboard.press("Escape")
        expect(page.locator("dialog[open]")).to_have_count(0)
    page.evaluate("address => { location.hash = address }", address)
    expect(page.locator(awaited).first).to_be_visible()
    expect(page.locator(".waiting")).to_have_count(0)


VIEWS = {
    "threads": ("#/threads", ".threads a"),
    "search": ("#/search?q=pause+retry", ".hit"),
    "search without results": ("#/search?q=xylophonist", ".empty"),
    "questions": ("#/questions", "main h1"),
    "mentions": ("#/mentions", "main h1"),
    "library": ("#/library/notes", ".cards a"),
    "sessions": ("#/library/sessions", ".cards a"),
    "characters": ("#/library/characters", ".cards a"),
    "media": ("#/library/media", ".cards a"),
    "library filtered": ("#/library/media?text=nothing", ".empty"),
    "deleted notes": ("#/library/notes?deleted=1", ".cards .gone"),
    "templates": ("#/library/templates", ".cards section"),
    "new note": ("#/library/notes/new", "textarea"),
    "agents": ("#/agents", ".people li"),
    "one agent": ("#/agents/rook", ".facts"),
    "administration": ("#/administration", ".keys-of tbody tr"),
    "overview": ("#/overview", ".heat"),
    "import": ("#/import", "main h1"),
    "applications": ("#/applications", "main td"),
    "settings": ("#/settings", ".settings dl"),
    "audit log": ("#/log", "main h1"),
    "page not found": ("#/nowhere", ".empty"),
}


@pytest.mark.examples(6)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view(visited: Page, view: str):
    go(visited, *VIEWS[view])
    check(visited)


def test_a_thread_and_its_menus(visited: Page, story: Story):
    go(visited, f"#/threads/{story.thread}", ".message")
    check(visited)
    visited.locator(".message").first.hover()
    visited.locator(".message").first.get_by_label("React", exact=True).click()
    check(visited)
    visited.keyboard.press("Escape")


def test_the_charts_of_the_overview_as_tables(visited: Page):
    go(visited, "#/overview", ".heat")
    for title in ("Messages in the last year", "Messages per day", "Authors over time"):
        visited.get_by_role("button", name=f"Show as table: {title}").click()
    check(visited)


def test_a_session_as_a_timeline(visited: Page, story: Story):
    go(visited, story.session, ".step")
    check(visited)


def test_a_note(visited: Page, story: Story):
    go(visited, story.note, ".prose")
    check(visited)


def delete_thread(page: Page) -> None:
    page.get_by_label("Thread menu").click()
    page.get_by_role("menuitem", name="Delete").click()


def new_thread_with_rules(page: Page) -> None:
    page.keyboard.press("n")
    page.get_by_text("Template and rules").click()


def rules(page: Page) -> None:
    page.get_by_label("Thread menu").click()
    page.get_by_role("menuitem", name="Rules").click()


DIALOGS: dict[str, Callable[[Page], None]] = {
    "new thread": lambda page: page.keyboard.press("n"),
    "new thread with rules": new_thread_with_rules,
    "rules of a thread": rules,
    "command palette": lambda page: page.keyboard.press("Control+k"),
    "shortcuts": lambda page: page.keyboard.press("?"),
    "delete a thread": delete_thread,
}


@pytest.mark.examples(2)
@pytest.mark.parametrize("dialog", DIALOGS)
def test_a_dialog(visited: Page, story: Story, dialog: str):
    go(visited, f"#/threads/{story.thread}", ".message")
    visited.evaluate("document.activeElement.blur()")
    DIALOGS[dialog](visited)
    expect(visited.locator("dialog[open]")).to_be_visible()
    check(visited)


def test_the_page_where_an_application_asks_for_access(visited: Page, story: Story):
    go(visited, story.consent, "main form")
    check(visited)


def test_the_login(browser: Browser, story: Story):
    page = open_page(browser, story, None)
    page.get_by_label("Token").fill("plv_nonsense")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    check(page)
    page.context.close()


def test_an_empty_workspace(browser: Browser, story: Story):
    page = open_page(browser, story, story.newcomer)
    for address, awaited in (
        ("#/threads", ".welcome"),
        ("#/agents", ".empty"),
        ("#/overview", ".overview .empty"),
        ("#/library/notes", ".empty"),
    ):
        go(page, address, awaited)
        check(page)
    page.context.close()


def test_axe_finds_a_button_without_a_name(visited: Page):
    """The checks above would fail if there were something to find."""
    go(visited, *VIEWS["settings"])
    visited.evaluate("document.querySelector('main').append(document.createElement('button'))")
    with pytest.raises(AssertionError, match="button-name"):
        check(visited)
    visited.evaluate("document.querySelector('main > button:last-child').remove()")
