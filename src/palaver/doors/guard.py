"""The guard stands before every HTTP and WebSocket door.

It refuses foreign Host and Origin headers (a web page that points its name at this machine gets nothing), finds out who
is calling, and puts the safety headers on every answer.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from palaver.doors.login import admitted
from palaver.doors.visit import Visit, admit, bearer
from palaver.errors import Forbidden, PalaverError, Unauthorized
from palaver.house import House
from palaver.settings import LOOPBACK, Settings

PUBLIC = ("/healthz", "/readyz", "/docs", "/openapi.json", "/console/", "/favicon")
SESSION = "/api/session"
AGENTS = ("/mcp", "/sse", "/messages")

SAFETY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; object-src 'none'; "
        "base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    ),
}


class Guard:
    def __init__(self, app: ASGIApp, house: House) -> None:
        self._app, self._house = app, house
        self._names = known_hosts(house.settings)
        self._takes_any_address = not house.settings.is_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        # Some HTTP parsers leave white space behind header values.
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        try:
            await self._let_in(scope)
        except PalaverError as problem:
            await refuse(problem, scope, receive, send)
            return
        await self._app(scope, receive, _with_safety(send, scope["path"]))

    async def _let_in(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if not self._knows(headers.get("host", "")):
            raise Forbidden("This host name is not served here. Add it with PALAVER_ALLOWED_HOSTS.")
        origin = headers.get("origin")
        if origin is not None and not self._knows_origin(origin):
            raise Forbidden("Requests from this origin are not allowed.")
        path = scope["path"]
        if path == "/" or path.startswith(PUBLIC):
            return
        try:
            scope["palaver.visit"] = await self._visit(scope, headers)
        except Unauthorized:
            if path != SESSION:  # whoever asks whether they are logged in need not be
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

    def _knows(self, host: str) -> bool:
        name = _host_name(host)
        return name in self._names or (self._takes_any_address and _is_address(name))

    def _knows_origin(self, origin: str) -> bool:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and self._knows(parts.netloc)


def known_hosts(settings: Settings) -> set[str]:
    own = {settings.host, *settings.allowed_hosts, *LOOPBACK}
    if settings.public_url:
        own.add(urlsplit(settings.public_url).netloc)
    return {_host_name(host) for host in own}


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


def _with_safety(send: Send, path: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SAFETY.items():
                headers.setdefault(name, value)
            if not path.startswith("/console/"):
                headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


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
