"""What the server knows of an MCP connection: its agent session, client preferences, searches and project.

It is kept in the SDK's state of the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.websockets import WebSocket

from palaver.doors.authentication import Requester
from palaver.errors import PalaverError
from palaver.model.ids import new_id
from palaver.model.people import Session
from palaver.model.search import SearchSessionKey
from palaver.operations import client_preferences, identity

Context = ServerRequestContext[Any, Any]

SESSION = "palaver.session"
ROOT = "palaver.root"
ROOTS_SECONDS = 2.0
ReleaseAgent = Callable[[Any, str], None]


def query_of(ctx: Context) -> QueryParams:
    return ctx.request.query_params if ctx.request is not None else QueryParams()


def session_of(ctx: Context, requester: Requester) -> Session:
    """The agent session of this connection, kept in the SDK's state of the connection."""
    request: Request | WebSocket | None = ctx.request
    if request is None:
        return requester.caller.session
    if isinstance(request, WebSocket):
        return cast(Session, request.scope.setdefault(SESSION, Session(key=identity.connection_key(new_id()))))
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return Session()
    session_id = request.headers.get("mcp-session-id") or request.query_params.get("session_id", "").replace("-", "")
    state: dict[str, Any] = ctx.session._connection.state
    session: Session = state.setdefault(SESSION, Session())
    session.key = identity.connection_key(session_id) if session_id else None
    session.is_shared = bool(session_id)
    return session


def search_session_of(ctx: Context, token_id: str | None) -> SearchSessionKey | None:
    """The search session of this connection. Stateless connections have none."""
    request: Request | WebSocket | None = ctx.request
    owner = f"connection:{token_id or ''}"
    if isinstance(request, Request):
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return None
        if session_id := request.headers.get("mcp-session-id"):  # another server may get the next request
            return SearchSessionKey(owner, identity.connection_key(session_id), is_told=False)
    state: dict[str, Any] = request.scope if isinstance(request, WebSocket) else ctx.session._connection.state  # type: ignore[assignment]
    key = SearchSessionKey(owner, new_id(), is_told=request is None)
    return cast(SearchSessionKey, state.setdefault("palaver.search_session", key))


async def remember_config(ctx: Context, call_next: Any) -> Any:
    """Keep the preferences from the initialize message for the whole session."""
    if ctx.method == "initialize":
        given = (ctx.params or {}).get("config")
        try:
            config = client_preferences.from_given(given) if given is not None else {}
            ctx.session._connection.state["palaver.config"] = _config_in_url(ctx) | config
        except PalaverError as problem:
            raise MCPError(types.INVALID_PARAMS, problem.message) from None
    return await call_next(ctx)


def config_of(ctx: Context) -> dict[str, Any]:
    held: dict[str, Any] = ctx.session._connection.state.get("palaver.config", {})
    try:
        return held | _config_in_url(ctx)
    except PalaverError as problem:
        raise MCPError(types.INVALID_PARAMS, problem.message) from None


def _config_in_url(ctx: Context) -> dict[str, Any]:
    """The preferences in the URL of this request."""
    request: Request | WebSocket | None = ctx.request
    text = request.query_params.get("config") if request is not None else None
    return client_preferences.from_text(text) if text else {}


async def learn_project(ctx: Context) -> None:
    """Ask a client with roots for its folder. Stateless clients cannot be asked."""
    params, state = ctx.session.client_params, ctx.session._connection.state
    has_roots = params is not None and params.capabilities.roots is not None
    if not has_roots or ROOT in state or ctx.request is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return
    state[ROOT] = ""
    with contextlib.suppress(Exception), anyio.move_on_after(ROOTS_SECONDS):
        roots = (await ctx.session.list_roots()).roots
        if roots and (path := urlsplit(str(roots[0].uri))).scheme == "file":
            state[ROOT] = unquote(path.path)[:1000]


async def release_agent(requester: Requester, key: str | None, release: ReleaseAgent = identity.end_connection) -> None:
    """A client has gone, so another client can become its agent. Agents with tokens need no release."""
    if key and not requester.caller.is_authenticated:
        with contextlib.suppress(PalaverError):
            await asyncio.shield(requester.workspace.change(lambda change: release(change, key)))
