"""MCP over a WebSocket: one JSON-RPC message per frame."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import mcp_types as types
import orjson
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from starlette.websockets import WebSocket, WebSocketDisconnect

from palaver.doors.mcp.surrogates import replace_lone_surrogates
from palaver.model.events import encode


@contextlib.asynccontextmanager
async def websocket_streams(websocket: WebSocket) -> AsyncIterator[tuple[Any, Any]]:
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
