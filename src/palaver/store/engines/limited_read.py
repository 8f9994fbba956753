"""Reads that can be ended early: because the caller has gone, or because a search took too long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from typing import TypeVar

from palaver.errors import Timeout

AGAIN_SECONDS = 0.05
"""How often a read is interrupted until it ends. An interrupt between two statements has no effect."""
PATIENCE = 4
"""A search whose processor time is limited may take this many times as long, because others use the processors."""


T = TypeVar("T")


async def run_limited(threads: Executor, work: Callable[[LimitedRead], T], limited: LimitedRead) -> T:
    """Run a read in a thread. If its caller goes away, it ends soon."""
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, work, limited)
    except asyncio.CancelledError:
        limited.cancel()
        raise


class LimitedRead:
    """A read that runs in a thread, and can be ended from its event loop.

    `seconds` is its time limit, from the moment at which its thread begins: waiting for a thread does not count. If
    `counts_processor_time`, waiting for a processor does not count either, where the system can tell.
    """

    def __init__(self, seconds: float | None, *, counts_processor_time: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._counts_processor_time = counts_processor_time and hasattr(time, "pthread_getcpuclockid")
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None
        self._is_over = seconds is not None and seconds <= 0
        self._used: Callable[[], float] = float

    @property
    def milliseconds(self) -> int | None:
        """The time limit, for a database server that ends statements by itself."""
        return None if self._seconds is None else max(1, int(self._seconds * 1000))

    def cancel(self) -> None:
        """End the read: at its next statement or check, and by interrupting the statement that runs."""
        self._is_over = True
        if self._interrupt is not None:
            with suppress(RuntimeError):  # the loop is closing
                self._loop.run_in_executor(None, self._interrupt_now)
            self._loop.call_later(AGAIN_SECONDS, self.cancel)

    def _interrupt_now(self) -> None:
        with self._lock:  # so that the connection is not given to another read meanwhile
            if self._interrupt is not None:
                self._interrupt()

    def check(self) -> None:
        """Raise an error if the read should end. Statements do this, and long work between two statements."""
        if self._is_over or (self._seconds is not None and self._used() >= self._seconds):
            raise Timeout()

    @contextmanager
    def on(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Count the time of the block, which runs in the thread of the read. `interrupt` ends its statement."""
        self.check()
        self._interrupt = interrupt
        if self._seconds is not None:
            self._used = self._stopwatch()
            self._loop.call_soon_threadsafe(self._look)
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None

    def _stopwatch(self) -> Callable[[], float]:
        began = time.monotonic()
        if not self._counts_processor_time:
            return lambda: time.monotonic() - began
        clock = time.pthread_getcpuclockid(threading.get_ident())
        before = time.clock_gettime(clock)
        return lambda: max(time.clock_gettime(clock) - before, (time.monotonic() - began) / PATIENCE)

    def _look(self) -> None:
        """End the read if its time is over, else look again when it may be."""
        if self._interrupt is None or self._seconds is None:
            return
        left = self._seconds - self._used()
        if left <= 0:
            self.cancel()
        else:
            self._loop.call_later(max(left, 0.001), self._look)
