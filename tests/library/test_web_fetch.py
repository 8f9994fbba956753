"""Fetching from the web: switched on by hand, from public hosts only, whatever a name or a redirect says."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.archive.test_cli_import import Desk
from tests.conftest import Engine
from tests.helpers import Server, start_server, word
from tests.importers.documents import pdf

from palaver.errors import Forbidden, PalaverError, Refused, TooLarge, Unavailable
from palaver.model.library import ImportedPiece, Media
from palaver.operations.library import web_fetch
from palaver.settings import Settings

Answer = Callable[[BaseHTTPRequestHandler], None]


class Site:
    """A web server on this machine, and what it was asked."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[tuple[str, str | None]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, self.headers["Host"]))
                site.pages.get(self.path.partition("?")[0], missing)(self)

            def log_message(self, *_: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = Settings(fetch=True, fetch_hosts=(f"127.0.0.1:{self.port}",))

    def page(self, path: str, kind: str, body: bytes, **headers: str) -> str:
        self.pages[path] = lambda handler: reply(handler, 200, body, {"content-type": kind} | headers)
        return self.url + path

    def redirect(self, path: str, to: str, status: int = 302) -> str:
        self.pages[path] = lambda handler: reply(handler, status, b"", {"location": to})
        return self.url + path

    def fetch(self, url: str) -> ImportedPiece:
        return anyio.run(web_fetch.fetch, self.settings, url)


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    if "content-length" not in headers:
        handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def odd(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"nonsense\r\n\r\n")


def missing(handler: BaseHTTPRequestHandler) -> None:
    reply(handler, 404, b"", {})


@contextmanager
def running() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        site.server.server_close()
        thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as site:
        yield site


def refusal(work: Callable[[], Any], kind: type[PalaverError] = Refused) -> str:
    with pytest.raises(kind) as problem:
        work()
    return problem.value.message


# What may be reached

PRIVATE = [
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "100.100.100.200", "0.0.0.0", "0.1.2.3", "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1",
    "198.51.100.1", "203.0.113.1", "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "fec0::1", "100::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused(address: str):
    assert not web_fetch.is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001::1", "64:ff9b::101:101", "::ffff:1.1.1.1"])  # fmt: skip
def test_a_public_address_is_none_of_those(address: str):
    assert web_fetch.is_public(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4))
def test_a_disguise_is_judged_as_what_it_hides(inner: ipaddress.IPv4Address):
    expected = web_fetch.is_public(inner)
    for disguise in (f"::ffff:{inner}", f"64:ff9b::{inner}"):
        assert web_fetch.is_public(ipaddress.ip_address(disguise)) == expected


# The names of this machine that every resolver knows, and the ways to write its address.
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0", "[::]", "169.254.169.254", "no-such-host.invalid"])  # fmt: skip
def test_no_way_to_write_it_leads_to_this_machine_and_unknown_names_are_refused_in_the_same_words(
    site: Site, host: str
):
    site.page("/x.html", "text/html", b"<p>secret")
    site.settings = Settings(fetch=True)
    assert refusal(lambda: site.fetch(f"http://{host}:{site.port}/x.html")) == web_fetch.NOT_PUBLIC
    assert site.asked == []


def test_a_redirect_is_looked_at_like_the_first_address(site: Site):
    with running() as inner:
        inner.page("/secret.html", "text/html", b"<p>secret")
        for n, status in enumerate((301, 302, 303, 307, 308)):
            url = site.redirect(f"/{n}", f"{inner.url}/secret.html", status)
            assert refusal(lambda url=url: site.fetch(url)) == web_fetch.NOT_PUBLIC  # type: ignore[misc]
        assert inner.asked == []
    for to in ("file:///etc/passwd", "ftp://example.org/x", "gopher://127.0.0.1:70/_x"):
        assert "Only http" in refusal(lambda to=to: site.fetch(site.redirect("/r", to)))  # type: ignore[misc]


def test_a_name_that_changes_its_meaning_gains_nothing(site: Site, monkeypatch: pytest.MonkeyPatch):
    """What was looked at is what is connected to: the name is resolved once for each connection."""
    resolved: list[str] = []
    real = web_fetch.addresses

    async def watched(host: str, port: int, own_hosts: Iterable[str]) -> list[str]:
        resolved.append(host)
        return await real(host, port, own_hosts)

    monkeypatch.setattr(web_fetch, "addresses", watched)
    site.settings = Settings(fetch=True, fetch_hosts=("localhost",))
    url = site.page("/x.html", "text/html", b"<p>words").replace("127.0.0.1", "localhost")
    site.fetch(url)
    assert resolved == ["localhost"]
    assert site.asked == [("/x.html", f"localhost:{site.port}")]


@pytest.mark.parametrize(
    "url",
    ["", "x", "file:///etc/passwd", "ftp://example.org/", "//example.org/", "http://", "http:///x", "http://a:b@example.org/", "http://@example.org/",
     "http://example.org:22/", "http://example.org:99999/", "http://exa mple.org/", "http://example.org/\r\nX: y", "http://[::1", "http://example.org\\@127.0.0.1/",
     "https://" + "x" * 3000],
)  # fmt: skip
def test_what_is_no_web_address_is_refused_at_once(site: Site, url: str):
    assert refusal(lambda: site.fetch(url))


def test_it_is_off_unless_switched_on(site: Site):
    site.settings = Settings()
    assert refusal(lambda: site.fetch(site.url), Forbidden) == web_fetch.OFF


# What comes back


def test_pages_and_documents_become_media_with_their_address(site: Site):
    url = site.page("/ivy.html", "text/html; charset=utf-8", b"<title>Ivy</title><p>It climbs.")
    assert site.fetch(url) == ImportedPiece(
        f"url:{url}", Media(title="Ivy", media_type="html", content="It climbs.", url=url)
    )
    url = site.page("/paper", "application/pdf", pdf("A page."))
    assert site.fetch(url).piece == Media(title="paper", media_type="pdf", content="A page.", url=url)
    url = site.page("/Read%20me.md", "text/plain", b"---\ntags: a\n---\ntext")
    assert site.fetch(url).piece == Media(
        title="Read me", media_type="markdown", content="text", url=url, keywords=("a",)
    )
    site.page("/t%C3%A4st.txt", "text/plain", b"text")
    assert site.fetch(f"{site.url}/täst.txt#part").piece == Media(title="täst", media_type="txt", content="text", url=f"{site.url}/täst.txt#part")  # fmt: skip


def test_redirects_are_followed_but_not_without_end(site: Site):
    site.page("/there.html", "text/html", b"<p>words")
    url = site.redirect("/here", "/there.html")
    assert site.fetch(url).origin == f"url:{url}"
    assert "redirects" in refusal(lambda: site.fetch(site.redirect("/round", "/round")))
    assert len([path for path, _ in site.asked if path == "/round"]) == web_fetch.MOST_REDIRECTS + 1


@pytest.mark.parametrize("kind", ["video/mp4", "application/zip", "application/octet-stream", "", "text/css"])
def test_other_types_are_not_fetched(site: Site, kind: str):
    assert "cannot be fetched" in refusal(lambda: site.fetch(site.page("/x.bin", kind, b"x")))


def test_errors_packed_answers_and_empty_pages_are_told(site: Site):
    assert "404" in refusal(lambda: site.fetch(f"{site.url}/none"))
    packed = site.page("/p.html", "text/html", b"x", **{"content-encoding": "gzip"})
    assert "compressed" in refusal(lambda: site.fetch(packed))
    assert "nothing is written" in refusal(lambda: site.fetch(site.page("/e.html", "text/html", b"<p>")))
    assert "damaged" in refusal(lambda: site.fetch(site.page("/e.pdf", "application/pdf", b"%PDF-1.4")))
    site.pages["/odd"] = odd
    assert "cannot be reached" in refusal(lambda: site.fetch(f"{site.url}/odd"))


def test_too_much_and_too_slow_is_ended(site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(web_fetch, "LARGEST", 1000)
    assert refusal(lambda: site.fetch(site.page("/x.txt", "text/plain", b"x" * 2000)), TooLarge)
    monkeypatch.setattr(web_fetch, "SECONDS", 0.3)
    ended = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        reply(handler, 200, b"", {"content-type": "text/plain", "content-length": "1000000"})
        ended.wait(30)

    site.pages["/slow.txt"] = drip
    assert "longer than" in refusal(lambda: site.fetch(f"{site.url}/slow.txt"), Unavailable)
    ended.set()


# Through the doors


def test_an_address_is_imported_from_the_terminal(tmp_path: Path, database_url: str, site: Site):
    desk = Desk(tmp_path / "home", database_url)
    url = site.page("/ivy.html", "text/html", b"<title>Ivy</title><p>It climbs.")
    on = {"PALAVER_FETCH": "on", "PALAVER_FETCH_HOSTS": f"127.0.0.1:{site.port}"}
    result = desk.run("import", url)
    assert result.exit_code == 1
    assert "PALAVER_FETCH=on" in result.stderr
    result = desk.run("import", url, PALAVER_FETCH="on")
    assert result.exit_code == 1
    assert "public host" in result.stderr
    assert desk.bring(url, **on)["kinds"] == {"media": {"new": 1, "changed": 0, "unchanged": 0}}
    assert desk.bring(url, **on)["kinds"] == {"media": {"new": 0, "changed": 0, "unchanged": 1}}
    site.page("/ivy.html", "text/html", b"<title>Ivy</title><p>It climbs high.")
    assert desk.bring(url, **on)["kinds"] == {"media": {"new": 0, "changed": 1, "unchanged": 0}}
    (media,) = desk.json("media", "list")
    assert (media["title"], media["url"]) == ("Ivy", url)


@pytest.fixture(scope="module")
def far() -> Iterator[Site]:
    with running() as site:
        yield site


@pytest.fixture(scope="module")
def on(engine: Engine, tmp_path_factory: pytest.TempPathFactory, far: Site) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"fetch-{engine.name}")
    hosts = f"127.0.0.1:{far.port}"
    with start_server(
        home, PALAVER_DATABASE_URL=engine.fresh(), PALAVER_FETCH="on", PALAVER_FETCH_HOSTS=hosts
    ) as server:
        yield server


def test_an_address_is_fetched_over_rest(on: Server, far: Site):
    unique = word()
    url = far.page(f"/{unique}.html", "text/html", f"<title>On {unique}</title><p>words".encode() + unique.encode())
    with on.client() as web:
        first = web.post("/api/media/fetch", json={"url": url})
        assert first.status_code == 200
        told = first.json()
        assert {**told, "id": 0} == {"url": url, "source": "media", "id": 0, "title": f"On {unique}", "outcome": "new"}
        media = web.get(f"/api/media/{told['id']}").json()
        assert (media["url"], media["media_type"]) == (url, "html")
        assert web.post("/api/media/fetch", json={"url": url}).json() == told | {"outcome": "unchanged"}
        refused = web.post("/api/media/fetch", json={"url": on.url + "/api/status"})
        assert (refused.status_code, refused.json()) == (400, {"detail": web_fetch.NOT_PUBLIC})
        assert web.post("/api/media/fetch", json={}).status_code == 422


def test_over_rest_it_is_off_unless_switched_on(server: Server, far: Site):
    with server.client() as web:
        answer = web.post("/api/media/fetch", json={"url": far.page("/x.html", "text/html", b"<p>x")})
        assert (answer.status_code, answer.json()) == (403, {"detail": web_fetch.OFF})
