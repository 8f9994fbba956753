"""The consent page of OAuth, and the list of connected applications, in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.helpers import Server, start_server, started_with, word
from tests.oauth.flow import Person, Program, bearer, parameters

SITE = "https://site.example/"
"""Another site, which sends the browser to palaver and gets it back."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("consent")
    with start_server(home, PALAVER_AUTH="token", PALAVER_DATABASE_URL="") as server:
        yield server


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context()
    made.route(f"{SITE}**", lambda route: route.fulfill(body="<h1>the other site</h1>", content_type="text/html"))
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    complaints: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda problem: complaints.append(str(problem)))
    page.on("console", lambda said: complaints.extend([said.text] if said.type == "error" else []))
    yield page
    assert [said for said in complaints if "Failed to load resource" not in said] == []


def ask(page: Page, program: Program, **more: str) -> None:
    """The other site sends the browser to the server, as applications do."""
    page.goto(SITE)
    address = f"{program.server.url}/authorize?" + str(program.asks(**more).request.url.query, "ascii")
    page.evaluate("address => { location.href = address }", address)


def token(server: Server, name: str, *scopes: str) -> str:
    """A token of a person. It is made by another process, as this one runs the loop of the browser."""
    made = started_with(server.env, "user", "add", name, "--scope", ",".join(scopes or ("read", "write")))
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def log_in(page: Page, secret: str) -> None:
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()


def test_a_person_logs_in_allows_an_application_and_revokes_it(guarded: Server, page: Page):
    name = word("ann")
    program = Program(guarded, f"{SITE}callback", name="Scribe <b>of the team</b>")
    ask(page, program, scope="read write admin")
    log_in(page, token(guarded, name))
    expect(page.get_by_role("heading")).to_have_text("Connect Scribe <b>of the team</b> to palaver?")
    expect(page.locator(".consent")).to_contain_text("You go back to site.example.")
    expect(page.get_by_label("Read:")).to_be_checked()
    expect(page.get_by_label("Administer:")).to_be_disabled()
    page.get_by_label("Write:").uncheck()
    page.get_by_role("button", name="Allow").click()
    page.wait_for_url(f"{SITE}callback?**")
    back = parameters(page.url)
    assert (back["state"], back["iss"]) == ("some state", guarded.url)
    tokens = program.exchange(back["code"]).json()
    assert tokens["scope"] == "read"

    page.goto(guarded.url)
    page.get_by_label(f"Account: {name}").click()
    page.get_by_role("menuitem", name="Connected applications").click()
    expect(page.locator("tbody tr")).to_contain_text("Scribe <b>of the team</b>")
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No applications yet")).to_be_visible()
    with bearer(guarded, tokens["access_token"]) as api:
        assert api.post("/mcp", json={}).status_code == 401


def test_who_is_logged_in_is_asked_at_once_and_can_say_no(guarded: Server, page: Page):
    page.goto(guarded.url)
    log_in(page, token(guarded, word("bob")))
    expect(page.get_by_label("New thread")).to_be_visible()
    program = Program(guarded, f"{SITE}callback")
    ask(page, program)
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url(f"{SITE}callback?**")
    assert parameters(page.url)["error"] == "access_denied"


def test_a_request_that_is_not_valid_leads_nowhere(guarded: Server, page: Page):
    page.goto(f"{guarded.url}/#/connect?client_id=nobody&redirect_uri=https%3A%2F%2Fevil.example%2F")
    log_in(page, token(guarded, word("cleo")))
    expect(page.get_by_role("alert")).to_contain_text("This request for access is not valid")
    expect(page.get_by_role("button", name="Allow")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_consent_page_fits_a_phone_in_both_themes(guarded: Server, browser: Browser, scheme: str, tmp_path: Path):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 390, "height": 844})  # type: ignore[arg-type]
    page = context.new_page()
    person = token(guarded, word("dora"), "read", "write", "admin")
    program = Program(guarded, f"{SITE}callback", name="A very long name of an application that goes on and on and on")
    page.goto(program.page(scope="read write admin", resource=guarded.url))
    log_in(page, person)
    expect(page.get_by_role("button", name="Allow")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    expect(page.get_by_label("Administer:")).not_to_be_checked()
    folder = Path(os.environ.get("PALAVER_PICTURES", tmp_path))
    page.screenshot(path=folder / f"consent-{scheme}-phone.png")
    page.set_viewport_size({"width": 1100, "height": 800})
    page.screenshot(path=folder / f"consent-{scheme}.png")
    Program(guarded, name="Scribe").connect(Person(guarded, person))
    page.goto(f"{guarded.url}/#/applications")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.screenshot(path=folder / f"applications-{scheme}.png")
    context.close()
