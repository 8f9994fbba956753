"""Workaround: send large MCP answers as JSON instead of as a server-sent event.

The official Python client refuses events above 1 MiB (modelcontextprotocol/python-sdk#3332). Streamable HTTP allows a
plain JSON answer, which has no such limit. A large first event is always the answer, as notifications are small.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Message, Send

MAX_EVENT_BYTES = 1_000_000
HEADERS_WAIT_SECONDS = 2.0
"""How long the headers wait for the first event."""


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
