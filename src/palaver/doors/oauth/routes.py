"""The routes of OAuth. They exist only on servers that require tokens.

GET  /authorize                    an application asks; the person goes to the consent page of the console
POST /api/oauth/request {"query"}  the consent page: what is asked for
POST /api/oauth/consent {"query", "allow", "scopes"}   the consent page: yes or no
POST /token, /register, /revoke    for applications
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from palaver.app import App
from palaver.doors.authentication import authenticate, bearer_token
from palaver.doors.http.addresses import address_of
from palaver.doors.http.rest import json_response
from palaver.doors.mcp.lazy_app import LazyMcpRoute
from palaver.doors.oauth import metadata
from palaver.errors import TooMany, Unauthorized
from palaver.model.admin.oauth import EVERYTHING, MCP_RESOURCES
from palaver.operations.admin.rate_limits import seconds_to_wait
from palaver.settings import Settings

REGISTRATIONS_A_MINUTE = 60
"""How many clients one address, or one token, may register."""
MOST_CALLERS = 10_000
"""How many addresses and tokens are counted at once. The ones that registered longest ago are forgotten."""

_registrations: dict[str, deque[float]] = {}


def routes(settings: Settings) -> list[BaseRoute]:
    if not settings.has_oauth:
        return []
    return [
        Route(metadata.RESOURCE_METADATA, show_resource),
        Route(metadata.RESOURCE_METADATA + "/{resource}", show_resource),
        Route(metadata.SERVER_METADATA, show_server),
        Route(metadata.AUTHORIZE, _handler("authorize")),
        Route(metadata.TOKEN, _handler("token"), methods=["POST"]),
        Route(metadata.REGISTER, register, methods=["POST"]),
        Route(metadata.REVOKE, _handler("revoke"), methods=["POST"]),
        Route("/api/oauth/request", _handler("show_request"), methods=["POST"]),
        Route("/api/oauth/consent", _handler("decide"), methods=["POST"]),
    ]


def _handler(name: str) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint of handlers.py, which can be imported as soon as the MCP SDK is loaded."""

    async def endpoint(request: Request) -> Response:
        mcp: LazyMcpRoute = request.app.state.mcp
        await mcp.loaded()
        from palaver.doors.oauth import handlers

        response: Response = await getattr(handlers, name)(request)
        return response

    return endpoint


async def show_resource(request: Request) -> Response:
    resource = "/" + request.path_params.get("resource", "")
    if resource not in (EVERYTHING, *MCP_RESOURCES):
        raise HTTPException(404)
    return json_response(metadata.protected_resource(metadata.base_of(request), resource))


async def show_server(request: Request) -> Response:
    settings: Settings = request.app.state.app.settings
    base = metadata.base_of(request)
    return json_response(metadata.authorization_server(base, reads_documents=settings.oauth == "on"))


async def register(request: Request) -> Response:
    """Register a client. Everybody may, so it is limited for each address, and for each token (RFC 7591, 1.2)."""
    app: App = request.app.state.app
    caller = address_of(request.scope, app.settings)
    with suppress(Unauthorized):
        secret = bearer_token(request.headers.get("authorization"))
        caller = f"token {(await authenticate(app, secret, 'agent')).token_id}"
    if wait := seconds_to_wait(_registrations, caller, REGISTRATIONS_A_MINUTE, MOST_CALLERS):
        raise TooMany(f"Too many applications have registered from your address. Try again in {wait} s.", wait)
    request.state.caller = caller
    return await _handler("register")(request)
