"""Which messages may begin a turn, or keep a session from its stop: limits against loops, priorities, quiet hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import inf
from time import localtime

from palaver.model.times import now
from palaver.store.bus import deliveries
from palaver.store.bus.read_marks import Mention, ThreadReader
from palaver.store.engines.database import Reader

HOUR = timedelta(hours=1)
LOOK_AGAIN = 600.0
"""Seconds. The clock may be set meanwhile."""


@dataclass(frozen=True, slots=True)
class Ring:
    """`seconds` until a message may begin a turn: 0 is now, infinite is never. `turns_left`: how often two agents may
    begin turns of each other after this one, until a person writes."""

    seconds: float
    turns_left: int | None = None


NEVER = Ring(inf)


def ring_of(read: Reader, reader: ThreadReader, mention: Mention) -> Ring:
    message, settings = mention.message, read.settings
    if message.priority == "low" or (message.metadata or {}).get("expects") == "none":
        return NEVER
    quiet = 0.0 if message.priority in ("urgent", "system") else quiet_seconds(settings.quiet_hours)
    if message.author_id is None:
        return Ring(quiet)
    times, since_person = deliveries.turns_of_pair(read, mention, message.author_id, reader.key)
    turns_left = settings.turns_without_person - since_person - 1
    if turns_left < 0 or not settings.turns_per_hour:
        return NEVER
    recent = [at for at in times if abs(now() - at) < HOUR]
    is_full = len(recent) >= settings.turns_per_hour
    free = (min(recent[-settings.turns_per_hour :]) + HOUR - now()).total_seconds() if is_full else 0.0
    return Ring(max(quiet, free), turns_left)


def quiet_seconds(hours: str) -> float:
    """When to look again in quiet hours; 0 outside of them."""
    if not hours:
        return 0.0
    begin, end = (int(time[:2]) * 60 + int(time[3:]) for time in hours.split("-"))
    local = localtime()
    minute = local.tm_hour * 60 + local.tm_min
    is_quiet = begin <= minute < end if begin < end else minute >= begin or minute < end
    left = ((end - minute - 1) % 1440 + 1) * 60.0 - local.tm_sec
    return min(left, LOOK_AGAIN) if is_quiet else 0.0
