"""Threads: documents of the bus with a topic, a status, and a counter of messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

import orjson

from palaver.errors import Conflict, Refused, must_be_found
from palaver.model.ids import new_id
from palaver.model.messages import Status, Thread
from palaver.model.people import Agent
from palaver.model.times import instant, micros, now, parse
from palaver.store.bus import agents, events
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.library import documents
from palaver.store.rows import from_row

FAR_FUTURE = 2**62


@dataclass(frozen=True, slots=True)
class StoredThread:
    """A thread with the id of its document."""

    document_id: int
    thread: Thread
    created_by: str | None = None
    """The creator, if it is known: see `visibility.creator_of`."""


def stored_of(row: Row) -> StoredThread:
    data = orjson.loads(row["data"])
    updated_at = instant(max(row["modified_at"], row["last_post_at"]))
    known = {"thread_id": row["id"], "updated_at": updated_at, "current_seq": row["last_seq"]}
    return StoredThread(row["document_id"], from_row(Thread, data | row, **known), data.get("created_by"))


def find(read: Reader, thread_id: str) -> StoredThread | None:
    row = read.one("thread", id=thread_id)
    return stored_of(row) if row else None


def named(read: Reader, name: str) -> StoredThread | None:
    """The thread with this id, or else with exactly this topic. An id costs one query."""
    return find(read, name) or by_topic(read, name.strip())


def must_exist(read: Reader, name: str) -> StoredThread:
    return must_be_found(named(read, name), "thread", name, "List threads to see which exist.")


def by_topic(read: Reader, topic: str) -> StoredThread | None:
    row = read.one("thread_by_topic", topic=topic)
    return stored_of(row) if row else None


def open_or_create(change: Change, topic: str, **data: Any) -> tuple[StoredThread, bool]:
    """The thread of this topic, and whether it is new. The same topic is always the same thread. `data` are its
    `system_prompt`, `template_id`, `metadata` and `created_by`."""
    if existing := by_topic(change, topic):
        return existing, False
    thread_id = new_id()
    document_id = documents.add_document(
        change, source="bus", native_id=thread_id, title=topic, created_at=now(), data=data
    )
    if not change.run("insert_thread", document_id=document_id, topic=topic, status="discuss"):
        # Another caller has just created a thread with this topic.
        documents.remove_document(change, document_id)
        return must_exist(change, topic), False
    return must_exist(change, thread_id), True


def page(
    read: Reader, *, status: Status | None, include_archived: bool, limit: int, before: str | None
) -> tuple[list[Thread], str | None]:
    """Threads, the latest first, and the cursor of the next page if there are more."""
    at, id = _cursor(read, before)
    wanted = {"status": status, "include_archived": int(include_archived)}
    rows = read.all("threads", **wanted, before=at, before_id=id, limit=limit + 1)
    shown = [stored_of(row) for row in rows[:limit]]
    cursor = f"{micros(shown[-1].thread.created_at)}-{shown[-1].document_id}" if len(rows) > limit else None
    return [stored.thread for stored in shown], cursor


def _cursor(read: Reader, before: str | None) -> tuple[int, int]:
    if before is None:
        return FAR_FUTURE, FAR_FUTURE
    at, _, id = before.partition("-")
    if at.isdecimal() and id.isdecimal() and len(before) < 60:
        return min(int(at), FAR_FUTURE), min(int(id), FAR_FUTURE)
    try:
        return micros(parse(before)), 0
    except ValueError:
        raise Refused("before: pass the next_cursor of the previous page, or an ISO-8601 time.") from None


def update(change: Change, stored: StoredThread, new: Thread) -> Thread:
    """Store the topic, status, rules, summary and metadata of a thread."""
    if new.topic != stored.thread.topic:
        if by_topic(change, new.topic):
            raise Conflict(f"Another thread already has the topic '{new.topic}'. Choose another one.")
        documents.retitle(change, source="bus", document_id=stored.document_id, title=new.topic)
    data = {name: getattr(new, name) for name in ("system_prompt", "template_id", "summary", "metadata")}
    encoded = documents.encode_data(data | {"created_by": stored.created_by})
    change.run("update_thread", document_id=stored.document_id, topic=new.topic, status=new.status)
    change.run("update_document", id=stored.document_id, title=new.topic, modified_at=micros(now()), data=encoded)
    return must_exist(change, new.id).thread


def next_seq(change: Change, stored: StoredThread) -> int:
    """Take the number of the next message. Other callers wait for the commit."""
    row = change.one("next_seq", document_id=stored.document_id, at=micros(now()))
    # It may have been deleted while this change waited for the lock.
    row = must_be_found(row, "thread", stored.thread.id, "List threads to see which exist.")
    must_take_messages(row["status"])
    seq: int = row["last_seq"]
    return seq


def must_take_messages(status: Status) -> None:
    if status in ("closed", "archived"):
        raise Conflict(f"The thread is {status} and takes no messages. Reopen it with thread_update.")


def lock(change: Change, document_id: int) -> int:
    """Lock a thread until the commit and return its last seq. Read the thread again afterwards: it may have changed
    while this change waited."""
    row = change.one("lock_thread", document_id=document_id)
    return row["last_seq"] if row else 0


def remove(change: Change, stored: StoredThread) -> None:
    events.forget_content(change, stored.thread.id)
    documents.remove_document(change, stored.document_id)


def count(read: Reader, status: Status | None = None, *, include_archived: bool = True) -> int:
    return int(read.must("count_threads", status=status, include_archived=int(include_archived))["total"])


def participants(read: Reader, stored: StoredThread) -> list[Agent]:
    """The agents that have posted in a thread."""
    found = [agents.find(read, id) for id in {id: author for author, id in authors(read, stored) if id}]
    return [agent for agent in found if agent]


def authors(read: Reader, stored: StoredThread) -> list[tuple[str, str | None]]:
    """The names under which somebody posted in a thread, with the id of the agent."""
    rows = read.all("authors_of_thread", document_id=stored.document_id)
    return [(row["author"], row["author_id"]) for row in rows]


def has_posted(read: Reader, stored: StoredThread, agent_id: str) -> bool:
    return read.one("has_posted", document_id=stored.document_id, agent_id=agent_id) is not None


def count_miscounted(read: Reader) -> int:
    """The number of threads with fewer or more messages than were posted, or with a seq that was never given out."""
    return int(read.must("miscounted_threads")["threads"])


def recount(change: Change) -> int:
    """Correct the message counts of threads that lost messages. Returns the number of corrected threads."""
    return change.run("recount_threads")


# The list of threads, each with the beginnings of its last messages

MESSAGES_READ = 20
"""How many of the last messages are read for each thread."""
CHARACTERS_READ = 200
"""How many characters of each message are read."""


@dataclass(frozen=True, slots=True)
class MessageSummary:
    """The beginning of a message, its author and its time."""

    seq: int
    author_name: str
    text: str
    metadata: dict[str, Any] | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    stored: StoredThread
    last_few: list[MessageSummary]
    read_seq: int | None
    """The read mark of the reader; None if it has none."""


def latest_threads(
    read: Reader, reader: str, *, include_archived: bool, limit: int, offset: int
) -> list[ThreadSummary]:
    rows = read.all(
        "latest_threads",
        reader=reader,
        include_archived=int(include_archived),
        limit=limit,
        offset=offset,
        each=MESSAGES_READ,
        length=CHARACTERS_READ,
    )
    found = []
    for _, group in groupby(rows, key=lambda row: row["document_id"]):
        some = list(group)
        messages = [
            MessageSummary(
                seq=row["seq"],
                author_name=(data := orjson.loads(row["said_data"])).get("author_name") or row["author"],
                text=row["text"],
                metadata=data.get("metadata"),
                created_at=instant(row["said_at"]),
            )
            for row in some
            if row["seq"] is not None
        ]
        found.append(ThreadSummary(stored_of(some[0]), messages, some[0]["read_seq"]))
    return found
