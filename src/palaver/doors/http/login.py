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
from palaver.app import House
from palaver.doors.http.rest import body_of, error
from palaver.doors.visit import Visit, of_token
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


async def admitted(house: House, headers: Headers, method: str) -> Visit | None:
    """Who comes with a cookie, if it is a good one."""
    cookie = cookie_of(headers, house.settings)
    token = await house.logged_in(cookie) if cookie else None
    if cookie is None or token is None:
        return None
    if method not in SAFE and not hmac.compare_digest(headers.get(CSRF_HEADER, ""), csrf_of(cookie)):
        raise Forbidden(f"This request did not come from the console: it lacks the {CSRF_HEADER} header.")
    return await of_token(house, token, house.login_of(cookie))


def _answering(work: Callable[[Request, House], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await work(request, request.app.state.house)
        except PalaverError as problem:
            return error(problem)

    return endpoint


def _json(value: dict[str, Any]) -> Response:
    return Response(encode(value), media_type="application/json")


@_answering
async def show(request: Request, house: House) -> Response:
    return _json(await said(request))


async def said(request: Request) -> dict[str, Any]:
    """Who is looking, what they may do, and the event from which on they need to listen."""
    visit: Visit | None = request.scope.get("palaver.visit")
    if visit is None:
        return {"is_in": False, "needs_login": True, "version": __version__}
    return await _shown(visit, cookie_of(request.headers, visit.here.settings))


async def _shown(visit: Visit, cookie: str | None) -> dict[str, Any]:
    settings, caller = visit.here.settings, visit.caller
    last = await visit.here.last_event_id()
    return {
        "is_in": True,
        "needs_login": settings.needs_token,
        "name": caller.name if caller.is_authenticated else None,
        "workspace": visit.here.name,
        "scopes": sorted(caller.scopes),
        "is_owner": is_owner(visit),
        "version": __version__,
        "base_url": settings.base_url,
        "last_event_id": last,
        "csrf": csrf_of(cookie) if cookie and caller.is_authenticated else None,
    }


def is_owner(visit: Visit) -> bool:
    """Who is in charge of this workspace: makes and revokes its tokens. Of others nobody is, from here."""
    return "admin" in visit.caller.scopes and not visit.caller.is_agent


@_answering
async def begin(request: Request, house: House) -> Response:
    given = (await body_of(request, 10_000)).get("token")
    token = await house.token(given.strip()) if isinstance(given, str) else None
    if token is None:
        who = f"somebody at {request.client.host if request.client else '?'}"
        log.warning("%s could not log in: the token is not valid", who)
        await house.trail.denied(who, f"POST {request.url.path}", facts={"status": 401})
        raise Unauthorized("This token is not valid: it is unknown, revoked or has run out.")
    if token.kind != "human":
        raise Refused("This token belongs to an agent. The console is for people: use a token made with --human.")
    cookie = await house.log_in(token)
    response = _json(await _shown(await of_token(house, token), cookie))
    response.set_cookie(
        cookie_name(house.settings),
        cookie,
        max_age=LASTS_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or house.settings.base_url.startswith("https:"),
    )
    return response


@_answering
async def end(request: Request, house: House) -> Response:
    visit: Visit | None = request.scope.get("palaver.visit")
    cookie = cookie_of(request.headers, house.settings)
    if visit and visit.token_id and request.query_params.get("everywhere") == "true":
        await house.log_out_everywhere(visit.token_id)
    elif cookie:
        await house.log_out(cookie)
    response = _json({"is_in": False, "needs_login": house.settings.needs_token})
    response.delete_cookie(cookie_name(house.settings), path="/", httponly=True, samesite="strict")
    return response
