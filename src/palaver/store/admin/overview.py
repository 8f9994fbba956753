"""Statistics: messages by day, the most active agents, documents by source, and storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from palaver.model.times import micros
from palaver.store.bus import agents
from palaver.store.engines.database import Reader
from palaver.store.engines.id_ranges import SOURCES

EPOCH = date(1970, 1, 1)


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


def start_of(day: date) -> int:
    return micros(datetime(day.year, day.month, day.day, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class SessionOwner:
    """Whose sessions are counted: everyone's, or those of one agent."""

    everyone: bool
    agent_id: str | None = None

    @property
    def params(self) -> dict[str, int | str]:
        return {"everyone": int(self.everyone), "agent_id": self.agent_id or ""}


def per_day(read: Reader, since: date, whose: SessionOwner) -> list[Day]:
    rows = read.all("messages_per_day", since=start_of(since), **whose.params)
    return [Day((EPOCH + timedelta(days=row["day"])).isoformat(), row["source"], row["messages"]) for row in rows]


def speakers(read: Reader, since: date, limit: int, whose: SessionOwner) -> list[Speaker]:
    found = []
    for row in read.all("messages_by_agent", since=start_of(since), limit=limit, **whose.params):
        agent = agents.find(read, row["agent_id"]) if row["agent_id"] else None
        name = agent.shown_name if agent else row["name"] or row["agent_id"] or "unknown"
        found.append(Speaker(row["agent_id"], name, row["messages"]))
    return found


def documents(read: Reader, whose: SessionOwner) -> dict[str, int]:
    counts = {row["source"]: row["documents"] for row in read.all("documents_by_source", **whose.params)}
    return {source: counts.get(source, 0) for source in SOURCES}


def storage_bytes(read: Reader) -> int:
    return int(read.must("storage_bytes")["bytes"])
