"""Answers too large for an event: the official MCP client takes no event of more than a mebibyte.

Over streamable HTTP an answer may as well come as plain JSON, which has no such limit. So where the first event of a
stream is that large, it is sent as JSON, and it is the answer: what is told on the way is small.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Message, Send

LARGEST_EVENT = 1_000_000
HEADERS_WAIT = 2.0
"""Seconds."""


@asynccontextmanager
async def plain_if_large(send: Send) -> AsyncIterator[Send]:
    """The same, for the answer to one POST. The headers wait for the first event, which decides what they say; but
    not for long: who waits for something wants to know that the waiting has begun. When the request is over nothing
    is sent any more: the answer was given, or broken off by somebody else."""
    held: list[Message] = []
    is_done = False
    late: asyncio.Task[None] | None = None

    async def let_go() -> None:
        await asyncio.sleep(HEADERS_WAIT)
        if held:
            await send(held.pop())

    async def sending(message: Message) -> None:
        nonlocal is_done, late
        if message["type"] == "http.response.start" and _is_stream(message):
            held.append(message)
            late = asyncio.create_task(let_go())
            return
        if is_done:
            return
        if held:
            start = held.pop()
            if late:
                late.cancel()
            answer = _answer_in(message.get("body", b""))
            if answer is not None:
                is_done = True
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
        if late:
            late.cancel()


def _is_stream(start: Message) -> bool:
    kinds = [value for name, value in start["headers"] if name.lower() == b"content-type"]
    return start["status"] == 200 and bool(kinds) and kinds[0].startswith(b"text/event-stream")


def _answer_in(event: bytes) -> bytes | None:
    """What a large event says; None for any other."""
    if len(event) <= LARGEST_EVENT:
        return None
    lines = [line for line in event.split(b"\n") if line.startswith(b"data:")]
    return lines[0].removeprefix(b"data:").strip() if len(lines) == 1 else None
