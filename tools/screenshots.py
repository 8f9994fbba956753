"""Makes docs/pictures: `make screenshots`. A server on the story of `palaver demo`, and a browser in front of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
PALAVER = [sys.executable, "-m", "palaver"]
SOUGHT = "pause retry wait"


@dataclass(frozen=True)
class Picture:
    name: str
    path: str
    there: str
    theme: str = "light"
    width: int = 1280
    height: int = 800
    top: str = ""
    """What stands at the top of what can be scrolled."""


def pictures(thread_id: str) -> list[Picture]:
    thread = f"#/threads/{thread_id}"
    return [
        Picture("thread", thread, ".message", height=860, top=".message[data-seq='2']"),
        Picture("thread-dark", thread, ".message", "dark", height=860, top=".message[data-seq='2']"),
        Picture("search", f"#/search?q={quote(SOUGHT)}", ".hit"),
        Picture("library", "#/library/notes", ".cards a"),
        Picture("overview", "#/overview", ".days", "dark"),
        Picture("phone", thread, ".message", "light", 390, 780),
    ]


@contextmanager
def demonstration() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as home, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        own = {"PALAVER_HOME": home, "PALAVER_PORT": str(port), "PALAVER_HEARTBEAT_TIMEOUT": "3600"}
        env = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")} | own
        subprocess.run([*PALAVER, "demo"], env=env, check=True)
        server = subprocess.Popen([*PALAVER, "serve", "--no-watch"], env=env, stdout=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            until = time.monotonic() + 30
            while not _is_ready(url):
                assert time.monotonic() < until, "the server did not start"
                time.sleep(0.1)
            yield url
        finally:
            server.terminate()
            server.wait()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def take(browser: Browser, url: str, picture: Picture) -> None:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.theme == "dark" else "light",
        locale="en-GB",
        timezone_id="UTC",
    )
    page: Page = context.new_page()
    page.add_init_script("localStorage.setItem('palaver.name', '\"Anna\"')")
    page.goto(f"{url}/{picture.path}")
    page.locator(picture.there).first.wait_for()
    page.evaluate("document.activeElement?.blur()")
    if picture.top:
        page.locator(picture.top).evaluate("top => (top.closest('.scroll').scrollTop = top.offsetTop - 70)")
    page.wait_for_timeout(400)  # nothing tells when the last letter is painted
    page.screenshot(path=FOLDER / f"{picture.name}.png", animations="disabled")
    context.close()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with demonstration() as url, sync_playwright() as playwright:
        topics = httpx.get(f"{url}/api/threads/glance").json()["threads"]
        pinned = next(one["thread"]["id"] for one in topics if (one["thread"]["metadata"] or {}).get("pinned"))
        httpx.post(f"{url}/api/knowledge/search", json={"query": SOUGHT})  # the first search of a server takes longer
        browser = playwright.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
        for picture in pictures(pinned):
            take(browser, url, picture)
        browser.close()


if __name__ == "__main__":
    main()
