"""Security middleware in front of all HTTP and WebSocket routes.

It checks the Host and Origin headers (against DNS rebinding and other sites' pages), authenticates the caller, and adds
security headers to every response.
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

from palaver.app import App, LoginEnded
from palaver.doors.authentication import Requester, authenticate, bearer_token
from palaver.doors.http.addresses import DEFAULT_PORTS, split_host, split_origin
from palaver.doors.http.login import requester_with_cookie
from palaver.doors.mcp.workarounds import answer_unavailable
from palaver.doors.oauth import metadata
from palaver.errors import Forbidden, PalaverError, Unauthorized, Unavailable
from palaver.settings import LOOPBACK, Settings

log = logging.getLogger("palaver.requests")
_SECRET = re.compile(r"pl[a-z]_[A-Za-z0-9_-]+")

PUBLIC = ("/healthz", "/readyz", "/docs", "/openapi.json", "/console/", "/favicon", "/hooks/")
"""Paths that need no authentication. The address of an incoming webhook is its own secret."""
PROBES = ("/healthz", "/readyz")
"""Load balancers may ask these without a Host header, as haproxy does. A browser always sends one."""
OAUTH = ("/.well-known/", "/mcp/.well-known/")
"""MCP clients look for OAuth here and at /register. Without OAuth the answer is 404: a 401 would make them log in."""
SESSION = "/api/session"
OWN_PAGES = ("same-origin", "none")
"""Values of Sec-Fetch-Site in requests that no other site's page made."""
AGENTS = ("/mcp", "/sse", "/messages")
"""Paths whose callers are agents unless a token says otherwise."""

SECURITY_HEADERS = (
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
PRIVATE_HEADERS = (*SECURITY_HEADERS, (b"cache-control", b"no-store"))


class Guard:
    def __init__(self, inner: ASGIApp, app: App) -> None:
        self._inner, self._app = inner, app
        self._names = known_hosts(app.settings)
        self._sites = known_sites(app.settings)
        self._oauth_endpoints = metadata.ENDPOINTS if app.settings.has_oauth else {metadata.REGISTER}
        self._accepts_any_address = not app.settings.is_loopback
        self._is_served = lru_cache(256)(self._serves)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._inner(scope, receive, send)
            return
        # Some HTTP parsers keep white space after header values.
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        response = _Response(scope, send, self._app.settings)
        try:
            await self._check(scope)
        except PalaverError as problem:
            if isinstance(problem, Unauthorized | Forbidden):  # the audit log gets the address, never the credential
                client = scope.get("client")
                who = f"unknown caller at {client[0] if client else '?'}"
                what = f"{scope.get('method', 'WEBSOCKET')} {path_for_logs(scope['path'])[:60]}"
                with contextlib.suppress(PalaverError):  # the request is refused in any case
                    await self._app.trail.denied(who, what, facts={"status": problem.status})
            await refuse(problem, self._app.settings.max_body, scope, receive, response.send)
            return
        requester: Requester | None = scope.get("palaver.requester")
        began = time.perf_counter()
        try:
            if requester is None or requester.token_id is None:
                await self._inner(scope, receive, response.send)
                return
            with self._app.access.present.track(*requester.keys):
                await self._inner(scope, receive, response.send)
        except LoginEnded:
            await response.end(receive)
        finally:
            _count(scope, requester, response.status, time.perf_counter() - began)

    async def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        is_probe = "host" not in headers and scope["path"] in PROBES
        if len(headers.getlist("host")) > 1 or not (is_probe or self._is_served(host)):
            raise Forbidden("This host name is not allowed. Add it to PALAVER_ALLOWED_HOSTS.")
        origin = headers.get("origin")
        if origin is not None and (len(headers.getlist("origin")) > 1 or not self._is_ours(origin, host)):
            raise Forbidden("Requests from this origin are not allowed.")
        changes_something = scope.get("method", "GET") not in ("GET", "HEAD", "OPTIONS")
        if origin is None and changes_something and headers.get("sec-fetch-site", "none") not in OWN_PAGES:
            raise Forbidden("Requests from pages of other sites are not allowed.")
        path = scope["path"]
        if path.startswith((*PUBLIC, *OAUTH)) or path in self._oauth_endpoints:
            return
        try:
            secret = bearer_token(headers.get("authorization"))
            default: Literal["human", "agent"] = "agent" if path.startswith(AGENTS) else "human"
            requester = None
            if secret is None and default == "human":  # a browser has the cookie of a login
                requester = await requester_with_cookie(self._app, headers, scope.get("method", "GET"))
            scope["palaver.requester"] = requester or await authenticate(self._app, secret, default)
        except Unauthorized:
            if path not in ("/", SESSION):  # these work without a login
                raise
        except PalaverError:
            if path != "/":  # the page loads and shows the problem
                raise

    def _serves(self, host: str) -> bool:
        name, _ = split_host(host) or ("", None)
        if self._accepts_any_address:
            with contextlib.suppress(ValueError):
                ipaddress.ip_address(name)  # an IP address cannot be redirected by DNS
                return True
        return name in self._names

    def _is_ours(self, origin: str, host: str) -> bool:
        """Whether a page comes from this server (its host names and the request's port) or from an allowed site.

        Pages from another port of this machine belong to another program.
        """
        site, own = split_origin(origin), split_origin(f"{origin.partition(':')[0]}://{host}")
        if site is None or own is None:
            return False
        return site in self._sites or (site[1] == own[1] and site[0] in self._names | {own[0]})


def path_for_logs(path: str) -> str:
    """The beginning of a path, without any token that was put there by mistake."""
    return _SECRET.sub("…", "/".join(path.split("/")[:3]))


def _count(scope: Scope, requester: Requester | None, status: int, seconds: float) -> None:
    method = scope.get("method", "WEBSOCKET")
    if requester:
        requester.workspace.done["request", method, str(status)] += 1
    if log.isEnabledFor(logging.INFO):
        # The route, not the full URL: a URL can contain a search query.
        door = getattr(scope.get("route"), "path", None) or path_for_logs(scope["path"])
        facts = {"method": method, "door": door, "status": status, "ms": round(seconds * 1000, 1)}
        if requester:
            facts |= {"workspace": requester.workspace.name, "token": requester.token_id}
        log.info("%s %s %s", method, door, status, extra={"facts": facts})


class _Response:
    """Adds security headers and the way to OAuth, and knows how far a response got so that it can be ended early."""

    def __init__(self, scope: Scope, send: Send, settings: Settings) -> None:
        self._scope, self._send, self._settings = scope, send, settings
        self.status = 0
        self._began = self._is_complete = False

    async def send(self, message: Message) -> None:
        self._began = True
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message.setdefault("headers", [])
            names = {name for name, _ in headers}
            extra = SECURITY_HEADERS if self._scope["path"].startswith("/console/") else PRIVATE_HEADERS
            if self.status == 401 and self._settings.has_oauth and b"www-authenticate" in names:
                headers = [pair for pair in headers if pair[0] != b"www-authenticate"]
                headers.append((b"www-authenticate", self._challenge()))
            message["headers"] = [*headers, *(header for header in extra if header[0] not in names)]
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self._is_complete = True
        await self._send(message)

    def _challenge(self) -> bytes:
        """The WWW-Authenticate header that leads clients to OAuth."""
        headers = Headers(scope=self._scope)
        base = metadata.base_url(self._settings, self._scope["scheme"], headers)
        return metadata.challenge(base, self._scope["path"], has_token="authorization" in headers).encode("latin-1")

    async def end(self, receive: Receive) -> None:
        """The token or login ended: send an error if nothing was sent yet, else end the response."""
        problem = Unauthorized("The token or login is no longer valid: it was revoked, has expired or was logged out.")
        if self._scope["type"] == "websocket":
            await self._send({"type": "websocket.close", "code": 4000 + problem.status, "reason": problem.code})
        elif not self._began:
            await refuse(problem, 0, self._scope, receive, self._send)
        elif not self._is_complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def known_hosts(settings: Settings) -> set[str]:
    own = [settings.host, *settings.allowed_hosts, urlsplit(settings.public_url).netloc]
    return {*LOOPBACK, *((split_host(host) or (host.lower(),))[0] for host in own if host)}


def known_sites(settings: Settings) -> set[tuple[str, int]]:
    """Hosts with ports whose pages may use this server: the public URL and the allowed hosts."""
    public = urlsplit(settings.public_url)
    sites = [f"{scheme}://{host}" for host in settings.allowed_hosts for scheme in DEFAULT_PORTS]
    return {found for site in [*sites, f"{public.scheme}://{public.netloc}"] if (found := split_origin(site))}


async def refuse(problem: PalaverError, max_body: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with an error, in the form that its door has."""
    if isinstance(problem, Unavailable) and scope["path"] == "/mcp" and scope.get("method") == "POST":
        await answer_unavailable(problem, max_body, scope, receive, send)
        return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 4000 + problem.status, "reason": problem.code})
        return
    body: dict[str, Any] = {"detail": problem.as_detail()}
    if scope["path"].startswith("/api/v1/"):
        body["error"] = body["detail"]
    response = JSONResponse(body, status_code=problem.status, headers=problem.headers)
    await response(scope, receive, send)
