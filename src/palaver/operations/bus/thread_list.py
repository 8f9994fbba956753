"""What one sees at a glance, before opening anything."""

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
    """Show archived threads too."""
    limit: Annotated[int, clamp(1, 500)] = 200
    """How many at the most, up to 500."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """How many to skip."""


@dataclass(frozen=True, slots=True)
class LastSaid:
    """How the last message begins."""

    seq: int
    author_name: str
    text: str
    is_human_only: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Glance:
    """A thread, how its last message begins, and who spoke lately, the latest first."""

    thread: Thread
    last_message: LastSaid | None
    participants: list[str]


@dataclass(frozen=True, slots=True)
class Glances:
    threads: list[Glance]
    has_more: bool


@operation(Route("GET", "/api/threads/glance"))
def glance_at_threads(read: Reader, caller: Caller, ask: GlanceAtThreads) -> Glances:
    """Threads, those with the latest message first, each with the beginning of that message and who spoke lately."""
    seen = thread_list.latest_threads(
        read, include_archived=ask.include_archived, limit=ask.limit + 1, offset=ask.offset
    )
    return Glances([_glance(caller, one) for one in seen[: ask.limit]], len(seen) > ask.limit)


def _glance(caller: Caller, seen: thread_list.ThreadSummary) -> Glance:
    last = seen.last_few[-1] if seen.last_few else None
    names = dict.fromkeys(said.author_name for said in reversed(seen.last_few))
    return Glance(seen.thread, _said(caller, last) if last else None, list(names))


def _said(caller: Caller, last: thread_list.MessageSummary) -> LastSaid:
    for_humans = is_human_only(last.metadata)
    text = HIDDEN if for_humans and caller.is_agent else last.text
    return LastSaid(last.seq, last.author_name, text, for_humans, last.created_at)
