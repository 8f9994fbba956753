"""An engine that can be closed while nobody uses it. The next use opens it again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from palaver.errors import Unavailable
from palaver.model.events import Event
from palaver.store.engines.database import Change, Engine, EngineStats, SearchReader

T = TypeVar("T")


class ReopeningEngine:
    """Opens its engine at the first use, and again after `close_idle`."""

    def __init__(self, opened: Engine, open_again: Callable[[], Engine]) -> None:
        self._engine: Engine | None = opened
        self._open_again = open_again
        self._told: Callable[[list[Event]], None] = lambda events: None
        self._uses = 0
        self._past = EngineStats()
        """The commits of the engines that were closed."""
        self._is_closed = False
        self._lock = threading.Lock()
        self.has_lost_log = opened.has_lost_log
        self.prepare_text, self.long_changes_at_once = opened.prepare_text, opened.long_changes_at_once

    @property
    def is_open(self) -> bool:
        return self._engine is not None

    def close_idle(self) -> bool:
        """Close the engine if it is open and no read, change or watch is running. The next use opens it again."""
        with self._lock:
            engine = self._engine
            if engine is None or self._uses:
                return False
            self._engine = None
        engine.close()
        last = engine.stats()
        self._past.commits += last.commits
        self._past.commit_seconds += last.commit_seconds
        return True

    def _begin(self) -> Engine:
        """The engine, which is not closed before `_end`. Opens it if necessary, so call this in a thread."""
        with self._lock:
            if self._is_closed:
                raise Unavailable("The workspace was closed. Try again in a moment.")
            if self._engine is None:
                self._engine = self._open_again()
                self._engine.on_commit(self._told)
            self._uses += 1
            return self._engine

    @asynccontextmanager
    async def _in_use(self) -> AsyncIterator[Engine]:
        """The engine, which is not closed within the block."""
        engine = self._begin_if_open() or await self._begin_in_thread()
        try:
            yield engine
        finally:
            self._end()

    def _begin_if_open(self) -> Engine | None:
        """Begin, unless the engine is closed or being opened."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._uses += self._engine is not None
            return self._engine
        finally:
            self._lock.release()

    async def _begin_in_thread(self) -> Engine:
        opening = asyncio.ensure_future(asyncio.to_thread(self._begin))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:  # the caller has gone, but the thread goes on
            opening.add_done_callback(self._end_unused)
            raise

    def _end_unused(self, opening: asyncio.Future[Engine]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._uses -= 1

    async def read(
        self, work: Callable[[SearchReader], T], seconds: float | None = None, *, is_search: bool = False
    ) -> T:
        async with self._in_use() as engine:
            return await engine.read(work, seconds, is_search=is_search)

    async def change(self, work: Callable[[Change], T], *, is_long: bool = False) -> T:
        async with self._in_use() as engine:
            return await engine.change(work, is_long=is_long)

    async def watch(self, woken: Callable[[], None]) -> None:
        async with self._in_use() as engine:
            await engine.watch(woken)

    def on_commit(self, told: Callable[[list[Event]], None]) -> None:
        self._told = told
        if self._engine is not None:
            self._engine.on_commit(told)

    def _use(self, work: Callable[[Engine], T]) -> T:
        engine = self._begin()
        try:
            return work(engine)
        finally:
            self._end()

    def check(self, *, is_quick: bool = False) -> list[str]:
        return self._use(lambda engine: engine.check(is_quick=is_quick))

    def lost_files(self) -> list[str]:
        return self._engine.lost_files() if self._engine is not None else []

    def create_missing_tables(self) -> list[str]:
        return self._use(lambda engine: engine.create_missing_tables())

    def empty_index(self) -> None:
        self._use(lambda engine: engine.empty_index())

    def copy_into(self, folder: Path) -> int:
        return self._use(lambda engine: engine.copy_into(folder))

    def wipe(self) -> None:
        self._use(lambda engine: engine.wipe())

    def stats(self) -> EngineStats:
        now = self._engine.stats() if self._engine is not None else EngineStats()
        seconds = self._past.commit_seconds + now.commit_seconds
        return EngineStats(now.waiting, self._past.commits + now.commits, seconds)

    def close(self) -> None:
        with self._lock:
            self._is_closed, engine, self._engine = True, self._engine, None
        if engine is not None:
            engine.close()
