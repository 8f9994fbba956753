"""Jobs: changes that wait to be made. Whoever waits at the same moment shares one transaction, and one sync to disk."""

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


@dataclass(slots=True)
class Job:
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
    """Jobs that stand in line for one writer, which is woken once for all it takes and not once for each of them."""

    def __init__(self) -> None:
        self._jobs: deque[Job | None] = deque()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._rings_at = NEVER
        self._is_over = False

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: Job | None) -> None:
        """Stand in line. `None` is the last one: nobody comes after it."""
        if self._is_over and job is not None:
            raise Unavailable("palaver is closing. Try again in a moment.")
        self._is_over = job is None
        self._jobs.append(job)
        if len(self._jobs) >= self._rings_at or job is None:
            with suppress(RuntimeError):  # it rings already
                self._bell.release()

    def take(self, company: int, most: int, patience: float) -> list[Job | None]:
        """Wait until somebody is there; and a moment longer, until there are as many as there were the last time."""
        self._rings_at = 1
        while not self._jobs:
            self._bell.acquire()
        self._rings_at = company
        until = time.monotonic() + patience
        while len(self._jobs) < company and self._jobs[-1] is not None and (left := until - time.monotonic()) > 0:
            self._bell.acquire(timeout=left)
        self._rings_at = NEVER
        return [self._jobs.popleft() for _ in range(min(len(self._jobs), most))]


def send_events(jobs: list[Job], told: Callable[[list[Event]], None], events: list[Event]) -> None:
    """Pass on what was committed, once, on a loop that is still there."""
    for loop in {job.loop for job in jobs} if events else ():
        with suppress(RuntimeError):  # the loop is gone, and with it whoever listened
            loop.call_soon_threadsafe(told, events)
            break


def finish_jobs(jobs: list[Job]) -> None:
    """Tell everybody who waits, each on the loop they wait on. One that has ended has nobody waiting."""
    waiting: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        waiting.setdefault(job.loop, []).append(job)
    for loop, theirs in waiting.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_finish, theirs)


def _finish(jobs: list[Job]) -> None:
    for job in jobs:
        job.finish()
