"""Jobs: changes that wait to be made. Whoever waits at the same moment shares one transaction, and one sync to disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from palaver.model.events import Event
from palaver.store.database import Change


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


def tell(jobs: list[Job], told: Callable[[list[Event]], None], events: list[Event]) -> None:
    """Pass on what was committed, once, on a loop that is still there."""
    for loop in {job.loop for job in jobs} if events else ():
        with suppress(RuntimeError):  # the loop is gone, and with it whoever listened
            loop.call_soon_threadsafe(told, events)
            break


def answer(jobs: list[Job]) -> None:
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
