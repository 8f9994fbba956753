"""Workaround: MCP sessions over HTTP survive a restart of the server, and continue on another server.

The SDK keeps sessions in memory and answers 404 to unknown session ids. Many clients do not recover from that
(modelcontextprotocol/python-sdk#1676, modelcontextprotocol/typescript-sdk#1476). So the server resumes an unknown id:
it repeats the handshake with itself, and the session continues under its id. The database knows how a session began and
whether its client has ended it (`operations/mcp_sessions.py`), and its agent (`operations/identity.py`). It is asked at
every request, because another server may have ended the session.

Each workspace has session ids of its own: an id of another one is answered like an id that nobody uses. In a workspace
a session belongs to the token that began it.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from contextvars import Context
from math import inf
from typing import Any

import anyio
import mcp_types as types
import orjson
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager, _error_response
from mcp.shared.message import SessionMessage
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from palaver.doors.authentication import Requester
from palaver.operations import mcp_sessions

FALLBACK_VERSION = "2025-06-18"
"""The protocol version of a client that sends no mcp-protocol-version header."""
MAX_SESSIONS = 1_000
"""Maximum number of sessions in memory. A new one then replaces the one that has been idle longest."""
MAX_OF_CALLER = 250
"""The same for the sessions of one caller."""
MAX_BUSY = 1_000
"""Sessions with an open request are not replaced. A caller with this many gets no further one."""
ENDED_SECONDS = 0.5
"""How long a request waits for the database to tell that another server has ended its session."""
_SESSION_ID = re.compile(r"[!-~]{8,128}")

SessionKey = tuple[str, str | None, str]
"""Workspace, token id and session id."""


class ResumingSessionManager(StreamableHTTPSessionManager):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sessions: OrderedDict[SessionKey, StreamableHTTPServerTransport] = OrderedDict()
        """The sessions in memory, the one that was used last at the end."""
        self._resuming: dict[SessionKey, asyncio.Lock] = {}

    async def _handle_stateful_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        session_id = header_of(scope, b"mcp-session-id")
        if session_id is not None and scope["method"] == "DELETE":
            response = await self._end(session_id, scope)
            await response(scope, receive, send)
            return
        transport = self._admit(scope) if session_id is None else await self._find(session_id, scope)
        if isinstance(transport, Response):
            await transport(scope, receive, send)
            return
        if session_id is None:
            self._sessions[_key(scope, transport.mcp_session_id)] = transport
            await self._serve_opening_request(transport, scope, receive, send)
        else:
            await transport.handle_request(scope, receive, send)
        _release_messages(transport)

    def _admit(self, scope: Scope) -> StreamableHTTPServerTransport | Response:
        """A new session, or the answer that refuses it. Idle ones make room: their clients can resume them."""
        own = [key for key in self._sessions if key[:2] == _key(scope)[:2]]
        dropped = self._drop_idle(own, len(own) + 1 - MAX_OF_CALLER)
        self._drop_idle(list(self._sessions), len(self._sessions) + 1 - MAX_SESSIONS)
        transport = super()._admit_session(None) if len(own) - dropped < MAX_BUSY else None
        self._server_instances.clear()  # there the SDK would find sessions by their ids alone
        return transport or _error_response("Too many open sessions. End some, then try again.", 503)

    def _drop_idle(self, keys: Iterable[SessionKey], count: int) -> int:
        """Drop so many of these sessions, the longest idle ones first. Returns how many were idle enough."""
        dropped = 0
        for key in keys:
            idle_scope = self._sessions[key].idle_scope
            # A session that is being served has an infinite deadline.
            if dropped < count and idle_scope is not None and idle_scope.deadline < inf:
                del self._sessions[key]
                idle_scope.cancel()
                dropped += 1
        return dropped

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        for key in [key for key, one in self._sessions.items() if one is transport]:
            del self._sessions[key]
        await super()._discard_session(session_id, transport)

    async def _find(self, session_id: str, scope: Scope) -> StreamableHTTPServerTransport | Response:
        """The session with this id, or the answer that refuses it. An unknown one is created."""
        if not _SESSION_ID.fullmatch(session_id):
            return _error_response("Session not found", 404)
        requester: Requester = scope["palaver.requester"]
        key = _key(scope, session_id)
        # A busy or absent database does not stop a session in memory.
        seconds = ENDED_SECONDS if key in self._sessions else None
        begun = await mcp_sessions.find(requester.workspace, session_id, seconds)
        if begun and (begun.opening is None or begun.token_id != requester.token_id):
            if transport := self._sessions.get(key):
                await self._discard_session(session_id, transport)
            return _error_response("Session not found", 404)
        found: StreamableHTTPServerTransport | Response | None = self._sessions.get(key)
        if found:
            self._sessions.move_to_end(key)
            return found
        try:
            async with self._resuming.setdefault(key, asyncio.Lock()):
                found = self._sessions.get(key)
                if found is None:
                    if begun:
                        await mcp_sessions.keep(requester.workspace, session_id)
                    else:
                        await mcp_sessions.begin(requester.workspace, session_id, requester.token_id, {})
                    found = await self._create(key, scope, (begun and begun.opening) or {})
        finally:
            self._resuming.pop(key, None)
        return found

    async def _end(self, session_id: str, scope: Scope) -> Response:
        """The client ends a session, which another server may have begun. No server continues it."""
        requester: Requester = scope["palaver.requester"]
        begun = await mcp_sessions.find(requester.workspace, session_id)
        transport = self._sessions.get(_key(scope, session_id))
        is_its_own = begun.token_id == requester.token_id if begun else transport is not None
        if not is_its_own or (begun and begun.opening is None):
            return _error_response("Session not found", 404)
        await mcp_sessions.end(requester.workspace, session_id, requester.token_id)
        if transport:
            await self._discard_session(session_id, transport)
        return Response(media_type="application/json")

    async def _create(
        self, key: SessionKey, scope: Scope, opening: dict[str, Any]
    ) -> StreamableHTTPServerTransport | Response:
        transport = self._admit(scope)
        if isinstance(transport, Response):
            return transport
        version, session_id = header_of(scope, b"mcp-protocol-version") or FALLBACK_VERSION, key[2]
        transport.mcp_session_id = session_id
        # Without capabilities: an answer of the client might go to another server.
        params = {"clientInfo": {"name": "", "version": ""}, **opening, "protocolVersion": version, "capabilities": {}}
        await self._serve_opening_request(transport, *_own_request(scope, None, "initialize", params))
        if not transport.is_terminated:
            await transport.handle_request(*_own_request(scope, session_id, "notifications/initialized", None))
            self._sessions[key] = transport
        return transport  # one that was terminated answers 404


def _key(scope: Scope, session_id: str | None = None) -> SessionKey:
    requester: Requester = scope["palaver.requester"]
    return requester.workspace.name, requester.token_id, session_id or ""


def _release_messages(transport: StreamableHTTPServerTransport) -> None:
    """Workaround: give the loops of the SDK a message that nobody gets. Each keeps the last message in a variable while
    it waits for the next one, perhaps for an hour, and a message can have megabytes."""
    nothing = SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id="", result={}))
    for stream in (transport._write_stream, transport._read_stream_writer):
        if stream is not None:
            with suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
                stream._inner.send_nowait((Context(), nothing))


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
