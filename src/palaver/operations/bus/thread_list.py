"""Thread list for the console: each thread with its last message and recent participants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from palaver.model.messages import HIDDEN, Thread, is_human_only
from palaver.model.people import Caller
from palaver.model.requests import Ask, clamp
from palaver.operations.operation import Route, operation
from palaver.store.bus import thread_list
from palaver.store.engines.database import Reader


class GlanceAtThreads(Ask):
    include_archived: bool = False
    """Also list archived threads."""
    limit: Annotated[int, clamp(1, 500)] = 200
    """Maximum number of threads, up to 500."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """Number of threads to skip."""


@dataclass(frozen=True, slots=True)
class LastSaid:
    """The start of the last message."""

    seq: int
    author_name: str
    text: str
    is_human_only: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Glance:
    """A thread, the start of its last message, and its recent participants, latest first."""

    thread: Thread
    last_message: LastSaid | None
    participants: list[str]


@dataclass(frozen=True, slots=True)
class Glances:
    threads: list[Glance]
    has_more: bool


@operation(Route("GET", "/api/threads/glance"))
def glance_at_threads(read: Reader, caller: Caller, ask: GlanceAtThreads) -> Glances:
    """List threads, latest message first, each with the start of its last message and its recent participants."""
    seen = thread_list.threads_at_a_glance(
        read, include_archived=ask.include_archived, limit=ask.limit + 1, offset=ask.offset
    )
    return Glances([_glance(caller, one) for one in seen[: ask.limit]], len(seen) > ask.limit)


def _glance(caller: Caller, seen: thread_list.Seen) -> Glance:
    last = seen.last_few[-1] if seen.last_few else None
    names = dict.fromkeys(said.author_name for said in reversed(seen.last_few))
    return Glance(seen.thread, _said(caller, last) if last else None, list(names))


def _said(caller: Caller, last: thread_list.Last) -> LastSaid:
    for_humans = is_human_only(last.metadata)
    text = HIDDEN if for_humans and caller.is_agent else last.text
    return LastSaid(last.seq, last.author_name, text, for_humans, last.created_at)
