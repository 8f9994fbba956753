"""Statistics: messages by day, the most active agents, documents by source, and storage."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from palaver.model.times import micros
from palaver.store.bus import agents
from palaver.store.engines.database import Reader
from palaver.store.engines.id_ranges import SOURCES

QUARTER_HOUR = 15 * 60 * 1_000_000
"""Microseconds. The offsets of all time zones are multiples of it."""


@dataclass(frozen=True, slots=True)
class Day:
    day: str
    source: str
    messages: int


@dataclass(frozen=True, slots=True)
class Speaker:
    agent_id: str | None
    name: str
    messages: int


def start_of(day: date, zone: tzinfo) -> int:
    return micros(datetime(day.year, day.month, day.day, tzinfo=zone))


@dataclass(frozen=True, slots=True)
class SessionOwner:
    """Whose sessions are counted: everyone's, or those of one agent."""

    everyone: bool
    agent_id: str | None = None

    @property
    def params(self) -> dict[str, int | str]:
        return {"everyone": int(self.everyone), "agent_id": self.agent_id or ""}


def per_day(read: Reader, days: Sequence[date], zone: tzinfo, whose: SessionOwner) -> list[Day]:
    """The messages of each of these consecutive days in a time zone. Days without messages are left out."""
    starts = [start_of(day, zone) for day in days]
    counts: Counter[tuple[date, str]] = Counter()
    for row in read.all("messages_per_quarter_hour", since=starts[0], **whose.params):
        day = days[bisect(starts, row["quarter_hour"] * QUARTER_HOUR) - 1]
        counts[day, row["source"]] += row["messages"]
    return [Day(day.isoformat(), source, messages) for (day, source), messages in sorted(counts.items())]


def speakers(read: Reader, since: int, limit: int, whose: SessionOwner) -> list[Speaker]:
    found = []
    for row in read.all("messages_by_agent", since=since, limit=limit, **whose.params):
        agent = agents.find(read, row["agent_id"]) if row["agent_id"] else None
        name = agent.shown_name if agent else row["name"] or row["agent_id"] or "unknown"
        found.append(Speaker(row["agent_id"], name, row["messages"]))
    return found


def documents(read: Reader, whose: SessionOwner) -> dict[str, int]:
    counts = {row["source"]: row["documents"] for row in read.all("documents_by_source", **whose.params)}
    return {source: counts.get(source, 0) for source in SOURCES}


def storage_bytes(read: Reader) -> int:
    return int(read.must("storage_bytes")["bytes"])
