"""Searches of one caller take turns, so that other callers find a free thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from palaver.errors import TooMany

SEARCHES_AT_ONCE = 2
"""How many searches of one caller run at the same time. Further ones wait."""
MOST_WAITING = 2_000
"""How many searches of one caller may wait. Further ones are refused."""


class CallerTurns:
    """The searches of each caller that run or wait."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def of(self, who: str) -> AsyncIterator[None]:
        if self._waiting[who] >= MOST_WAITING:
            raise TooMany(f"{MOST_WAITING} of your searches are waiting already. Wait for their answers.", 1)
        turn = self._turns.setdefault(who, asyncio.Semaphore(SEARCHES_AT_ONCE))
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
