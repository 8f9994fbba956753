"""Logging in to the console: a token, shown once, becomes a cookie.

GET    /api/session              who is looking, and what they may do
POST   /api/session {"token"}    log in
DELETE /api/session              log out here; ?everywhere=true: in every browser that token was used in

The cookie cannot be read by scripts and is not sent along from other sites. A request that changes something must also
carry a word that only a page of ours can know: it is in the answer of GET /api/session.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response

from palaver import __version__
from palaver.app import App
from palaver.doors.authentication import Requester, requester_with_token
from palaver.doors.http.rest import body_of, error
from palaver.errors import Forbidden, PalaverError, Refused, Unauthorized
from palaver.model.events import encode
from palaver.settings import Settings

log = logging.getLogger("palaver.requests")

CSRF_HEADER = "x-palaver-csrf"
SAFE = ("GET", "HEAD", "OPTIONS")
LASTS_SECONDS = 30 * 24 * 3600


def cookie_name(settings: Settings) -> str:
    """Cookies do not know ports: two servers on one machine must not take each other's."""
    return f"palaver_{settings.port}"


def cookie_of(headers: Headers, settings: Settings) -> str | None:
    given = headers.get("cookie")
    return cookie_parser(given).get(cookie_name(settings)) if given else None


def csrf_of(cookie: str) -> str:
    return hashlib.sha256(f"csrf {cookie}".encode()).hexdigest()


async def admitted(app: App, headers: Headers, method: str) -> Requester | None:
    """Who comes with a cookie, if it is a good one."""
    cookie = cookie_of(headers, app.settings)
    token = await app.access.find_login(cookie) if cookie else None
    if cookie is None or token is None:
        return None
    if method not in SAFE and not hmac.compare_digest(headers.get(CSRF_HEADER, ""), csrf_of(cookie)):
        raise Forbidden(f"This request did not come from the console: it lacks the {CSRF_HEADER} header.")
    return await requester_with_token(app, token, app.access.login_key(cookie))


def _answering(work: Callable[[Request, App], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await work(request, request.app.state.app)
        except PalaverError as problem:
            return error(problem)

    return endpoint


def _json(value: dict[str, Any]) -> Response:
    return Response(encode(value), media_type="application/json")


@_answering
async def show(request: Request, app: App) -> Response:
    return _json(await said(request))


async def said(request: Request) -> dict[str, Any]:
    """Who is looking, what they may do, and the event from which on they need to listen."""
    requester: Requester | None = request.scope.get("palaver.requester")
    if requester is None:
        return {"is_in": False, "needs_login": True, "version": __version__}
    return await _shown(requester, cookie_of(request.headers, requester.workspace.settings))


async def _shown(requester: Requester, cookie: str | None) -> dict[str, Any]:
    settings, caller = requester.workspace.settings, requester.caller
    last = await requester.workspace.read(lambda read: read.must("last_event_id"))
    return {
        "is_in": True,
        "needs_login": settings.needs_token,
        "name": caller.name if caller.is_authenticated else None,
        "workspace": requester.workspace.name,
        "scopes": sorted(caller.scopes),
        "is_owner": is_owner(requester),
        "version": __version__,
        "base_url": settings.base_url,
        "last_event_id": last["value"],
        "csrf": csrf_of(cookie) if cookie and caller.is_authenticated else None,
    }


def is_owner(requester: Requester) -> bool:
    """Who is in charge of this workspace: makes and revokes its tokens. Of others nobody is, from here."""
    return "admin" in requester.caller.scopes and not requester.caller.is_agent


@_answering
async def begin(request: Request, app: App) -> Response:
    given = (await body_of(request, 10_000)).get("token")
    token = await app.access.find_token(given.strip()) if isinstance(given, str) else None
    if token is None:
        who = f"somebody at {request.client.host if request.client else '?'}"
        log.warning("%s could not log in: the token is not valid", who)
        await app.trail.denied(who, f"POST {request.url.path}", facts={"status": 401})
        raise Unauthorized("This token is not valid: it is unknown, revoked or has run out.")
    if token.kind != "human":
        raise Refused("This token belongs to an agent. The console is for people: use a token made with --human.")
    cookie = await app.access.log_in(token)
    response = _json(await _shown(await requester_with_token(app, token), cookie))
    response.set_cookie(
        cookie_name(app.settings),
        cookie,
        max_age=LASTS_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or app.settings.base_url.startswith("https:"),
    )
    return response


@_answering
async def end(request: Request, app: App) -> Response:
    requester: Requester | None = request.scope.get("palaver.requester")
    cookie = cookie_of(request.headers, app.settings)
    if requester and requester.token_id and request.query_params.get("everywhere") == "true":
        await app.access.log_out_everywhere(requester.token_id)
    elif cookie:
        await app.access.log_out(cookie)
    response = _json({"is_in": False, "needs_login": app.settings.needs_token})
    response.delete_cookie(cookie_name(app.settings), path="/", httponly=True, samesite="strict")
    return response
