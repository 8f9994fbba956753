"""An engine that can be closed while nobody uses it. The next use opens it again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from palaver.errors import Unavailable
from palaver.model.events import Event
from palaver.store.engines.database import Change, Engine, EngineStats, Reader, SearchReader

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

    async def _begin_in_thread(self) -> Engine:
        if self._engine is not None and self._lock.acquire(blocking=False):
            try:
                if self._engine is not None:
                    self._uses += 1
                    return self._engine
            finally:
                self._lock.release()
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

    async def read(self, work: Callable[[Reader], T], seconds: float | None = None) -> T:
        engine = await self._begin_in_thread()
        try:
            return await engine.read(work, seconds)
        finally:
            self._end()

    async def search(self, work: Callable[[SearchReader], T], seconds: float) -> T:
        engine = await self._begin_in_thread()
        try:
            return await engine.search(work, seconds)
        finally:
            self._end()

    async def change(self, work: Callable[[Change], T]) -> T:
        engine = await self._begin_in_thread()
        try:
            return await engine.change(work)
        finally:
            self._end()

    async def change_beside(self, work: Callable[[Change], T]) -> T:
        engine = await self._begin_in_thread()
        try:
            return await engine.change_beside(work)
        finally:
            self._end()

    def on_commit(self, told: Callable[[list[Event]], None]) -> None:
        self._told = told
        if self._engine is not None:
            self._engine.on_commit(told)

    async def watch(self, woken: Callable[[], None]) -> None:
        engine = await self._begin_in_thread()
        try:
            await engine.watch(woken)
        finally:
            self._end()

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
