"""Workaround: MCP sessions over HTTP survive a restart of the server, and continue on another server.

The SDK keeps sessions in memory and answers 404 to unknown session ids. Many clients do not recover from that
(modelcontextprotocol/python-sdk#1676, modelcontextprotocol/typescript-sdk#1476). So the server resumes an unknown id:
it repeats the handshake with itself, and the session continues under its id. The database knows how a session began
(`operations/mcp_sessions.py`) and its agent (`operations/identity.py`).
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from math import inf
from typing import Any

import orjson
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext, authorization_context
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from palaver.doors.authentication import Requester
from palaver.operations import mcp_sessions

FALLBACK_VERSION = "2025-06-18"
"""The protocol version of a client that sends no mcp-protocol-version header."""
MAX_SESSIONS = 1_000
"""Maximum number of sessions in memory. A new one then replaces the one that has been idle longest."""
MAX_ENDED = 10_000
"""Number of ended session ids that are remembered."""
_SESSION_ID = re.compile(r"[!-~]{8,128}")


class ResumingSessionManager(StreamableHTTPSessionManager):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._resuming: dict[str, asyncio.Lock] = {}

    async def _handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super()._handle_request(scope, receive, send)
        session_id = header_of(scope, b"mcp-session-id")
        if scope["method"] == "DELETE" and session_id and session_id not in self._server_instances:
            self._ended[session_id] = None  # from now on its id gets a 404, as the protocol requires
            while len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        if len(self._server_instances) >= MAX_SESSIONS:
            # Drop the session that has been idle longest. Its client can resume it.
            idle = [  # a session that is being served has an infinite deadline
                (transport.idle_scope.deadline, id)
                for id, transport in self._server_instances.items()
                if transport.idle_scope is not None and transport.idle_scope.deadline < inf
            ]
            if idle:
                _, id = min(idle)
                self._session_owners.pop(id, None)
                scope = self._server_instances.pop(id).idle_scope
                assert scope is not None
                scope.cancel()
        return super()._admit_session(requestor)

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        successor, owner = self._server_instances.get(session_id), self._session_owners.get(session_id)
        await super()._discard_session(session_id, transport)
        if successor not in (None, transport):  # it was dropped, and then resumed under the same id
            self._server_instances[session_id] = successor
            if owner is not None:
                self._session_owners[session_id] = owner

    async def resume(self, session_id: str, scope: Scope) -> None:
        """Create a session with this id, if it is unknown and the client did not end it."""
        if session_id in self._server_instances:
            return
        version = header_of(scope, b"mcp-protocol-version")
        is_handshake = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        if session_id in self._ended or not is_handshake or not _SESSION_ID.fullmatch(session_id):
            return
        requester: Requester = scope["palaver.requester"]
        begun = await mcp_sessions.find(requester.workspace, session_id)
        if begun and (begun.opening is None or begun.token_id != requester.token_id):
            return  # it has ended, or it belongs to another token
        if begun:
            await mcp_sessions.keep(requester.workspace, session_id)
        else:
            await mcp_sessions.begin(requester.workspace, session_id, requester.token_id, {})
        lock = self._resuming.setdefault(session_id, asyncio.Lock())
        async with lock:
            if session_id not in self._server_instances:
                await self._create(session_id, version or FALLBACK_VERSION, scope, (begun and begun.opening) or {})
        self._resuming.pop(session_id, None)

    async def prepare_end(self, session_id: str, scope: Scope) -> None:
        """The client ends a session. Another server may have begun it, and no server may continue it."""
        requester: Requester = scope["palaver.requester"]
        begun = await mcp_sessions.find(requester.workspace, session_id)
        if begun and begun.opening is not None and begun.token_id == requester.token_id:
            await self.resume(session_id, scope)
            await mcp_sessions.end(requester.workspace, session_id, requester.token_id)

    async def _create(self, session_id: str, version: str, scope: Scope, opening: dict[str, Any]) -> None:
        user = scope.get("user")
        requestor = authorization_context(user) if isinstance(user, AuthenticatedUser) else None
        async with self._session_creation_lock:
            transport = self._admit_session(requestor)
            if transport is None:
                return
            new_id = transport.mcp_session_id
            assert new_id is not None
            self._server_instances[session_id] = self._server_instances.pop(new_id)
            if requestor is not None:
                self._session_owners[session_id] = self._session_owners.pop(new_id)
            transport.mcp_session_id = session_id
        # Without capabilities: an answer of the client might go to another server.
        params = {"clientInfo": {"name": "", "version": ""}, **opening, "protocolVersion": version, "capabilities": {}}
        await self._serve_opening_request(transport, *_own_request(scope, None, "initialize", params))
        if session_id in self._server_instances:
            await transport.handle_request(*_own_request(scope, session_id, "notifications/initialized", None))


def _own_request(scope: Scope, session_id: str | None, method: str, params: Any) -> tuple[Scope, Receive, Send]:
    """A POST request as if from the client. Its response is discarded."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message |= {"id": 0, "params": params}
    body = orjson.dumps(message)
    own = (b"mcp-session-id", b"content-type", b"content-length", b"accept", b"last-event-id")
    headers = [(name, value) for name, value in scope["headers"] if name not in own]
    headers += [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"accept", b"application/json, text/event-stream"),
    ]
    if session_id:
        headers.append((b"mcp-session-id", session_id.encode("latin-1")))
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if parts:
            return parts.pop()
        await asyncio.Event().wait()  # the client never disconnects
        raise AssertionError

    async def send(message: Message) -> None:
        pass

    return {**scope, "method": "POST", "headers": headers}, receive, send


def header_of(scope: Scope | Message, name: bytes) -> str | None:
    """A header of a request or a response."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)
