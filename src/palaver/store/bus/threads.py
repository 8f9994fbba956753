"""Threads: documents of the bus with a topic, a status, and a counter of messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from palaver.errors import Conflict, NotFound
from palaver.model.ids import new_id
from palaver.model.messages import Status, Thread
from palaver.model.people import Agent
from palaver.model.times import instant, micros, now
from palaver.store.bus import agents, events
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.library import documents

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
    thread = Thread(
        id=row["id"],
        thread_id=row["id"],
        topic=row["topic"],
        status=row["status"],
        system_prompt=data.get("system_prompt"),
        template_id=data.get("template_id"),
        summary=data.get("summary"),
        metadata=data.get("metadata"),
        created_at=instant(row["created_at"]),
        updated_at=instant(max(row["modified_at"], row["last_post_at"])),
        current_seq=row["last_seq"],
        message_count=row["message_count"],
    )
    return StoredThread(row["document_id"], thread, data.get("created_by"))


def of_row(row: Row) -> Thread:
    return stored_of(row).thread


def find(read: Reader, thread_id: str) -> StoredThread | None:
    row = read.one("thread", id=thread_id)
    return stored_of(row) if row else None


def named(read: Reader, name: str) -> StoredThread | None:
    """The thread with this id, or else with exactly this topic. An id costs one query."""
    return find(read, name) or by_topic(read, name.strip())


def must_exist(read: Reader, name: str) -> StoredThread:
    stored = named(read, name)
    if stored is None:
        raise NotFound("thread", name, "List threads to see which exist.")
    return stored


def by_topic(read: Reader, topic: str) -> StoredThread | None:
    row = read.one("thread_by_topic", topic=topic)
    return stored_of(row) if row else None


def open_or_create(
    change: Change,
    topic: str,
    *,
    system_prompt: str | None = None,
    template_id: str | None = None,
    metadata: dict[str, Any] | None = None,
    created_by: str | None = None,
) -> tuple[StoredThread, bool]:
    """The thread of this topic, and whether it is new. The same topic is always the same thread."""
    if existing := by_topic(change, topic):
        return existing, False
    data = {"system_prompt": system_prompt, "template_id": template_id, "metadata": metadata, "created_by": created_by}
    thread_id = new_id()
    document_id = documents.add_document(
        change, source="bus", native_id=thread_id, title=topic, created_at=now(), data=data
    )
    if not change.run("insert_thread", document_id=document_id, topic=topic, status="discuss"):
        # Another caller has just created a thread with this topic.
        documents.remove_document(change, document_id)
        existing = by_topic(change, topic)
        assert existing is not None
        return existing, False
    return must_exist(change, thread_id), True


@dataclass(frozen=True, slots=True)
class Page:
    threads: list[Thread]
    total: int
    next_cursor: str | None


def page(read: Reader, *, status: Status | None, include_archived: bool, limit: int, before: str | None) -> Page:
    at, id = _cursor(read, before)
    wanted = {"status": status, "include_archived": int(include_archived)}
    rows = read.all("threads", **wanted, before=at, before_id=id, limit=limit + 1)
    total = count(read, status, include_archived=include_archived)
    shown = [stored_of(row) for row in rows[:limit]]
    cursor = f"{micros(shown[-1].thread.created_at)}-{shown[-1].document_id}" if len(rows) > limit else None
    return Page([stored.thread for stored in shown], total, cursor)


def _cursor(read: Reader, before: str | None) -> tuple[int, int]:
    if before is None:
        return FAR_FUTURE, FAR_FUTURE
    at, _, id = before.partition("-")
    if at.isdecimal() and id.isdecimal() and len(before) < 60:
        return min(int(at), FAR_FUTURE), min(int(id), FAR_FUTURE)
    from palaver.errors import Refused
    from palaver.model.times import parse

    try:
        return micros(parse(before)), 0
    except ValueError:
        raise Refused("before: pass the next_cursor of the previous page, or an ISO-8601 time.") from None


def update(
    change: Change,
    stored: StoredThread,
    *,
    topic: str,
    status: Status,
    system_prompt: str | None,
    summary: str | None,
    metadata: dict[str, Any] | None,
) -> Thread:
    thread = stored.thread
    if topic != thread.topic:
        if by_topic(change, topic):
            raise Conflict(f"Another thread already has the topic '{topic}'. Choose another one.")
        documents.retitle(change, source="bus", document_id=stored.document_id, title=topic)
    data = {
        "system_prompt": system_prompt,
        "template_id": thread.template_id,
        "summary": summary,
        "metadata": metadata,
        "created_by": stored.created_by,
    }
    change.run("update_thread", document_id=stored.document_id, topic=topic, status=status)
    touch(change, stored.document_id, topic, data, now())
    return must_exist(change, thread.id).thread


def next_seq(change: Change, stored: StoredThread) -> int:
    """Take the number of the next message. Other callers wait for the commit."""
    row = change.one("next_seq", document_id=stored.document_id, at=micros(now()))
    if row is None:  # deleted while this change waited for the lock
        raise NotFound("thread", stored.thread.id, "List threads to see which exist.")
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


def touch(change: Change, document_id: int, topic: str, data: dict[str, Any], at: datetime) -> None:
    change.run("update_document", id=document_id, title=topic, modified_at=micros(at), data=documents.encode_data(data))


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
    """The number of threads with fewer or more messages than were counted when they were posted."""
    return int(read.must("miscounted_threads")["threads"])


def miscounted_after(read: Reader, after: int, limit: int) -> tuple[int | None, int]:
    """Compare the counters of some threads with their messages. Returns the last of them, None at the end, and how many
    are wrong: the count differs, or a message has a seq that was never given out."""
    rows = read.all("thread_counts", after=after, limit=limit)
    wrong = [row for row in rows if row["messages"] != row["message_count"] or row["highest"] > row["last_seq"]]
    return rows[-1]["document_id"] if len(rows) == limit else None, len(wrong)


def recount(change: Change) -> int:
    """Correct the message counts of threads that lost messages. Returns the number of corrected threads."""
    return change.run("recount_threads")
