"""Statistics: messages by day, the most active agents, documents by source, and storage.

Only sessions of `groups` are counted (see `sharing.readable_groups`); None means all.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Any

from palaver.model.times import micros
from palaver.store.bus import agents
from palaver.store.engines.database import Reader, Row
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


@dataclass(frozen=True, slots=True)
class AuthorDays:
    """The messages of an agent or a person by day. Days without messages are left out."""

    agent_id: str | None
    name: str
    days: dict[str, int]


@dataclass(frozen=True, slots=True)
class ProjectDays:
    """The messages of a project's sessions and imported conversations by day."""

    project: str
    days: dict[str, int]


def _start_of(day: date, zone: tzinfo) -> int:
    return micros(datetime(day.year, day.month, day.day, tzinfo=zone))


def per_day(read: Reader, days: Sequence[date], zone: tzinfo, groups: str | None) -> list[Day]:
    """The messages of each of these consecutive days in a time zone. Days without messages are left out."""
    starts = [_start_of(day, zone) for day in days]
    counts: Counter[tuple[date, str]] = Counter()
    for row in read.all("messages_per_quarter_hour", since=starts[0], groups=groups):
        counts[_day_of(row, days, starts), row["source"]] += row["messages"]
    return [Day(day.isoformat(), source, messages) for (day, source), messages in sorted(counts.items())]


def authors(read: Reader, days: Sequence[date], zone: tzinfo, groups: str | None, limit: int) -> list[AuthorDays]:
    """The most active agents and people on these consecutive days, the most active first."""
    starts = [_start_of(day, zone) for day in days]
    rows = read.all("messages_per_quarter_hour_and_author", since=starts[0], groups=groups)
    found = _busiest([((row["agent_id"], row["name"]), row) for row in rows], days, starts, limit)
    return [AuthorDays(agent_id, _shown_name(read, agent_id, name), counts) for (agent_id, name), counts in found]


def projects(read: Reader, days: Sequence[date], zone: tzinfo, groups: str | None, limit: int) -> list[ProjectDays]:
    """The projects with the most messages on these consecutive days, the most active first."""
    starts = [_start_of(day, zone) for day in days]
    rows = read.all("messages_per_quarter_hour_and_project", since=starts[0], groups=groups)
    found = _busiest([((row["project"],), row) for row in rows], days, starts, limit)
    return [ProjectDays(project, counts) for (project,), counts in found]


Names = tuple[str | None, ...]


def _busiest(
    rows: Iterable[tuple[Names, Row]], days: Sequence[date], starts: Sequence[int], limit: int
) -> list[tuple[Any, dict[str, int]]]:
    """Add up the rows of each name by day, and return the names with the most messages."""
    counts: dict[Names, Counter[str]] = {}
    for name, row in rows:
        day = _day_of(row, days, starts).isoformat()
        counts.setdefault(name, Counter())[day] += row["messages"]
    ordered = sorted(counts.items(), key=lambda one: (-one[1].total(), [part or "" for part in one[0]]))
    return [(name, dict(by_day)) for name, by_day in ordered[:limit]]


def _day_of(row: Row, days: Sequence[date], starts: Sequence[int]) -> date:
    return days[bisect(starts, row["quarter_hour"] * QUARTER_HOUR) - 1]


def _shown_name(read: Reader, agent_id: str | None, name: str | None) -> str:
    agent = agents.find(read, agent_id) if agent_id else None
    return agent.shown_name if agent else name or agent_id or "unknown"


def documents(read: Reader, groups: str | None) -> dict[str, int]:
    counts = {row["source"]: row["documents"] for row in read.all("documents_by_source", groups=groups)}
    return {source: counts.get(source, 0) for source in SOURCES}


def storage_bytes(read: Reader) -> int:
    return int(read.must("storage_bytes")["bytes"])
