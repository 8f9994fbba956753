"""The MCP server: requests over streamable HTTP, WebSocket and legacy SSE. (`stdio.py` serves clients on stdio.)

One low-level server of the SDK answers all transports. The security middleware authenticates each HTTP request.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio
import mcp_types as types
import orjson
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.sse import SseServerTransport
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from starlette.datastructures import URL, QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from palaver.app import App
from palaver.doors.authentication import Requester
from palaver.doors.mcp.connection import SESSION, release_agent
from palaver.doors.mcp.requests import McpRequests, chosen_tools, form_of
from palaver.doors.mcp.sessions import ResumingSessionManager, header_of
from palaver.doors.mcp.workarounds import fixed_body, json_if_large, replace_lone_surrogates
from palaver.errors import PalaverError
from palaver.model.events import encode
from palaver.operations import client_preferences, identity, mcp_sessions
from palaver.settings import Settings

_SSE_SESSION = re.compile(rb"session_id=([0-9a-f]{32})")


class McpDoor(McpRequests):
    def __init__(self, app: App) -> None:
        super().__init__(app)
        self._app = app
        # The security middleware has already checked Host and Origin.
        self._manager = ResumingSessionManager(
            self.server, max_request_body_size=app.settings.max_body, session_idle_timeout=3600
        )
        self._sse = SseServerTransport("/messages/", max_request_body_size=app.settings.max_body)
        self._sse_queries: dict[str, bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to one of the paths of MCP."""
        path = scope["path"]
        if scope["type"] == "websocket":
            await self._websocket(WebSocket(scope, receive, send))
            return
        if path == "/messages":
            await RedirectResponse(URL(scope={**scope, "path": "/messages/"}))(scope, receive, send)
            return
        if path == "/sse" and scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        requester: Requester = scope["palaver.requester"]
        if requester.token_id:  # bind a session to the token that opened it: the SDK compares this user each time
            token = AccessToken(token="", client_id=requester.token_id, scopes=sorted(requester.caller.scopes))
            scope["user"] = AuthenticatedUser(token)
        asked = QueryParams(scope["query_string"])
        if path == "/messages/":
            await self._legacy_post(asked, scope, receive, send)
        elif problem := _parameter_error(asked, self._app.settings):
            await problem(scope, receive, send)
        elif path == "/sse":
            await self._legacy_sse(scope, receive, send)
        else:
            await self._streamable(asked, scope, receive, send)

    def running(self) -> contextlib.AbstractAsyncContextManager[None]:
        return self._manager.run()

    async def _streamable(self, asked: QueryParams, scope: Scope, receive: Receive, send: Send) -> None:
        if "mcp-session-id" in asked and header_of(scope, b"mcp-session-id") is None:
            scope = {**scope, "headers": [*scope["headers"], (b"mcp-session-id", asked["mcp-session-id"].encode())]}
        if scope["method"] == "POST":
            body, receive = await fixed_body(receive, self._app.settings.max_body)
            opening = _opening(body)
            if opening is not None:  # a new session begins: ignore the old id
                scope = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"mcp-session-id"]}
                send = _storing_session(scope, opening, send)
            async with json_if_large(send) as sending:
                await self._manager.asgi_app(scope, receive, sending)
            return
        await self._manager.asgi_app(scope, receive, send)
        if session_id := header_of(scope, b"mcp-session-id"):  # most clients close their stream when they exit
            release = identity.end_connection if scope["method"] == "DELETE" else identity.pause_connection
            await release_agent(scope["palaver.requester"], identity.connection_key(session_id), release)

    async def _legacy_sse(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await Response(media_type="text/event-stream")(scope, receive, send)
            return
        own = set[str]()

        async def send_noting_session(message: Message) -> None:
            """Remember the query of this URL for the session. The first event contains the session id."""
            if not own and (found := _SSE_SESSION.search(message.get("body", b""))):
                own.add(found[1].decode())
                self._sse_queries[found[1].decode()] = scope["query_string"]
            await send(message)

        try:
            async with self._sse.connect_sse(scope, receive, send_noting_session) as (read, write):
                await self.server.run(read, write, self.server.create_initialization_options())
        finally:
            for name in own:
                self._sse_queries.pop(name, None)
                await release_agent(scope["palaver.requester"], identity.connection_key(name))

    async def _legacy_post(self, asked: QueryParams, scope: Scope, receive: Receive, send: Send) -> None:
        if opened_with := self._sse_queries.get(asked.get("session_id", "").replace("-", "")):
            scope = {**scope, "query_string": opened_with + b"&" + scope["query_string"]}
        _, receive = await fixed_body(receive, self._app.settings.max_body)
        await self._sse.handle_post_message(scope, receive, send)

    async def _websocket(self, websocket: WebSocket) -> None:
        offered = websocket.scope.get("subprotocols", [])
        await websocket.accept(subprotocol="mcp" if "mcp" in offered else None)
        try:
            async with _websocket_streams(websocket) as (read, write):
                await self.server.run(read, write, self.server.create_initialization_options())
        finally:
            if session := websocket.scope.get(SESSION):
                await release_agent(websocket.scope["palaver.requester"], session.key)


@contextlib.asynccontextmanager
async def _websocket_streams(websocket: WebSocket) -> AsyncIterator[tuple[Any, Any]]:
    """A WebSocket as the two streams of an MCP server, with one JSON-RPC message per frame."""
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    metadata = ServerMessageMetadata(request_context=websocket)

    async def receive() -> None:
        async with incoming:
            with contextlib.suppress(WebSocketDisconnect, anyio.ClosedResourceError, anyio.BrokenResourceError):
                while True:
                    frame = await websocket.receive()
                    if frame["type"] == "websocket.disconnect":
                        break
                    raw = frame.get("bytes") or (frame.get("text") or "").encode()
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(
                            replace_lone_surrogates(raw), by_name=False
                        )
                    except ValueError:
                        await websocket.send_text(encode(_frame_error(raw)).decode())
                    else:
                        await incoming.send(SessionMessage(message, metadata=metadata))

    async def send() -> None:
        async with outgoing:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                async for message in outgoing:
                    await websocket.send_text(message.message.model_dump_json(by_alias=True, exclude_unset=True))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield read, write
        finally:
            tasks.cancel_scope.cancel()


def _frame_error(raw: bytes) -> dict[str, Any]:
    """The JSON-RPC error for a WebSocket frame that is not a JSON-RPC message."""
    code, message, id = types.INVALID_REQUEST, "Invalid request: send one JSON-RPC 2.0 message per frame.", None
    try:
        given = orjson.loads(raw)
    except ValueError:
        code, message = types.PARSE_ERROR, "Parse error: the frame is not JSON."
    else:
        if isinstance(given, dict) and "method" in given and isinstance(given.get("id"), str | int):
            id = given["id"]
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def _opening(body: bytes) -> dict[str, Any] | None:
    """The parameters of an initialize message; None for other messages."""
    if b'"initialize"' in body:
        with contextlib.suppress(ValueError, AttributeError):
            message = orjson.loads(body)
            if message.get("method") == "initialize":
                params = message.get("params")
                return params if isinstance(params, dict) else {}
    return None


def _storing_session(scope: Scope, opening: dict[str, Any], send: Send) -> Send:
    """`send` that first stores the session that a response begins, so that another server can continue it."""
    requester: Requester = scope["palaver.requester"]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and (session_id := header_of(message, b"mcp-session-id")):
            await mcp_sessions.begin(requester.workspace, session_id, requester.token_id, opening)
        await send(message)

    return sending


def _parameter_error(asked: QueryParams, settings: Settings) -> Response | None:
    """The error response for invalid parameters in the URL, if any."""
    try:
        if "config" in asked:
            client_preferences.from_text(asked["config"])
    except PalaverError as problem:
        return Response(encode({"detail": problem.message}), 400, media_type="application/json")
    try:
        chosen_tools(asked, settings)
        form_of(asked, settings)
    except PalaverError as problem:
        error = {"code": types.INVALID_PARAMS, "message": problem.message}
        body = {"jsonrpc": "2.0", "id": None, "error": error, "detail": problem.message}
        return Response(encode(body), 400, media_type="application/json")
    return None
