"""Outlines of sessions and imported conversations: the beginning of each turn, and the texts of some turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import Any, Generic, TypeVar

import orjson

from palaver.model.library import ToolFacts, tool_facts
from palaver.model.sessions import Owner
from palaver.store.engines.database import Reader, Row
from palaver.store.rows import from_row
from palaver.store.sessions.sessions import TOOL, native_id

T = TypeVar("T")
MOST_KEPT = 2
KEPT_SECONDS = 60.0
SUBAGENT = ".agent-"
"""Sessions of subagents of Claude Code are named SESSION.agent-ID."""


@dataclass(frozen=True, slots=True)
class OutlineTurn:
    """A turn without the rest of its text."""

    position: int
    id: str
    role: str
    start: str
    """The first 300 characters."""
    length: int
    ts: datetime | None
    tool: ToolFacts | None


class RecentOutlines(Generic[T]):
    """What was made of the outlines that were read last. Somebody who scrolls through a session asks for it often.

    A change of the session is noticed by its signature. A turn that was replaced in place is noticed after a minute.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[tuple[Any, ...], float, T]] = {}
        """The signature, the time and what was made, by document; the latest is the last."""
        self._lock = Lock()

    def get(self, read: Reader, document_id: int, make: Callable[[list[OutlineTurn]], T]) -> T:
        row = read.one("outline_signature", document_id=document_id)
        signature = tuple(row.values()) if row else ()
        with self._lock:
            kept = self._kept.get(document_id)
        if kept and kept[0] == signature and monotonic() - kept[1] < KEPT_SECONDS:
            return kept[2]
        made = make(turns(read, document_id))
        with self._lock:
            self._kept.pop(document_id, None)
            self._kept[document_id] = signature, monotonic(), made
            for oldest in list(self._kept)[:-MOST_KEPT]:
                del self._kept[oldest]
        return made


@dataclass(frozen=True, slots=True)
class RelatedSession:
    """A session that another one started, or that started it."""

    id: str
    title: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session or an imported conversation."""

    document_id: int
    title: str
    project: str | None
    parent: str | None
    created_at: datetime | None
    program: str | None = None


def session(read: Reader, owner: Owner, session_id: str) -> StoredSession | None:
    row = read.one("session_document", native_id=native_id(owner.id, session_id))
    parent, is_subagent, _ = session_id.partition(SUBAGENT)
    return _stored(row, parent=parent if is_subagent and parent else None) if row else None


def conversation(read: Reader, id: str) -> StoredSession | None:
    row = read.one("conversation", native_id=id)
    return _stored(row) if row else None


def _stored(row: Row, **others: Any) -> StoredSession:
    data = orjson.loads(row["data"])
    return from_row(StoredSession, data | row, document_id=row["id"], title=row["title"] or "", **others)


def turns(read: Reader, document_id: int) -> list[OutlineTurn]:
    """The turns of a document in order."""
    return list(map(_turn, read.all("outline_of_document", document_id=document_id)))


def turns_between(read: Reader, document_id: int, first: int, last: int, head: int, tail: int) -> list[OutlineTurn]:
    """The turns between two positions, each with this much of its beginning and of its end."""
    about = {"document_id": document_id, "first": max(first, 1), "last": last, "head": head, "tail": tail}
    return list(map(_turn, read.all("outline_between", between="\n", **about)))


def _turn(row: Row) -> OutlineTurn:
    return from_row(OutlineTurn, row, id=row["native_id"], role=row["role"] or "", tool=_facts(row["data"]))


def _facts(data: Any) -> ToolFacts | None:
    return tool_facts(orjson.loads(data).get(TOOL)) if f'"{TOOL}"' in data else None


def texts(read: Reader, document_id: int, positions: set[int]) -> dict[int, str]:
    """The whole texts of the turns at these positions."""
    if not positions:
        return {}
    rows = read.all("whole_passages", document_id=document_id, first=min(positions), last=max(positions))
    return {row["position"]: row["text"] for row in rows if row["position"] in positions}


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """What a person or an assistant said in a session."""

    position: int
    role: str
    text: str
    ts: datetime


def said(read: Reader, document_id: int, limit: int) -> list[SaidTurn]:
    """The last turns of people and assistants, newest first."""
    return [from_row(SaidTurn, row) for row in read.all("said_in_session", document_id=document_id, limit=limit)]


def sessions_below(read: Reader, owner: Owner, session_id: str) -> list[RelatedSession]:
    """The sessions of the subagents of a session, in order."""
    first = native_id(owner.id, f"{session_id}{SUBAGENT}")
    pattern = first.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%"
    rows = read.all("sessions_below", agent_id=owner.id, pattern=pattern)
    return [_related(row, f"{owner.id}/") for row in rows if row["native_id"].startswith(first)]


def conversations_below(read: Reader, id: str) -> list[RelatedSession]:
    """The conversations of the subagents of a conversation, in order."""
    return [_related(row) for row in read.all("conversations_below", parent=id)]


def _related(row: Row, prefix: str = "") -> RelatedSession:
    return from_row(RelatedSession, row, id=row["native_id"].removeprefix(prefix), title=row["title"] or "")
