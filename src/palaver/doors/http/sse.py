"""Server-sent events: each client is a loop over the event feed.

An event is encoded once for all clients. A client that does not read is disconnected after STUCK_SECONDS. Until then it
holds at most one batch of the feed (a megabyte). It can resume with Last-Event-ID.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from palaver.doors.authentication import Requester
from palaver.doors.http.rest import reports_errors, wait_for_disconnect
from palaver.operations.bus.threads import OneThread, get_thread
from palaver.store.bus.feed import FeedClosed

KEEP_ALIVE_SECONDS = 15.0
STUCK_SECONDS = 20.0

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream(Response):
    """A response that never ends. A HEAD request gets only the headers."""

    def __init__(self, requester: Requester, after: int | None, thread_id: str | None) -> None:
        self._requester, self._after, self._thread_id = requester, after, thread_id
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await send({"type": "http.response.body", "body": b""})
            return
        streaming = asyncio.create_task(self._stream(send))
        disconnect = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait((streaming, disconnect), return_when=asyncio.FIRST_COMPLETED)
        finally:
            disconnect.cancel()
            streaming.cancel()
            with suppress(asyncio.CancelledError, FeedClosed, TimeoutError, OSError):
                await streaming

    async def _stream(self, send: Send) -> None:
        is_agent = self._requester.caller.is_agent
        async with self._requester.workspace.feed(self._after, self._thread_id) as listener:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await _write(send, b": connected\n\n")
            while True:
                try:
                    batch = await listener.next(timeout=KEEP_ALIVE_SECONDS)
                except FeedClosed:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    return
                frames = b"".join([event.frame(is_agent) for event in batch])
                await _write(send, frames or b": keep-alive\n\n")


async def _write(send: Send, data: bytes) -> None:
    async with asyncio.timeout(STUCK_SECONDS):
        await send({"type": "http.response.body", "body": data, "more_body": True})


def _after(request: Request) -> int | None:
    """The last event id, from the header that browsers send on reconnecting, or from a parameter."""
    given = request.headers.get("last-event-id") or request.query_params.get("last_event_id") or ""
    return int(given) if given.isdecimal() and len(given) < 19 else None


@reports_errors
async def all_events(request: Request) -> Response:
    if thread_id := request.query_params.get("thread_id"):
        return await _thread_stream(thread_id, request)
    return EventStream(request.scope["palaver.requester"], _after(request), None)


@reports_errors
async def thread_events(request: Request) -> Response:
    return await _thread_stream(request.path_params["thread_id"], request)


async def _thread_stream(thread_id: str, request: Request) -> Response:
    requester: Requester = request.scope["palaver.requester"]
    thread = await get_thread.perform(requester.workspace, requester.caller, OneThread(thread_id=thread_id[:500]))
    return EventStream(requester, _after(request), thread.id)
