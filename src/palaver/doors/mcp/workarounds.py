"""Workarounds for clients of MCP and for the SDK. Each names the issue that will end it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from palaver.errors import Unavailable
from palaver.model.events import encode

MAX_EVENT_BYTES = 1_000_000
HEADERS_WAIT_SECONDS = 2.0
"""How long the headers wait for the first event."""
_PAIR = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = rb"(u[dD][89a-fA-F][0-9a-fA-F]{2})"
_ESCAPE = re.compile(rb"\\(?:" + _PAIR + rb"|" + _HALF + rb"|.)", re.DOTALL)
SERVER_ERROR = -32000


# Send large MCP answers as JSON instead of as a server-sent event. The official Python client refuses events above 1
# MiB (modelcontextprotocol/python-sdk#3332). Streamable HTTP allows a plain JSON answer, which has no such limit. A
# large first event is always the answer, as notifications are small.


@asynccontextmanager
async def json_if_large(send: Send) -> AsyncIterator[Send]:
    """Wrap `send` for one POST. The headers wait for the first event, which decides their content type.

    They wait only for a short time, because a client wants to see that a long call has begun. Nothing is sent after
    the request has ended.
    """
    held: list[Message] = []
    is_done = False
    timer: asyncio.Task[None] | None = None

    async def send_headers_later() -> None:
        await asyncio.sleep(HEADERS_WAIT_SECONDS)
        if held:
            await send(held.pop())

    async def sending(message: Message) -> None:
        nonlocal is_done, timer
        if message["type"] == "http.response.start" and _is_event_stream(message):
            held.append(message)
            timer = asyncio.create_task(send_headers_later())
            return
        if is_done:
            return
        if held:
            start = held.pop()
            if timer:
                timer.cancel()
            event = message.get("body", b"")
            lines = [line for line in event.split(b"\n") if line.startswith(b"data:")]
            if len(event) > MAX_EVENT_BYTES and len(lines) == 1:
                answer, is_done = lines[0].removeprefix(b"data:").strip(), True
                headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
                kept = [pair for pair in start["headers"] if pair[0].lower() not in (b"content-type", b"cache-control")]
                await send({**start, "headers": kept + headers})
                await send({"type": "http.response.body", "body": answer})
                return
            await send(start)
        await send(message)

    try:
        yield sending
    finally:
        if timer:
            timer.cancel()


def _is_event_stream(start: Message) -> bool:
    kinds = [value for name, value in start["headers"] if name.lower() == b"content-type"]
    return start["status"] == 200 and bool(kinds) and kinds[0].startswith(b"text/event-stream")


# Accept JSON with lone surrogates, from clients that cut text in the middle of an emoji. The SDK's JSON parser
# refuses the whole message (pydantic/jiter#120). Here a NUL character replaces the lone surrogate. Queries ignore NUL
# characters, and texts to be stored are refused with the name of their field.


def replace_lone_surrogates(raw: bytes) -> bytes:
    if b"\\u" not in raw:
        return raw
    return _ESCAPE.sub(lambda found: rb"\u0000" if found[1] else found[0], raw)


async def fixed_body(receive: Receive, max_bytes: int) -> tuple[bytes, Receive]:
    """The body of a request, fixed, and a `receive` that returns it first. Its parts are joined, as an escape can be
    split between two of them. After `max_bytes` the rest stays where it is: the SDK refuses the request."""
    body, message = b"", await receive()
    while message["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body", False) or len(body) > max_bytes:
            message = {**message, "body": replace_lone_surrogates(body)}
            break
        message = await receive()
    held: list[Message] = [message]

    async def receive_fixed() -> Message:
        return held.pop() if held else await receive()

    return message.get("body", b""), receive_fixed


# Tell MCP clients that the database cannot be reached. Clients drop the body of a response with an error status
# (modelcontextprotocol/python-sdk#1212). So the message is sent with status 200 as JSON-RPC: as the result of a tool
# call, which the model reads, or as an error.


async def answer_unavailable(problem: Unavailable, max_bytes: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the request and answer it with the problem."""
    body, _ = await fixed_body(receive, max_bytes)
    try:
        request = orjson.loads(body)
        id, method = request.get("id"), request.get("method")
    except (ValueError, AttributeError):
        id = method = None
    if method == "tools/call":
        content = [{"type": "text", "text": encode(problem.as_tool_result()).decode()}]
        outcome: dict[str, Any] = {"result": {"content": content, "isError": True, "resultType": "complete"}}
    else:
        error = {"code": SERVER_ERROR, "message": problem.message, "data": problem.as_tool_result()}
        outcome = {"error": error}
    await JSONResponse({"jsonrpc": "2.0", "id": id, **outcome})(scope, receive, send)
