"""A real browser in front of a real server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import (
    APIResponse,
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)
from tests.helpers import PATIENCE, Server, Thread, start_server

expect.set_options(timeout=PATIENCE * 1000)

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Without the parts around the page a browser needs a third of the time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "console" in item.path.parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for each test file. While it runs, this thread cannot run another event loop."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        message = "CHROMIUM NOT FOUND: the console is not tested. Install chromium, or run tools/ensure-chromium."
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of the console. One engine is enough: the console does not depend on it."""
    with start_server(tmp_path_factory.mktemp("console")) as server:
        yield server


@pytest.fixture(scope="session")
def rest(place: Server) -> Iterator[httpx.Client]:
    with place.client() as client:
        yield client


@pytest.fixture
def thread(rest: httpx.Client) -> Thread:
    return Thread(rest)


Opening = Callable[..., Page]


@pytest.fixture(scope="module")
def spare_pages(browser: Browser) -> list[Page]:
    """Pages that earlier tests have used. A page used again costs half as much as a new one, which starts a process."""
    return []


@pytest.fixture
def window(browser: Browser, place: Server, spare_pages: list[Page]) -> Iterator[Opening]:
    """Opens pages. An error in a page's console fails the test, and so does a request to another machine.

    A page without options may come from an earlier test: its storage, cookies and history are empty, but its cache is warm.
    """
    contexts: list[BrowserContext] = []
    reusable: list[tuple[Page, str]] = []
    listeners: list[tuple[Page, str, Callable[..., None]]] = []
    complaints: list[str] = []

    def opening(
        path: str = "",
        *,
        at: Server = place,
        context: BrowserContext | None = None,
        is_new: bool = False,
        **options: Any,
    ) -> Page:
        media = {name: options.pop(name) for name in ("color_scheme", "reduced_motion") if name in options}
        is_new = is_new or context is not None or bool(options)
        if spare_pages and not is_new:
            page = spare_pages.pop()
        else:
            if context is None:
                context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
                context.set_default_timeout(PATIENCE * 1000)
                if is_new:
                    contexts.append(context)
            page = context.new_page()
        if not is_new:
            reusable.append((page, at.url))

        def on_console(message: ConsoleMessage) -> None:
            is_network = "Failed to load resource" in message.text or "ERR_CONNECTION" in message.text
            if message.type == "error" and not is_network:
                complaints.append(message.text)

        def on_error(problem: Error) -> None:
            complaints.append(str(problem))

        def on_request(request: Request) -> None:
            if not request.url.startswith((at.url, "data:", "blob:")):
                complaints.append(request.url)

        def on_dialog(dialog: Dialog) -> None:
            complaints.append(f"a dialog: {dialog.message}")
            dialog.dismiss()

        for event, listener in (
            ("console", on_console),
            ("pageerror", on_error),
            ("request", on_request),
            ("dialog", on_dialog),
        ):
            page.on(event, listener)  # type: ignore[call-overload]
            listeners.append((page, event, listener))
        if media:
            page.emulate_media(**media)
        page.goto(f"{at.url}/{path}")
        if not is_new:
            page.context.new_cdp_session(page).send("Page.resetNavigationHistory")
        return page

    yield opening
    for page, event, listener in listeners:
        page.remove_listener(event, listener)
    for context in contexts:
        context.close()
    for page, url in reusable:
        if page.is_closed():
            page.context.close()
            continue
        for other in page.context.pages:
            if other is not page:
                other.close()
        page.unroute_all(behavior="ignoreErrors")
        page.emulate_media(color_scheme="null", reduced_motion="null")
        page.goto("about:blank")
        page.context.clear_cookies()
        storage = {"origin": url, "storageTypes": "all"}
        page.context.new_cdp_session(page).send("Storage.clearDataForOrigin", storage)
        spare_pages.append(page)
    assert complaints == []


class Slow:
    """Holds back the first response from these addresses until `arrives` is called."""

    def __init__(self, page: Page, addresses: str) -> None:
        self._given: tuple[Route, APIResponse] | None = None
        self._page = page
        page.route(addresses, self._asked)

    def _asked(self, route: Route) -> None:
        if self._given:
            route.continue_()
        else:
            self._given = route, route.fetch()

    def is_given(self) -> bool:
        self._page.wait_for_timeout(10)  # lets the page report its requests
        return self._given is not None

    def arrives(self) -> None:
        assert self._given
        route, answer = self._given
        with self._page.expect_response(route.request.url):
            route.fulfill(response=answer)


WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}

both_sizes = pytest.mark.parametrize(
    "viewport", [pytest.param(WIDE, id="wide"), pytest.param(PHONE, id="phone", marks=pytest.mark.thorough)]
)
"""Runs a test in a wide window, and with `make test-all` in one as narrow as a phone."""
both_themes = pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.thorough)])
