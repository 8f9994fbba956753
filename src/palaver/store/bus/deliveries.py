"""Texts that hooks were given to show to a model. A text counts as shown when its hook confirms that it has written it.

A message in it is handled when the session goes on after that. Until then it can be offered again in a new context.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from palaver.model.events import message_receipts
from palaver.model.ids import new_id
from palaver.model.messages import Receipt
from palaver.model.times import instant, micros, now
from palaver.store.bus import mentions
from palaver.store.bus.agents import connection_key
from palaver.store.bus.read_marks import Mention, ThreadReader
from palaver.store.engines.database import Change, Reader
from palaver.store.rows import from_row

Way = Literal["briefing", "prompt", "stop", "wake", "spawn"]
"""How a text reaches a session: at its start, a prompt or a stop, by waking it, or as the prompt of a new program."""

KEPT = timedelta(days=90)
"""Deliveries of sessions that were not resumed for this long are forgotten."""

LOOK_BACK = 1_000
"""How many messages of a thread are searched for turns that two agents began."""


@dataclass(frozen=True, slots=True)
class HookSession:
    """A session of a client whose hooks report to us, and who reads in it."""

    id: str
    reader: ThreadReader

    @property
    def key(self) -> dict[str, str]:
        return {"session": connection_key(self.id), "reader": self.reader.key}


@dataclass(frozen=True, slots=True)
class HookContext:
    """What the model of a session has in its context."""

    session: HookSession
    is_briefed: bool
    was_compacted: bool
    """It was briefed in an earlier context only."""
    passage_ids: frozenset[int]
    """Messages that it was shown and has not handled, or with which it was started."""
    confirms: bool
    """Texts count as shown only after a confirmation. The hook of an older palaver gives none."""
    turn: int
    """The turn that a text of now begins or is read in."""


def context_of(read: Reader, session: HookSession, turn: int, *, confirms: bool) -> HookContext:
    offered = read.all("deliveries_of_session", **session.key)
    shown = [row for row in offered if row["shown_at"] is not None]
    is_briefed = any(row["is_briefing"] and not row["is_past"] for row in shown)
    known = [*read.all("shown_messages", **session.key), *read.all("spawned_messages", reader=session.reader.key)]
    return HookContext(
        session,
        is_briefed,
        was_compacted=not is_briefed and any(row["is_past"] for row in shown),
        passage_ids=frozenset(row["passage_id"] for row in known),
        confirms=confirms,
        turn=turn,
    )


class Offered(NamedTuple):
    way: Way
    at: datetime


def unconfirmed(read: Reader, session: HookSession) -> Offered | None:
    """How and when the last text of a session was offered, if its hook has not confirmed it."""
    last = next(iter(read.all("deliveries_of_session", **session.key)), None)
    return Offered(last["way"], instant(last["offered_at"])) if last and last["shown_at"] is None else None


def offer(change: Change, context: HookContext, way: Way, messages: Iterable[Mention] = ()) -> str:
    """Store that the hook is given a text with these messages. Returns the id with which it confirms."""
    delivery, at, key = new_id(), now(), context.session.key
    shown_at = None if context.confirms else micros(at)
    about = {"way": way, "turn": context.turn, "is_briefing": way == "briefing"}
    change.run("insert_delivery", id=delivery, **key, **about, at=micros(at), shown_at=shown_at)
    rows = [{"passage_id": message.passage_id, "delivery_id": delivery} for message in messages]
    change.run_many("insert_delivered_message", rows)
    change.run("delete_old_deliveries", before=micros(at - KEPT))
    return delivery


def confirm(change: Change, session_id: str, deliveries: Iterable[str]) -> None:
    """The hook has written these texts."""
    at, session = now(), connection_key(session_id)
    for delivery in deliveries:
        for row in change.all("delivered_now", id=delivery, session=session):
            receipt = from_row(Receipt, row, name=row["display_name"] or row["name"], state="read", at=at)
            change.tell(message_receipts(row["message_id"], row["thread_id"], [receipt]))
        change.run("confirm_delivery", id=delivery, session=session, at=micros(at))


def fail(change: Change, session: HookSession, deliveries: Iterable[str]) -> int:
    """The programs that were started with these texts failed. Returns the passage of the last message."""
    found = [change.all("fail_delivery", id=id, session=session.key["session"]) for id in deliveries]
    return max((row["last"] for rows in found for row in rows), default=0)


def turns_of_pair(read: Reader, mention: Mention, author: str, reader: str) -> tuple[list[datetime], int]:
    """When two agents began or prolonged turns of each other in the thread of a message, the latest first, and how many
    of these were since a person wrote there."""
    where = {"document_id": mention.document_id, "after": mention.message.seq - LOOK_BACK}
    turns = read.all("turns_of_pair", author=author, reader=reader, **where)
    last = read.must("last_post_of_person", **where, before=mention.message.seq)["seq"] or 0
    return [instant(row["offered_at"]) for row in turns], sum(row["seq"] > last for row in turns)


def go_on(change: Change, session: HookSession) -> None:
    """The session goes on: it has handled the messages that it was shown."""
    if shown := change.all("shown_messages", **session.key):
        mentions.mark_seen(change, session.reader.names, [row["passage_id"] for row in shown])
        change.run("forget_delivered_messages", **session.key)


def end_context(change: Change, session: HookSession) -> None:
    """The context of the session was compacted: what it was shown is gone."""
    change.run("end_context", **session.key, is_past=True)
    change.run("forget_delivered_messages", **session.key)


def forget(change: Change, session: HookSession) -> None:
    """The session starts with an empty context."""
    for name in ("delete_deliveries", "forget_delivered_messages", "detach_deliveries"):
        change.run(name, **session.key)
