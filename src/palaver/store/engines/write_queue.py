"""The queue of changes that wait for the writer. Changes that wait at the same time share one transaction."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from palaver.errors import Unavailable
from palaver.model.events import Event
from palaver.store.engines.database import Change

NEVER = 1 << 62
"""A queue length that is never reached, so that `put` does not wake the writer."""


@dataclass(slots=True)
class Job:
    """A change, and the future of the caller that waits for it."""

    work: Callable[[Change], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    result: Any = None
    problem: BaseException | None = None

    def finish(self) -> None:
        if self.done.cancelled():
            return
        if self.problem:
            self.done.set_exception(self.problem)
        else:
            self.done.set_result(self.result)


class WriteQueue:
    """A queue for one writer thread. The writer is woken once for a batch, not once for each job."""

    def __init__(self) -> None:
        self._jobs: deque[Job | None] = deque()
        self._wake_lock = threading.Lock()
        self._wake_lock.acquire()
        self._wakes_at = NEVER
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: Job | None) -> None:
        """Add a job. `None` closes the queue."""
        if self._is_closed and job is not None:
            raise Unavailable("palaver is closing. Try again in a moment.")
        self._is_closed = job is None
        self._jobs.append(job)
        if len(self._jobs) >= self._wakes_at or job is None:
            with suppress(RuntimeError):  # the writer is awake already
                self._wake_lock.release()

    def take(self, expected: int, most: int, seconds: float) -> list[Job | None]:
        """Block for a job, then wait up to `seconds` for a batch of `expected` jobs."""
        self._wakes_at = 1
        while not self._jobs:
            self._wake_lock.acquire()
        self._wakes_at = expected
        until = time.monotonic() + seconds
        while len(self._jobs) < expected and self._jobs[-1] is not None and (left := until - time.monotonic()) > 0:
            self._wake_lock.acquire(timeout=left)
        self._wakes_at = NEVER
        return [self._jobs.popleft() for _ in range(min(len(self._jobs), most))]


def send_events(jobs: list[Job], told: Callable[[list[Event]], None], events: list[Event]) -> None:
    """Pass committed events to the callback once, on an event loop that is still running."""
    for loop in {job.loop for job in jobs} if events else ():
        with suppress(RuntimeError):  # the loop has ended, and its listeners with it
            loop.call_soon_threadsafe(told, events)
            break


def finish_jobs(jobs: list[Job]) -> None:
    """Set the result of each job on the event loop of its caller. A loop that has ended has no waiting callers."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, some in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_finish_each, some)


def _finish_each(jobs: list[Job]) -> None:
    for job in jobs:
        job.finish()
