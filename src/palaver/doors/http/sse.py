"""Server-sent events: each client is a loop over the event feed.

An event is encoded once for all clients. A client that does not read is disconnected after STUCK_SECONDS. Until then it
holds at most one batch of the feed (a megabyte). It can resume with Last-Event-ID.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from palaver.doors.authentication import Requester
from palaver.operations.bus.threads import OneThread, get_thread
from palaver.store.bus.feed import FeedClosed

KEEP_ALIVE_SECONDS = 15.0
STUCK_SECONDS = 20.0


class EventStream(StreamingResponse):
    """A response that lasts until its frames end, or the client goes. A HEAD request gets only the headers."""

    def __init__(self, frames: AsyncGenerator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(frames, headers=headers, media_type="text/event-stream")
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        with suppress(OSError, StopAsyncIteration):  # a TimeoutError is an OSError
            async with aclosing(self._frames) as frames:
                first = await anext(frames)  # the client hears of its stream when it listens
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await _write(send, first)
                async for frame in frames:
                    await _write(send, frame)
            await send({"type": "http.response.body", "body": b""})


async def _write(send: Send, data: bytes) -> None:
    async with asyncio.timeout(STUCK_SECONDS):
        await send({"type": "http.response.body", "body": data, "more_body": True})


def _after(request: Request) -> int | None:
    """The last event id, from the header that browsers send on reconnecting, or from a parameter."""
    given = request.headers.get("last-event-id") or request.query_params.get("last_event_id") or ""
    return int(given) if given.isdecimal() and len(given) < 19 else None


async def _frames(request: Request, thread_id: str | None) -> AsyncGenerator[bytes]:
    requester: Requester = request.scope["palaver.requester"]
    with suppress(FeedClosed):
        async with requester.workspace.feed(_after(request), thread_id) as listener:
            yield b": connected\n\n"
            while True:
                batch = await listener.next(timeout=KEEP_ALIVE_SECONDS)
                yield b"".join([event.frame(requester.caller.is_agent) for event in batch]) or b": keep-alive\n\n"


async def events(request: Request) -> Response:
    """Events of the workspace, or of one thread."""
    requester: Requester = request.scope["palaver.requester"]
    thread_id = request.path_params.get("thread_id") or request.query_params.get("thread_id")
    if thread_id:
        thread = await get_thread.perform(requester.workspace, requester.caller, OneThread(thread_id=thread_id[:500]))
        thread_id = thread.id
    return EventStream(_frames(request, thread_id or None))
