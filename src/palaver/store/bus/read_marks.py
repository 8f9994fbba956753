"""How far each agent and each person has read each thread, and the messages that are meant for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from palaver.model.events import message_receipts
from palaver.model.messages import Message, Receipt, Thread
from palaver.model.people import Agent, Caller
from palaver.model.times import instant, micros, now
from palaver.store.bus import mentions, messages, threads
from palaver.store.bus.threads import StoredThread
from palaver.store.engines.database import Change, Reader
from palaver.store.rows import from_row

MOST_COUNTED = 1_000
"""At most this many unread messages of a thread are counted."""
MENTIONS_LOOK_BACK = timedelta(days=30)
MOST_MENTIONS = 50
MOST_THREADS = 30
MESSAGES_PER_THREAD = 20
"""The limits of what is unread for a reader."""
FIRST_LOOK_BACK = timedelta(days=1)
"""Somebody who asks for the first time gets the news of this period."""
HOOK_TIME = timedelta(seconds=10)
"""A hook that was given a message may take this long to confirm it. Until then other sessions are not given it."""


@dataclass(frozen=True, slots=True)
class ThreadReader:
    """Who reads: an agent, or a person by name."""

    agent: Agent | None
    person: str | None

    @property
    def key(self) -> str:
        return self.agent.id if self.agent else f"human:{self.person}"

    @property
    def agent_id(self) -> str | None:
        return self.agent.id if self.agent else None

    def wrote(self, message: Message) -> bool:
        if self.agent:
            return message.author_id == self.agent.id
        return message.author_id is None and message.author == self.person

    @property
    def names(self) -> set[str]:
        """The names under which messages are meant for this reader."""
        if self.agent is None:
            return {mentions.key_of(self.person or "")}
        agent = self.agent
        return {mentions.key_of(name) for name in (agent.id, agent.slug, agent.name, agent.display_name) if name}


def reader_of(caller: Caller, agent: Agent | None) -> ThreadReader:
    return ThreadReader(agent, None if agent else caller.name)


@dataclass(frozen=True, slots=True)
class UnreadThread:
    """A thread that the reader has not read to the end."""

    stored: StoredThread
    read_seq: int
    unread: int
    """The messages of others after `read_seq` that the reader has not handled, at most MOST_COUNTED."""
    messages: list[Message]
    """The newest messages after `read_seq`, if there are unread ones."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A message that is meant for the reader."""

    passage_id: int
    document_id: int
    topic: str
    message: Message
    is_read: bool
    """The reader has read the thread up to it."""
    is_handled: bool
    """The reader has read, answered or reacted to it, or was shown it and went on."""


@dataclass(frozen=True, slots=True)
class Unread:
    """What is unread for a reader: messages that are meant for it, and threads, the latest first."""

    mentions: list[Mention]
    handled: set[str]
    """The ids of messages that were meant for the reader and are handled. They are unread only in name."""
    threads: list[UnreadThread]


PendingMarks = dict[tuple[str, str], int]
"""Marks by reader and thread that are stored a moment later, so that reading a thread does not wait for a commit."""


def store_pending(change: Change, marks: PendingMarks) -> None:
    for (reader, thread_id), seq in marks.items():
        for row in change.all("read_now", reader=reader, thread_id=thread_id, seq=seq, limit=MOST_MENTIONS):
            receipt = from_row(Receipt, row, name=row["display_name"] or row["name"], state="read", way="mcp", at=now())
            change.tell(message_receipts(row["message_id"], thread_id, [receipt]))
        change.run("advance_read_mark_of_thread", reader=reader, thread_id=thread_id, seq=seq)


def advance(change: Change, reader: str, document_id: int, seq: int) -> None:
    change.run("advance_read_mark", reader=reader, document_id=document_id, seq=seq)


def join(change: Change, reader: str, document_id: int, seq: int) -> None:
    """The reader takes part in a thread. What was said there before counts as read."""
    change.run("join_thread", reader=reader, document_id=document_id, seq=seq)


def move(change: Change, reader: ThreadReader, document_id: int, seq: int) -> None:
    """Set a mark, also back. Messages after it are news again."""
    change.run("set_read_mark", reader=reader.key, document_id=document_id, seq=seq)
    change.run_many(
        "mentions_unseen", [{"name": name, "document_id": document_id, "seq": seq} for name in reader.names]
    )


def mark_all_read(change: Change, reader: ThreadReader) -> int:
    """Every thread is read to its end; for an agent, every thread that it takes part in. Returns how many were not."""
    if reader.agent:
        return change.run("mark_own_threads_read", reader=reader.key)
    change.run("insert_reader", reader=reader.key, since=micros(now()))
    return change.run("mark_all_threads_read", reader=reader.key)


def is_known(read: Reader, reader: ThreadReader) -> bool:
    """Whether the reader was here before. Until a person looks for the first time, nothing is unread for them."""
    return reader.agent is not None or read.one("read_since", reader=reader.key) is not None


def read_seq(read: Reader, reader: ThreadReader, stored: StoredThread) -> int:
    """The last message of a thread that the reader has read."""
    row = read.one("read_mark", reader=reader.key, document_id=stored.document_id)
    return row["seq"] if row else seq_without_mark(read, reader, stored)


def seq_without_mark(read: Reader, reader: ThreadReader, stored: StoredThread) -> int:
    """How far a thread counts as read that the reader has no mark in."""
    if reader.agent:
        return 0
    if not is_known(read, reader):
        return stored.thread.current_seq
    before = read.one("seq_at_time", document_id=stored.document_id, before=micros(since_of(read, reader)))
    return before["seq"] if before else 0


def since_of(read: Reader, reader: ThreadReader) -> datetime:
    """Threads without a mark are read up to this time. It is of use for people: agents read the threads they join."""
    row = read.one("read_since", reader=reader.key)
    return instant(row["since"]) if row else now() - FIRST_LOOK_BACK


def remember_first_look(change: Change, reader: ThreadReader) -> None:
    change.run("insert_reader", reader=reader.key, since=micros(now() - FIRST_LOOK_BACK))


def unread_of(read: Reader, reader: ThreadReader, since: datetime | None = None) -> Unread:
    """What is unread for a reader. With `since`: what came after that time, read or not. For an agent only threads that
    it takes part in."""
    mentions = mentions_of(read, reader, since or now() - MENTIONS_LOOK_BACK, MOST_MENTIONS)
    handled = [one.message for one in mentions if one.is_handled and since is None]
    left = [one for one in mentions if not (one.is_handled and since is None)]
    name = "unread_threads_of_agent" if reader.agent else "unread_threads_of_person"
    after = micros(since or (instant(0) if reader.agent else since_of(read, reader)))
    also_read = int(since is not None)
    found = []
    for row in read.all(name, reader=reader.key, since=after, also_read=also_read, limit=MOST_THREADS):
        stored, seq = threads.stored_of(row), row["read_seq"]
        if since is not None or seq is None:
            before = read.one("seq_at_time", document_id=stored.document_id, before=after)
            seq = before["seq"] if before else 0
        whose = {"agent_id": reader.agent_id, "person": reader.person}
        counted = read.must("count_unread", document_id=stored.document_id, after_seq=seq, limit=MOST_COUNTED, **whose)
        count = counted["unread"] - sum(one.thread_id == stored.thread.id and one.seq > seq for one in handled)
        newest = messages.newest(read, stored, MESSAGES_PER_THREAD, after_seq=seq) if count > 0 else []
        found.append(UnreadThread(stored, seq, count, newest))
    return Unread(left, {one.id for one in handled}, found)


def mentions_of(
    read: Reader, reader: ThreadReader, since: datetime, limit: int, marks_of: ThreadReader | None = None
) -> list[Mention]:
    """The newest messages that are meant for the reader, oldest first. `marks_of`: whose read marks count."""
    return _mentions(read, reader, "mentions_of", limit, marks_of or reader, since=micros(since))[-limit:]


def unseen_mentions(read: Reader, reader: ThreadReader, session_key: str, limit: int, after: int = 0) -> list[Mention]:
    """The oldest messages that are meant for the reader, and that it was not shown and has not handled."""
    bounds = {"session": session_key, "recent": micros(now() - HOOK_TIME), "after": after}
    return _mentions(read, reader, "unseen_mentions_of", limit, reader, **bounds)[:limit]


def unseen_after(read: Reader, reader: ThreadReader, after: int) -> tuple[int, int]:
    """How many messages after this passage are meant for the reader and not handled, and the last one's passage."""
    rows = [
        read.must("count_unseen_mentions", name=name, reader=reader.key, after=after) for name in sorted(reader.names)
    ]
    return sum(row["messages"] for row in rows), max(row["last"] or after for row in rows)


def _mentions(
    read: Reader, reader: ThreadReader, statement: str, limit: int, marks_of: ThreadReader, **bounds: Any
) -> list[Mention]:
    found: dict[int, Mention] = {}
    bounds |= {"reader": marks_of.key, "agent_id": marks_of.agent_id, "person": marks_of.person, "limit": limit}
    for name in sorted(reader.names):
        for row in read.all(statement, name=name, **bounds):
            stored = messages.of_row(row)
            is_read = row["read_seq"] is not None and row["seq"] <= row["read_seq"]
            if not reader.wrote(stored.message):
                found[stored.passage_id] = from_row(Mention, row, message=stored.message, is_read=is_read)
    return [found[passage_id] for passage_id in sorted(found)]


def seqs_meant_for(read: Reader, reader: ThreadReader, stored: StoredThread, after_seq: int) -> set[int]:
    """The numbers of the messages of a thread that are meant for the reader."""
    where = {"document_id": stored.document_id, "after_seq": after_seq}
    return {row["seq"] for name in reader.names for row in read.all("seqs_meant_for", name=name, **where)}


def mark_seen(change: Change, reader: ThreadReader, shown: Iterable[Mention]) -> None:
    """Store that the reader has handled these messages."""
    mentions.mark_seen(change, reader.names, [mention.passage_id for mention in shown])


def documents_of_project(read: Reader, project: str) -> set[int]:
    """The document ids of all threads in which agents of a project take part."""
    return {id for (id,) in read.rows("documents_of_project", project=project)}


def threads_of_project(read: Reader, project: str) -> list[Thread]:
    """Open threads in which agents of a project take part, the latest first."""
    return [
        threads.stored_of(row).thread for row in read.all("threads_of_project", project=project, limit=MOST_THREADS)
    ]
