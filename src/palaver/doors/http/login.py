"""Console login: exchange a token for a cookie.

GET    /api/session              the user and their permissions
POST   /api/session {"token"}    log in
DELETE /api/session              log out of this browser; ?everywhere=true: of all browsers with this token

Scripts cannot read the cookie, and requests from other sites do not send it. Requests that change data must also send
the CSRF token from the answer of GET /api/session.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response

from palaver import __version__
from palaver.app import App
from palaver.doors.authentication import INVALID_TOKEN, Requester, requester_with_token
from palaver.doors.http.bodies import body_of
from palaver.doors.http.rest import json_response
from palaver.errors import Forbidden, Refused, Unauthorized
from palaver.settings import Settings

log = logging.getLogger("palaver.requests")

CSRF_HEADER = "x-palaver-csrf"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
COOKIE_SECONDS = 30 * 24 * 3600


def cookie_name(settings: Settings) -> str:
    """Cookies ignore ports, so each server on a machine needs its own cookie name."""
    return f"palaver_{settings.port}"


def cookie_of(headers: Headers, settings: Settings) -> str | None:
    given = headers.get("cookie")
    return cookie_parser(given).get(cookie_name(settings)) if given else None


def csrf_of(cookie: str) -> str:
    return hashlib.sha256(f"csrf {cookie}".encode()).hexdigest()


async def requester_with_cookie(app: App, headers: Headers, method: str) -> Requester | None:
    """The requester with a valid login cookie."""
    cookie = cookie_of(headers, app.settings)
    token = await app.access.find_login(cookie) if cookie else None
    if cookie is None or token is None:
        return None
    if method not in SAFE_METHODS and not hmac.compare_digest(headers.get(CSRF_HEADER, ""), csrf_of(cookie)):
        raise Forbidden(f"The {CSRF_HEADER} header is missing or wrong. Send the 'csrf' value from GET /api/session.")
    return await requester_with_token(app, token, app.access.login_key(cookie))


async def show(request: Request) -> Response:
    return json_response(await session_info(request))


async def session_info(request: Request) -> dict[str, Any]:
    """The user, their permissions, and the id of the last event."""
    requester: Requester | None = request.scope.get("palaver.requester")
    if requester is None:
        return {"is_in": False, "needs_login": True, "version": __version__}
    return await _session_info(requester, cookie_of(request.headers, requester.workspace.settings))


async def _session_info(requester: Requester, cookie: str | None) -> dict[str, Any]:
    settings, caller = requester.workspace.settings, requester.caller
    last = await requester.workspace.last_event_id()
    return {
        "is_in": True,
        "needs_login": settings.needs_token,
        "name": caller.name if caller.is_authenticated else None,
        "workspace": requester.workspace.name,
        "scopes": sorted(caller.scopes),
        "is_owner": is_owner(requester),
        "version": __version__,
        "base_url": settings.base_url,
        "last_event_id": last,
        "csrf": csrf_of(cookie) if cookie and caller.is_authenticated else None,
    }


def is_owner(requester: Requester) -> bool:
    """Whether the user may create and revoke the tokens of this workspace."""
    return "admin" in requester.caller.scopes and not requester.caller.is_agent


async def begin(request: Request) -> Response:
    app: App = request.app.state.app
    given = (await body_of(request, 10_000)).get("token")
    token = await app.access.find_token(given.strip()) if isinstance(given, str) else None
    if token is None:
        who = f"unknown caller at {request.client.host if request.client else '?'}"
        log.warning("%s could not log in: the token is not valid", who)
        await app.trail.denied(who, f"POST {request.url.path}", facts={"status": 401})
        raise Unauthorized(INVALID_TOKEN)
    if token.kind != "human":
        raise Refused("This token belongs to an agent. The console needs a token of a person: create one with --human.")
    cookie = await app.access.log_in(token)
    response = json_response(await _session_info(await requester_with_token(app, token), cookie))
    response.set_cookie(
        cookie_name(app.settings),
        cookie,
        max_age=COOKIE_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or app.settings.base_url.startswith("https:"),
    )
    return response


async def end(request: Request) -> Response:
    app: App = request.app.state.app
    requester: Requester | None = request.scope.get("palaver.requester")
    cookie = cookie_of(request.headers, app.settings)
    if requester and requester.token_id and request.query_params.get("everywhere") == "true":
        await app.access.log_out_everywhere(requester.token_id)
    elif cookie:
        await app.access.log_out(cookie)
    response = json_response({"is_in": False, "needs_login": app.settings.needs_token})
    response.delete_cookie(cookie_name(app.settings), path="/", httponly=True, samesite="strict")
    return response
