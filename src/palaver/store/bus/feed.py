"""The feed: one log, many listeners.

Events are in the tables before anybody hears of them. Commits of this process arrive directly; when another process
may have committed, whatever is new is read from the log. A listener holds a bounded number of events and bytes: one
that is too slow goes back to reading the log, and one whose place in the log is gone is told `reset`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from types import TracebackType

from palaver.errors import PalaverError
from palaver.model.events import Event, reset
from palaver.store.bus import events, threads
from palaver.store.engines.database import Engine

HELD_AT_MOST = 1_000
HELD_BYTES = 1_000_000
"""What a listener holds at the most, in bytes; also what is read from the log at once, unless one event is larger."""
READ_AT_ONCE = 500


class FeedClosed(Exception):
    """The house is closing: no more will be told."""


class Listener:
    """One who listens, to everything or to one thread. Use it as `async with here.feed(...) as listener`."""

    def __init__(self, feed: Feed, after: int | None, thread_id: str | None) -> None:
        self._feed = feed
        self._after = after
        self._at = 0
        self.thread_id = thread_id
        self._held: deque[Event] = deque()
        self._held_bytes = 0
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
        if len(self._held) >= HELD_AT_MOST or self._held_bytes + len(event.payload) > HELD_BYTES:
            self._reads_log = True
        if self._reads_log:
            self._let_go()  # it stands in the log
        else:
            self._held.append(event)
            self._held_bytes += len(event.payload)
        self._awake.set()

    def _let_go(self) -> None:
        self._held.clear()
        self._held_bytes = 0

    def wake(self) -> None:
        self._awake.set()

    async def next(self, timeout: float | None = None) -> list[Event]:
        """The next events, in order, without a gap or a repeat. An empty list: nothing happened in that time."""
        if self._reads_log:
            batch = await self._from_log()
            if batch:
                return batch
        if not self._held:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._awake.wait()
            self._awake.clear()
            if self._reads_log:
                return await self._from_log()
        if self._feed.is_closed:
            raise FeedClosed
        batch = [event for event in self._held if event.id > self._at]
        self._let_go()
        if batch:
            self._at = batch[-1].id
        return batch

    async def _from_log(self) -> list[Event]:
        first, last = await self._feed.bounds()
        if self._at > last or self._at + 1 < first:
            self._reads_log, self._at = False, last
            self._let_go()
            return [reset(last)]
        self._reads_log = False  # from here on news is held again; what the log gives twice is dropped by its id
        batch, has_more = await self._feed.read(self._at, self.thread_id)
        if batch:
            self._at = batch[-1].id
            if has_more:
                self._reads_log = True
                self._let_go()
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

    def listener(self, after: int | None = None, thread_id: str | None = None) -> Listener:
        return Listener(self, after, thread_id)

    async def join(self, listener: Listener) -> int:
        """Hear everything from now on; returns the last event before that."""
        async with self._starting:
            if self._last is None:
                _, self._last = await self.bounds()
                self._tasks = [
                    asyncio.create_task(self._keep_up()),
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
            self._rest()

    def _rest(self) -> None:
        """Nobody listens: stop watching."""
        for task in self._tasks:
            task.cancel()
        self._tasks, self._last = [], None

    async def thread_id_of(self, name: str) -> str:
        """The id of the thread with this id or topic. A deleted thread is still listened to by its id."""
        stored = await self._engine.read(lambda read: threads.named(read, name))
        return stored.thread.id if stored else name

    async def bounds(self) -> tuple[int, int]:
        return await self._engine.read(events.bounds)

    async def read(self, after: int, thread_id: str | None) -> tuple[list[Event], bool]:
        """The next events of the log, and whether there may be more."""
        return await self._engine.read(
            lambda read: events.batch_after(read, after, thread_id, READ_AT_ONCE, HELD_BYTES)
        )

    def _committed(self, told: list[Event]) -> None:
        """This process has committed. In step with what we know: pass it on. Otherwise read the log."""
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

    async def _keep_up(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            with suppress(PalaverError):  # the database is busy or away: the next commit brings us back here
                while self._last is not None:
                    batch, has_more = await self.read(self._last, None)
                    new = [event for event in batch if event.id > self._last]
                    if new:
                        self._pass_on(new)
                    if not has_more:
                        break

    def close(self) -> None:
        """Let everybody who listens go."""
        self.is_closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.wake()
        self._rest()
