"""Fetch a web page or document (PALAVER_FETCH=on), from public hosts only.

A host name is resolved once for each connection, checked, and the connection goes to the checked address. So a name
that resolves to another host a moment later (DNS rebinding) gains nothing. Redirects are checked like the first URL.
"""

from __future__ import annotations

import asyncio
import io
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from palaver import __version__
from palaver.errors import Forbidden, Invalid, Refused, TooLarge, Unavailable
from palaver.importers import Unreadable
from palaver.importers.item import HEAD_BYTES, Item, native_id
from palaver.model.answers import answer_of
from palaver.model.library import ImportedPiece, Media, Note
from palaver.model.people import Caller
from palaver.model.requests import Line, Request
from palaver.operations.library.import_items import id_of, import_piece, source_of
from palaver.operations.operation import Route, operation
from palaver.settings import Settings
from palaver.store.workspaces import Workspace

if TYPE_CHECKING:
    import httpcore2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

SECONDS = 30.0
LARGEST = 64 * 1024 * 1024
MOST_REDIRECTS = 5
LONGEST_URL = 2_000

OFF = "Fetching is turned off. Set PALAVER_FETCH=on to allow it, or download the file and import it."
NOT_PUBLIC = "This address does not lead to a public host. PALAVER_FETCH_HOSTS can allow hosts of your own network."

# The media types that may be fetched, with the file extension that selects the reader.
TYPES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/x-markdown": ".md",
    "application/pdf": ".pdf",
    "application/epub+zip": ".epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "text/vtt": ".vtt",
    "application/x-subrip": ".srt",
    "application/json": ".json",
    "image/png": ".png",
}
_PLAIN = ("text/plain", "application/octet-stream", "binary/octet-stream", "")  # the file name may tell the type

_NEVER = [
    ipaddress.ip_network(net)
    for net in ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4",
                "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "5f00::/16", "fec0::/10")
]  # fmt: skip
_SAFE = "/%:@!$&'()*+,;=~-._?"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class FetchMedia(Request):
    url: Line
    """Address of a web page or document (http or https)."""


@dataclass(frozen=True)
class FetchedMedia:
    url: str
    source: str
    id: str | int | None
    title: str
    outcome: str


@operation(Route("POST", "/api/media/fetch"))
async def fetch_media(workspace: Workspace, caller: Caller, request: FetchMedia) -> FetchedMedia:
    """Fetch a web page or document and store its text. Needs PALAVER_FETCH=on. Fetching it again updates the item."""
    brought = await fetch(workspace.settings, request.url)
    outcome = await workspace.change(partial(import_piece, brought=brought))
    id = await workspace.read(partial(id_of, brought=brought))
    title = brought.piece.title if isinstance(brought.piece, Note | Media) else brought.piece.name
    return FetchedMedia(request.url, source_of(brought).name, id, title, outcome)


async def fetch(settings: Settings, url: str) -> ImportedPiece:
    """Fetch a URL and read it as a library item."""
    if not settings.fetch:
        raise Forbidden(OFF)
    try:
        async with asyncio.timeout(SECONDS):
            last, kind, raw = await _download(normalize(url), settings.fetch_hosts)
    except TimeoutError:
        raise Unavailable(f"Fetching took longer than {SECONDS:.0f} seconds. Try again later.") from None
    return await asyncio.to_thread(_read, url, last, kind, raw)


# Read the response


def _read(url: str, last: str, kind: str, raw: bytes) -> ImportedPiece:
    from palaver.importers.registry import LIBRARY  # importing all readers takes time

    item = Item(_file_name(last, kind), len(raw), None, lambda: io.BytesIO(raw))
    why = "it has no readable text"
    for reader in LIBRARY:
        if not reader.recognises(item, raw[:HEAD_BYTES]):
            continue
        try:
            for found in reader.pieces(item):
                if isinstance(found, ImportedPiece):
                    piece = found.piece
                    if isinstance(piece, Note):
                        piece = answer_of(Media, piece, media_type="markdown")
                    if isinstance(piece, Media):
                        piece = replace(piece, url=url)
                    return ImportedPiece(native_id(f"url:{url}") or "url", piece)
                why = found.why
        except Unreadable as problem:
            why = str(problem)
        break
    raise Refused(f"The page was not stored: {why}.")


def _file_name(url: str, kind: str) -> str:
    """A file name for the content; its extension selects the reader."""
    parts = urlsplit(url)
    last = unquote(parts.path.rstrip("/").rpartition("/")[2])[-200:] or parts.hostname or "page"
    ending = next((e for e in (".md", ".srt", ".vtt", ".json", ".prompt.md") if last.lower().endswith(e)), None)
    if kind in _PLAIN and ending:
        return last
    ending = TYPES.get(kind, "." + last.rpartition(".")[2].lower() if kind in _PLAIN else "")
    if ending not in TYPES.values():
        raise Refused(f"Files of the type {kind[:80] or 'unknown'} cannot be fetched.")
    return last if last.lower().endswith(ending) else last + ending


# Download


async def _download(url: str, own_hosts: Iterable[str]) -> tuple[str, str, bytes]:
    """The URL after redirects, the media type, and the content."""
    for _ in range(MOST_REDIRECTS + 1):
        async with request(url, own_hosts, seconds=10.0) as response:
            decoded = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers]
            found = {name.lower(): value for name, value in decoded}
            if response.status in (301, 302, 303, 307, 308) and found.get("location"):
                url = normalize(urljoin(url, found["location"]))
                continue
            if response.status != 200:
                raise Refused(f"The server answered with status {response.status}.")
            kind = found.get("content-type", "").partition(";")[0].strip().lower()
            _file_name(url, kind)
            if found.get("content-encoding", "identity").lower() not in ("identity", ""):
                raise Refused("The server sent a compressed answer although none was requested.")
            return url, kind, await read_body(response, LARGEST)
    raise Refused(f"The address has more than {MOST_REDIRECTS} redirects.")


@asynccontextmanager
async def request(
    url: str, own_hosts: Iterable[str], *, seconds: float, sent: bytes | None = None, **headers: str
) -> AsyncIterator[httpcore2.Response]:
    """The response of a public host, or of one of these own hosts. Its body is not read yet. Redirects are not
    followed. With a body that is `sent` it is a POST request."""
    import httpcore2

    backend = public_only(own_hosts)
    named = {"user-agent": f"palaver/{__version__}", "accept": "*/*", "accept-encoding": "identity"} | headers
    timeout = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
    options: Any = {"headers": [*named.items()], "content": sent, "extensions": {"timeout": timeout}}
    try:
        async with (
            httpcore2.AsyncConnectionPool(ssl_context=_authorities(), network_backend=backend) as pool,
            pool.stream("GET" if sent is None else "POST", url, **options) as response,
        ):
            yield response
    except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError, ValueError):
        raise Refused("The address cannot be reached, or its server sent an invalid answer.") from None


@cache
def _authorities() -> ssl.SSLContext:
    """The certificate authorities. Reading them takes 50 ms."""
    import httpcore2

    return httpcore2.default_ssl_context()


async def read_body(response: httpcore2.Response, most: int) -> bytes:
    raw = bytearray()
    async for piece in response.aiter_stream():
        raw += piece
        if len(raw) > most:
            raise TooLarge(f"The file is larger than {most:,} bytes.")
    return bytes(raw)


def normalize(url: str) -> str:
    """The URL with IDNA host and percent-encoding. Refuses anything but plain http and https URLs."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        name = (host or "").encode("idna").decode() if host and not host.isascii() else host or ""
    except ValueError:
        raise Refused("This is not an address that can be fetched.") from None
    if len(url) > LONGEST_URL or any(sign <= " " or sign == "\x7f" for sign in url) or "\\" in url:
        raise Refused("This is not an address that can be fetched.")
    if parts.scheme not in ("http", "https") or not host:
        raise Refused("Only http:// and https:// addresses can be fetched.")
    if parts.username is not None or parts.password is not None:
        raise Refused("Addresses with a user name or password cannot be fetched.")
    if port is not None and port not in (80, 443) and port < 1024:
        raise Refused("Only port 80, port 443 and ports from 1024 can be fetched from.")
    where = (f"[{name}]" if ":" in name else name) + (f":{port}" if port is not None else "")
    return urlunsplit((parts.scheme, where, quote(parts.path, safe=_SAFE) or "/", quote(parts.query, safe=_SAFE), ""))


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, also behind IPv6 forms of IPv4 addresses."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local or address.packed[:12] == bytes(12):
            return False
    if address.is_multicast or address.is_private or address.is_link_local or address.is_reserved:
        return False
    return address.is_global and not any(address.version == net.version and address in net for net in _NEVER)


async def addresses(host: str, port: int, own_hosts: Iterable[str]) -> list[str]:
    """The addresses of a host. Refused unless all are public, or it is an own one; unknown names get the same error."""
    is_own = not {host.lower(), f"{host.lower()}:{port}"}.isdisjoint(one.lower() for one in own_hosts)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        texts = list(dict.fromkeys(str(info[4][0]) for info in found))
        parsed = [ipaddress.ip_address(text.partition("%")[0]) for text in texts]
    except (OSError, ValueError, UnicodeError):
        raise Refused(NOT_PUBLIC) from None
    if not texts or not (is_own or all(map(is_public, parsed))):
        raise Refused(NOT_PUBLIC)
    return texts


def public_only(own_hosts: Iterable[str]) -> httpcore2.AsyncNetworkBackend:
    """Connections to public hosts, and to hosts of the own network that the settings allow."""
    import httpcore2

    class Guarded(httpcore2.AnyIOBackend):
        """Connects only to addresses that were checked."""

        async def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,
            socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
        ) -> httpcore2.AsyncNetworkStream:  # fmt: skip
            problem: Exception | None = None
            for address in await addresses(host, port, own_hosts):
                try:
                    return await super().connect_tcp(address, port, timeout)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as found:
                    problem = found
            raise problem or httpcore2.ConnectError()

        async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
            raise Invalid("Unix sockets cannot be fetched from.")

    return Guarded()
