"""The guard stands before every HTTP and WebSocket door.

It refuses foreign Host and Origin headers (a web page that points its name at this machine gets nothing), finds out who
is calling, and puts the safety headers on every answer.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import re
import time
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from palaver.app import House, LoginEnded
from palaver.doors.http.login import admitted
from palaver.doors.mcp import unavailable
from palaver.doors.visit import Visit, admit, bearer
from palaver.errors import Forbidden, PalaverError, Unauthorized, Unavailable
from palaver.settings import LOOPBACK, Settings

log = logging.getLogger("palaver.requests")
_SECRET = re.compile(r"pl[a-z]_[A-Za-z0-9_-]+")

PUBLIC = ("/healthz", "/readyz", "/docs", "/openapi.json", "/console/", "/favicon")
OAUTH = ("/.well-known/", "/mcp/.well-known/")
"""MCP clients look here for OAuth, and at /register. There is none: 404 says so, where 401 makes them try to log in."""
SESSION = "/api/session"
OWN_PAGES = ("same-origin", "none")
"""What browsers say in Sec-Fetch-Site of requests that no other site's page made."""
AGENTS = ("/mcp", "/sse", "/messages")

SAFETY = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; object-src 'none'; "
        b"base-uri 'none'; frame-ancestors 'none'; form-action 'self'; require-trusted-types-for 'script'; "
        b"trusted-types lit-html palaver",
    ),
)
SAFETY_OF_WHAT_IS_PRIVATE = (*SAFETY, (b"cache-control", b"no-store"))


class Guard:
    def __init__(self, app: ASGIApp, house: House) -> None:
        self._app, self._house = app, house
        self._names = known_hosts(house.settings)
        self._sites = known_sites(house.settings)
        self._takes_any_address = not house.settings.is_loopback
        self._knows = lru_cache(256)(self._serves)  # most callers use one name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        # Some HTTP parsers leave white space behind header values.
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        try:
            await self._let_in(scope)
        except PalaverError as problem:
            await self._note(problem, scope)
            if isinstance(problem, Unavailable) and scope["path"] == "/mcp" and scope.get("method") == "POST":
                sending = _Answer(send, scope["path"]).send
                await unavailable.answer(problem, self._house.settings.max_body, scope, receive, sending)
                return
            await refuse(problem, scope, receive, _Answer(send, scope["path"]).send)
            return
        visit: Visit | None = scope.get("palaver.visit")
        answer = _Answer(send, scope["path"])
        began = time.perf_counter()
        try:
            if visit is None or visit.token_id is None:
                await self._app(scope, receive, answer.send)
                return
            with self._house.present.track(*visit.keys):
                await self._app(scope, receive, answer.send)
        except LoginEnded:
            await answer.end(scope, receive)
        finally:
            _count(scope, visit, answer.status, time.perf_counter() - began)

    async def _note(self, problem: PalaverError, scope: Scope) -> None:
        """Whoever is turned away is written down: from where and at which door, not what they carried."""
        if isinstance(problem, Unauthorized | Forbidden):
            client = scope.get("client")
            what = f"{scope.get('method', 'WEBSOCKET')} {door_of(scope['path'])[:60]}"
            with contextlib.suppress(PalaverError):  # they are turned away all the same
                await self._house.trail.denied(
                    f"somebody at {client[0] if client else '?'}", what, facts={"status": problem.status}
                )

    async def _let_in(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) > 1 or not self._knows(host):
            raise Forbidden("This host name is not served here. Add it with PALAVER_ALLOWED_HOSTS.")
        origin = headers.get("origin")
        if origin is not None and not self._is_ours(origin, host):
            raise Forbidden("Requests from this origin are not allowed.")
        changes_something = scope.get("method", "GET") not in ("GET", "HEAD", "OPTIONS")
        if origin is None and changes_something and headers.get("sec-fetch-site", "none") not in OWN_PAGES:
            raise Forbidden("Requests from another site's page are not allowed.")
        path = scope["path"]
        if path.startswith((*PUBLIC, *OAUTH)) or path == "/register":
            return
        try:
            scope["palaver.visit"] = await self._visit(scope, headers)
        except Unauthorized:
            if path not in ("/", SESSION):  # whoever asks whether they are logged in need not be
                raise
        except PalaverError:
            if path != "/":  # the page comes even when nothing else does: it says what is wrong
                raise

    async def _visit(self, scope: Scope, headers: Headers) -> Visit:
        """Who it is, by their token; or, in a browser, by the cookie of their login."""
        secret = bearer(headers.get("authorization"))
        default: Literal["human", "agent"] = "agent" if scope["path"].startswith(AGENTS) else "human"
        if secret is None and default == "human":
            visit = await admitted(self._house, headers, scope.get("method", "GET"))
            if visit:
                return visit
        return await admit(self._house, secret, default)

    def _serves(self, host: str) -> bool:
        name = _host_name(host)
        return name in self._names or (self._takes_any_address and _is_address(name))

    def _is_ours(self, origin: str, host: str) -> bool:
        """Whether a page is of this server: of one of its names with the request's port, or of a site set by hand.

        Another port of this machine is another program, and its pages are foreign.
        """
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return False
        site, own = _with_port(parts.netloc, parts.scheme), _with_port(host.strip(), parts.scheme)
        is_own_port = site.rpartition(":")[2] == own.rpartition(":")[2]
        is_own_name = _host_name(site) in self._names | {_host_name(own)}
        return site in self._sites or (is_own_port and is_own_name)


def door_of(path: str) -> str:
    """How an address begins, as logs name it. A token that was put there by mistake is left out."""
    return _SECRET.sub("…", "/".join(path.split("/")[:3]))


def _count(scope: Scope, visit: Visit | None, status: int, seconds: float) -> None:
    method = scope.get("method", "WEBSOCKET")
    if visit:
        visit.here.done["request", method, str(status)] += 1
    if log.isEnabledFor(logging.INFO):
        # The door, not the address: an address may hold what somebody searched for.
        door = getattr(scope.get("route"), "path", None) or door_of(scope["path"])
        facts = {"method": method, "door": door, "status": status, "ms": round(seconds * 1000, 1)}
        if visit:
            facts |= {"workspace": visit.here.name, "token": visit.token_id}
        log.info("%s %s %s", method, door, status, extra={"facts": facts})


class _Answer:
    """What has been sent so far, so that it can be brought to an end. It begins with the safety headers."""

    def __init__(self, send: Send, path: str) -> None:
        self._send, self._path = send, path
        self.status = 0
        self._began = self._is_complete = False

    async def send(self, message: Message) -> None:
        self._began = True
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message.setdefault("headers", [])
            names = {name for name, _ in headers}
            safety = SAFETY if self._path.startswith("/console/") else SAFETY_OF_WHAT_IS_PRIVATE
            message["headers"] = [*headers, *(header for header in safety if header[0] not in names)]
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self._is_complete = True
        await self._send(message)

    async def end(self, scope: Scope, receive: Receive) -> None:
        """The token or login ended meanwhile: say so where nothing was said yet, and break off where something was."""
        problem = Unauthorized("This is not valid any more: the token was revoked or has run out, or was logged out.")
        if scope["type"] == "websocket":
            await self._send({"type": "websocket.close", "code": 4000 + problem.status, "reason": problem.code})
        elif not self._began:
            await refuse(problem, scope, receive, self._send)
        elif not self._is_complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def known_hosts(settings: Settings) -> set[str]:
    own = {settings.host, *settings.allowed_hosts, *LOOPBACK}
    if settings.public_url:
        own.add(urlsplit(settings.public_url).netloc)
    return {_host_name(host) for host in own}


def known_sites(settings: Settings) -> set[str]:
    """Hosts with ports whose pages may use this server: the public address, and hosts that were allowed by name."""
    sites = {_with_port(host, scheme) for host in settings.allowed_hosts for scheme in ("http", "https")}
    if settings.public_url:
        parts = urlsplit(settings.public_url)
        sites.add(_with_port(parts.netloc, parts.scheme))
    return sites


def _with_port(netloc: str, scheme: str) -> str:
    """'Example.com' is 'example.com:443' where the scheme is https."""
    given = netloc.lower().rpartition("@")[2]
    has_port = re.search(r":[0-9]+$", given) is not None
    return given if has_port else f"{given}:{443 if scheme == 'https' else 80}"


def _host_name(host: str) -> str:
    """Without the port, in lower case: '[::1]:80' is '::1'."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    """A number cannot be pointed elsewhere by DNS."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def refuse(problem: PalaverError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 4000 + problem.status, "reason": problem.code})
        return
    said: dict[str, Any] = {"detail": problem.as_detail()}
    if scope["path"].startswith("/api/v1/"):
        said["error"] = said["detail"]
    response = JSONResponse(said, status_code=problem.status, headers=problem.headers)
    await response(scope, receive, send)
