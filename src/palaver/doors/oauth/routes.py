"""The routes of OAuth. They exist only on servers that require tokens.

GET  /authorize                    an application asks; the person goes to the consent page of the console
POST /api/oauth/request {"query"}  the consent page: what is asked for
POST /api/oauth/consent {"query", "allow", "scopes"}   the consent page: yes or no
POST /token, /register, /revoke    for applications
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message

from palaver.app import App
from palaver.doors.authentication import Requester, authenticate, bearer_token
from palaver.doors.http.addresses import address_of
from palaver.doors.http.bodies import body_of, read_body
from palaver.doors.http.rest import json_response, reports_errors
from palaver.doors.mcp.lazy_app import LazyMcpRoute
from palaver.doors.oauth import metadata
from palaver.errors import Forbidden, Refused, TooMany, Unauthorized
from palaver.model.admin.oauth import EVERYTHING, MCP_RESOURCES
from palaver.model.visibility import must_be_person
from palaver.settings import LOOPBACK, Settings

if TYPE_CHECKING:
    from palaver.doors.oauth.handlers import Asked

LARGEST = 32 * 1024
MINUTE = 60.0
REGISTRATIONS_A_MINUTE = 60
"""How many clients one address, or one token, may register."""
MOST_CALLERS = 10_000
"""How many addresses and tokens are counted at once. The ones that registered longest ago are forgotten."""

_registrations: dict[str, tuple[float, int]] = {}
"""When the minute of each caller began, and how many have registered since. The latest caller is last."""


def routes(settings: Settings) -> list[BaseRoute]:
    if not settings.has_oauth:
        return []
    return [
        Route(metadata.RESOURCE_METADATA, show_resource),
        Route(metadata.RESOURCE_METADATA + "/{resource}", show_resource),
        Route(metadata.SERVER_METADATA, show_server),
        Route(metadata.AUTHORIZE, authorize),
        Route(metadata.TOKEN, token, methods=["POST"]),
        Route(metadata.REGISTER, register, methods=["POST"]),
        Route(metadata.REVOKE, revoke, methods=["POST"]),
        Route("/api/oauth/request", show_request, methods=["POST"]),
        Route("/api/oauth/consent", decide, methods=["POST"]),
    ]


async def _handlers(request: Request) -> Any:
    """The endpoints that need the MCP SDK, as soon as it is loaded."""
    mcp: LazyMcpRoute = request.app.state.mcp
    await mcp.loaded()
    from palaver.doors.oauth import handlers

    return handlers


def _base(request: Request) -> str:
    return metadata.base_url(request.app.state.app.settings, request.url.scheme, request.headers)


# Metadata


async def show_resource(request: Request) -> Response:
    resource = "/" + request.path_params.get("resource", "")
    if resource not in (EVERYTHING, *MCP_RESOURCES):
        raise HTTPException(404)
    return json_response(metadata.protected_resource(_base(request), resource))


async def show_server(request: Request) -> Response:
    settings: Settings = request.app.state.app.settings
    return json_response(metadata.authorization_server(_base(request), reads_documents=settings.oauth == "on"))


# Endpoints for applications


@reports_errors
async def authorize(request: Request) -> Response:
    handlers = await _handlers(request)
    response: Response = await handlers.authorize(request.app.state.app, _base(request), request)
    return response


@reports_errors
async def register(request: Request) -> Response:
    """Register a client. Everybody may, so it is limited for each address, and for each token (RFC 7591, 1.2)."""
    app: App = request.app.state.app
    caller, now = address_of(request.scope, app.settings), time.monotonic()
    with suppress(Unauthorized):
        secret = bearer_token(request.headers.get("authorization"))
        caller = f"token {(await authenticate(app, secret, 'agent')).token_id}"
    began, count = _registrations.pop(caller, (now, 0))
    if now - began >= MINUTE:
        began, count = now, 0
    _registrations[caller] = began, count + 1
    if len(_registrations) > MOST_CALLERS:
        del _registrations[next(iter(_registrations))]
    if count >= REGISTRATIONS_A_MINUTE:
        wait = math.ceil(began + MINUTE - now)
        raise TooMany(f"Too many applications have registered from your address. Try again in {wait} s.", wait)
    handlers = await _handlers(request)
    small = await _small(request)
    response: Response = await handlers.register(app, _base(request), caller, small)
    return response


@reports_errors
async def token(request: Request) -> Response:
    """Exchange a code or a refresh token for new tokens."""
    small = await _small(request)
    form = await small.form()
    if problem := _form_problem(form):
        return problem
    resource = form.get("resource")
    if resource is not None and not _is_ours(_base(request), str(resource)):
        return _oauth_error("invalid_target", "resource is not an address of this server")
    handlers = await _handlers(request)
    response: Response = await handlers.token(request.app.state.app, _base(request), small, form)
    return response


@reports_errors
async def revoke(request: Request) -> Response:
    """End an application's access (RFC 7009). The SDK's handler refuses clients without a secret."""
    app: App = request.app.state.app
    form = await (await _small(request)).form()
    if problem := _form_problem(form):
        return problem
    secret, client_id = form.get("token"), form.get("client_id")
    if not isinstance(secret, str):
        return _oauth_error("invalid_request", "token is required")
    if not isinstance(client_id, str) or await app.oauth.known_client(client_id) is None:
        return _oauth_error("invalid_client", "client_id is not known", 401)
    found = await app.oauth.find_access_token(secret) or await app.oauth.find_refresh_token(secret)
    if found and found.application.client_id == client_id:
        await app.oauth.end(found.application)
    return Response()


def _form_problem(form: FormData) -> Response | None:
    if len(form.multi_items()) > len(form):
        return _oauth_error("invalid_request", "a parameter is given twice")
    return None


def _is_ours(base: str, resource: str) -> bool:
    try:
        return metadata.resource_of(base, resource) is not None
    except ValueError:
        return False


def _oauth_error(code: str, description: str, status: int = 400) -> Response:
    return json_response({"error": code, "error_description": description}, status, {"cache-control": "no-store"})


async def _small(request: Request) -> Request:
    """The request with its body already read, which must be short."""
    body = await read_body(request, LARGEST)

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


# The consent page


Answer = Callable[[Request, Requester, "Asked", dict[str, Any]], Awaitable[Response]]


def _for_person(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint for a person who is logged in. The body has the request for access."""

    @reports_errors
    async def endpoint(request: Request) -> Response:
        requester: Requester = request.scope["palaver.requester"]
        must_be_person(requester.caller)
        if "read" not in requester.caller.scopes:
            raise Forbidden("Your token needs the scope 'read' to let applications in.")
        given = await body_of(request, LARGEST)
        if not isinstance(given.get("query"), str):
            raise Refused("query: is required. It is the part of the address after the '?'.")
        handlers = await _handlers(request)
        asked = await handlers.read_request(request.app.state.app, _base(request), requester, given["query"])
        return await answer(request, requester, asked, given)

    return endpoint


async def _show_request(request: Request, requester: Requester, asked: Asked, given: dict[str, Any]) -> Response:
    own = requester.caller.scopes
    host = urlsplit(asked.redirect_uri).hostname
    return json_response(
        {
            "application": asked.client.name,
            "publisher": urlsplit(asked.client.id).hostname if asked.client.has_document else None,
            "returns_to": "this computer" if host in LOOPBACK else host,
            "scopes": [{"name": scope, "is_allowed": scope in own} for scope in asked.scopes],
            "is_whole_server": asked.resource == EVERYTHING,
        }
    )


async def _decide(request: Request, requester: Requester, asked: Asked, given: dict[str, Any]) -> Response:
    handlers = await _handlers(request)
    base = _base(request)
    if given.get("allow") is not True:
        return json_response({"redirect": handlers.deny(base, asked)})
    chosen = given.get("scopes")
    scopes = [scope for scope in asked.scopes if isinstance(chosen, list) and scope in chosen]
    if not set(scopes) & requester.caller.scopes:
        raise Refused("scopes: choose at least one that you have yourself.")
    return json_response({"redirect": await handlers.allow(request.app.state.app, base, requester, asked, scopes)})


show_request, decide = _for_person(_show_request), _for_person(_decide)
