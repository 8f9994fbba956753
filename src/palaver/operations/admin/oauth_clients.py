"""OAuth clients: what they say of themselves, and the addresses to which people may be sent back.

A client whose id is an https address says there who it is (client ID metadata document). Everybody can make the server
read an address, so it reads little: from public hosts, without redirects, a few kilobytes in a few seconds, and few
addresses at once, fewer still for one caller. Addresses that failed are not read again for a minute.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import orjson

from palaver.errors import PalaverError
from palaver.model.admin.oauth import OAuthClient
from palaver.settings import LOOPBACK

LARGEST = 16 * 1024
SECONDS = 5.0
MOST_AT_ONCE, MOST_OF_ONE_CALLER = 16, 2
PAUSE_SECONDS = 60.0
MOST_FAILURES = 1_000
LONGEST_NAME = 80
MOST_REDIRECT_URIS = 20

_running: list[str] = []
"""The addresses of the callers whose documents are being read."""
_failed: dict[str, float] = {}


async def read_document(url: str, own_hosts: tuple[str, ...], caller: str) -> OAuthClient | None:
    """The client that the document at this address describes. None if there is no valid document."""
    from palaver.operations.library import web_fetch  # a slow import

    if not is_document_address(url) or len(_running) >= MOST_AT_ONCE or _running.count(caller) >= MOST_OF_ONE_CALLER:
        return None
    if time.monotonic() - _failed.get(url, -PAUSE_SECONDS) < PAUSE_SECONDS:
        return None
    _running.append(caller)
    try:
        async with asyncio.timeout(SECONDS):
            async with web_fetch.request(url, own_hosts, seconds=SECONDS, accept="application/json") as response:
                is_there = response.status == 200
                client = client_of(url, await web_fetch.read_body(response, LARGEST)) if is_there else None
    except (TimeoutError, PalaverError):
        client = None
    finally:
        _running.remove(caller)
    if client is None:
        if len(_failed) >= MOST_FAILURES:
            _failed.clear()
        _failed[url] = time.monotonic()
    return client


def is_document_address(url: str) -> bool:
    """An https address with a path, and nothing else but a query."""
    from palaver.operations.library.web_fetch import normalize  # a slow import

    try:
        parts = urlsplit(url)
        is_plain = parts.username is None and parts.password is None and not parts.fragment and bool(parts.hostname)
        return parts.scheme == "https" and is_plain and parts.path not in ("", "/") and normalize(url) == url
    except (ValueError, PalaverError):
        return False


def client_of(url: str, raw: bytes) -> OAuthClient | None:
    """The client that a document describes, if the document names its own address."""
    try:
        given: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(given, dict) or given.get("client_id") != url or "client_secret" in given:
        return None
    if given.get("token_endpoint_auth_method", "none") != "none":
        return None
    uris = acceptable_redirect_uris(given.get("redirect_uris"))
    return OAuthClient(url, display_name(given.get("client_name")) or urlsplit(url).netloc, uris) if uris else None


def display_name(given: object) -> str:
    """A name that a program gave itself, in one line without signs that hide or turn text."""
    if not isinstance(given, str):
        return ""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in given).split())[:LONGEST_NAME].strip()


def acceptable_redirect_uris(given: object) -> list[str]:
    """The addresses in a list to which people may be sent back."""
    listed = given if isinstance(given, list) else []
    return [uri for uri in listed[:MOST_REDIRECT_URIS] if isinstance(uri, str) and is_redirect_uri(uri)]


def is_redirect_uri(uri: str) -> bool:
    """https, or http to this computer (RFC 8252). No fragment and no password."""
    try:
        parts = urlsplit(uri)
        is_plain = parts.username is None and parts.password is None and "#" not in uri and bool(parts.hostname)
        is_plain = is_plain and parts.port != 0  # a port that is no number raises ValueError
        is_local = parts.scheme == "http" and parts.hostname in LOOPBACK
    except ValueError:
        return False
    has_good_signs = len(uri) <= 2_000 and uri.isascii() and uri.isprintable() and not set(' "<>\\^`{|}') & set(uri)
    return has_good_signs and is_plain and (parts.scheme == "https" or is_local)


def fits_redirect_uri(registered: str, asked: str) -> bool:
    """Whether a client that registered one address may ask for the other: the same one, or another loopback port."""
    if registered == asked:
        return True
    one, other = urlsplit(registered), urlsplit(asked)
    is_local = one.scheme == other.scheme == "http" and one.hostname in LOOPBACK and is_redirect_uri(asked)
    return is_local and (one.hostname, one.path or "/", one.query) == (other.hostname, other.path or "/", other.query)
