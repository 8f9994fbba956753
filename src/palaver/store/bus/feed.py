"""The feed: passes committed events to listeners.

Events are in the log before listeners get them. Commits of this process arrive directly. After a commit of another
process, new events are read from the log. A listener buffers a limited number of events and bytes. A slow listener
reads from the log again. If its place in the log is gone, it gets a `reset` event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic
from types import TracebackType

from palaver.errors import PalaverError
from palaver.model.events import Event, reset
from palaver.store.bus import events, threads
from palaver.store.engines.database import Engine

MOST_BUFFERED = 1_000
"""How many events a listener buffers."""
MOST_BYTES = 1_000_000
"""How many bytes a listener buffers. Also the size of a batch from the log, unless one event is larger."""
READ_AT_ONCE = 500
"""How many events are read from the log at once."""


class FeedClosed(Exception):
    """The server is closing. There will be no more events."""


class Listener:
    """Listens to all events or to one thread. Use it as `async with here.feed(...) as listener`."""

    def __init__(self, feed: Feed, after: int | None, thread_id: str | None) -> None:
        self._feed = feed
        self._after = after
        self._at = 0
        self.thread_id = thread_id
        self._buffer: deque[Event] = deque()
        self._buffered_bytes = 0
        self._reads_log = False
        self._awake = asyncio.Event()

    async def __aenter__(self) -> Listener:
        if self.thread_id is not None:
            self.thread_id = await self._feed.thread_id_of(self.thread_id)
        self._at = await self._feed.join(self)
        if self._after is not None:
            self._at, self._reads_log = self._after, True
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._feed.leave(self)

    def hear(self, event: Event) -> None:
        """Buffer an event, or go back to reading the log if the buffer is full."""
        if len(self._buffer) >= MOST_BUFFERED or self._buffered_bytes + len(event.payload) > MOST_BYTES:
            self._reads_log = True
        if self._reads_log:
            self._clear_buffer()  # the event is in the log
        else:
            self._buffer.append(event)
            self._buffered_bytes += len(event.payload)
        self._awake.set()

    def _clear_buffer(self) -> None:
        self._buffer.clear()
        self._buffered_bytes = 0

    def wake(self) -> None:
        self._awake.set()

    async def wait_for(self, concerns: Callable[[Event], bool], seconds: float) -> None:
        """Wait for an event that concerns the listener, at most so many seconds; inf means without a limit."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            if any(map(concerns, await self.next(left if left < inf else None))):
                break

    async def next(self, timeout: float | None = None) -> list[Event]:
        """The next events, in order, without gaps or repeats. An empty list means a timeout."""
        if self._reads_log:
            batch = await self._from_log()
            if batch:
                return batch
        if not self._buffer:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._awake.wait()
            self._awake.clear()
            if self._reads_log:
                return await self._from_log()
        if self._feed.is_closed:
            raise FeedClosed
        batch = [event for event in self._buffer if event.id > self._at]
        self._clear_buffer()
        if batch:
            self._at = batch[-1].id
        return batch

    async def _from_log(self) -> list[Event]:
        first, last = await self._feed.bounds()
        if self._at > last or self._at + 1 < first:
            self._reads_log, self._at = False, last
            self._clear_buffer()
            return [reset(last)]
        self._reads_log = False  # buffer new events again; duplicates are dropped by their ids
        batch, has_more = await self._feed.read(self._at, self.thread_id)
        if batch:
            self._at = batch[-1].id
            if has_more:
                self._reads_log = True
                self._clear_buffer()
        return batch


class Feed:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listeners: dict[str | None, set[Listener]] = {}
        self._last: int | None = None
        self._dirty = asyncio.Event()
        self._starting = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self.is_closed = False
        engine.on_commit(self._committed)

    @property
    def listening(self) -> int:
        return sum(len(listeners) for listeners in self._listeners.values())

    async def join(self, listener: Listener) -> int:
        """Add a listener. Returns the id of the last event before it joined."""
        async with self._starting:
            if self._last is None:
                _, self._last = await self.bounds()
                self._tasks = [
                    asyncio.create_task(self._read_log_when_dirty()),
                    asyncio.create_task(self._engine.watch(self._dirty.set)),
                ]
            self._listeners.setdefault(listener.thread_id, set()).add(listener)
            return self._last

    def leave(self, listener: Listener) -> None:
        others = self._listeners.get(listener.thread_id, set())
        others.discard(listener)
        if not others:
            self._listeners.pop(listener.thread_id, None)
        if not self._listeners and not self._starting.locked():
            self._stop_watching()

    def _stop_watching(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks, self._last = [], None

    async def thread_id_of(self, name: str) -> str:
        """The id of the thread with this id or topic. An unknown id may be that of a deleted thread."""
        stored = await self._engine.read(lambda read: threads.named(read, name))
        return stored.thread.id if stored else name

    async def bounds(self) -> tuple[int, int]:
        return await self._engine.read(events.bounds)

    async def read(self, after: int, thread_id: str | None) -> tuple[list[Event], bool]:
        """The next events of the log, and whether there may be more."""
        return await self._engine.read(
            lambda read: events.batch_after(read, after, thread_id, READ_AT_ONCE, MOST_BYTES)
        )

    def _committed(self, told: list[Event]) -> None:
        """Pass on the events of a commit of this process. If events are missing before them, read the log instead."""
        if self._last is None:
            return
        if told[0].id == self._last + 1:
            self._pass_on(told)
        elif told[-1].id > self._last:
            self._dirty.set()

    def _pass_on(self, told: list[Event]) -> None:
        self._last = told[-1].id
        everyone = self._listeners.get(None, ())
        for event in told:
            for listener in everyone:
                listener.hear(event)
            if event.thread_id is not None:
                for listener in self._listeners.get(event.thread_id, ()):
                    listener.hear(event)

    async def _read_log_when_dirty(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            with suppress(PalaverError):  # the database is busy or unreachable: try again after the next commit
                while self._last is not None:
                    batch, has_more = await self.read(self._last, None)
                    new = [event for event in batch if event.id > self._last]
                    if new:
                        self._pass_on(new)
                    if not has_more:
                        break

    def close(self) -> None:
        """End all listeners."""
        self.is_closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.wake()
        self._stop_watching()
