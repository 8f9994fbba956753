"""Searches of one caller, and those of one search session, take turns, so that other callers find a free thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from palaver.errors import TooMany

SEARCHES_AT_ONCE = 2
"""How many searches of one caller run at the same time. Further ones wait."""
MOST_WAITING = 2_000
"""How many searches of one caller may wait. Further ones are refused."""


class Turns:
    """The searches that run or wait, by their caller or session."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._turns: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[Hashable] = Counter()

    @asynccontextmanager
    async def of(self, who: Hashable) -> AsyncIterator[None]:
        if self._waiting[who] >= MOST_WAITING:
            raise TooMany(f"{MOST_WAITING} of your searches are waiting already. Wait for their answers.", 1)
        turn = self._turns.setdefault(who, asyncio.Semaphore(self._at_once))
        self._waiting[who] += 1
        try:
            await turn.acquire()
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]
        try:
            yield
        finally:
            turn.release()
