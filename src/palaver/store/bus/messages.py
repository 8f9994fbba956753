"""Messages: the passages of threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple

import orjson

from palaver.errors import must_be_found
from palaver.model.ids import new_id
from palaver.model.messages import Edit, Message, Reaction
from palaver.model.times import micros, now
from palaver.store.bus import events, mentions
from palaver.store.bus.threads import FAR_FUTURE, StoredThread, lock
from palaver.store.bus.threads import must_exist as must_have_thread
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.library import documents
from palaver.store.library.documents import NewPassage
from palaver.store.rows import from_row

MINUTE_MICROS = 60_000_000


@dataclass(frozen=True, slots=True)
class Reactor:
    """Who reacts to a message."""

    agent_id: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message with the ids of its passage and its thread's document."""

    passage_id: int
    document_id: int
    message: Message


def of_row(row: Row) -> StoredMessage:
    data = orjson.loads(row["data"])
    known = {"message_id": row["id"], "content": row["text"], "author_name": data.get("author_name") or row["author"]}
    return StoredMessage(row["passage_id"], row["document_id"], from_row(Message, data | row, **known))


def _data(message: Message) -> dict[str, Any]:
    """The fields of a message without a column of their own. Default values are left out."""
    return {
        "author_name": message.author_name if message.author_name != message.author else None,
        "priority": message.priority if message.priority != "normal" else None,
        "mentions": message.mentions or None,
        "reply_to_msg_id": message.reply_to_msg_id,
        "metadata": message.metadata,
        "edited_at": micros(message.edited_at) if message.edited_at else None,
        "edit_version": message.edit_version or None,
    }


def _passage(document_id: int, message: Message) -> NewPassage:
    return NewPassage(
        document_id,
        message.seq,
        message.id,
        message.content,
        message.created_at,
        role=message.role,
        author=message.author,
        author_id=message.author_id,
        data=_data(message),
    )


def find(read: Reader, message_id: str) -> StoredMessage | None:
    row = read.one("message", id=message_id)
    return of_row(row) if row else None


def must_exist(read: Reader, message_id: str) -> StoredMessage:
    advice = "List the messages of its thread, or search for it."
    return must_be_found(find(read, message_id), "message", message_id, advice)


def must_hold(change: Change, message_id: str) -> StoredMessage:
    """The message, locked until the commit."""
    lock(change, must_exist(change, message_id).document_id)
    return must_exist(change, message_id)


def with_reactions(read: Reader, found: list[StoredMessage]) -> list[Message]:
    """Messages of one thread with their reactions, read by one query."""
    if not found:
        return []
    seqs = [stored.message.seq for stored in found]
    rows = read.all("reactions_between", document_id=found[0].document_id, first=min(seqs), last=max(seqs))
    reactions: dict[int, list[Row]] = {}
    for row in rows:
        reactions.setdefault(row["passage_id"], []).append(row)
    return [
        replace(message, reactions=[from_row(Reaction, row, message_id=message.id) for row in reactions[passage_id]])
        if passage_id in reactions
        else message
        for passage_id, message in ((stored.passage_id, stored.message) for stored in found)
    ]


def after(
    read: Reader, thread: StoredThread, after_seq: int, limit: int, before_seq: int | None = None
) -> list[Message]:
    """The oldest messages after a seq, in order."""
    return _between(read, "messages_after", thread, after_seq, limit, before_seq)


def newest(
    read: Reader, thread: StoredThread, limit: int, after_seq: int = 0, before_seq: int | None = None
) -> list[Message]:
    """The newest messages after a seq, in order."""
    return _between(read, "newest_messages", thread, after_seq, limit, before_seq)


def _between(
    read: Reader, name: str, thread: StoredThread, after_seq: int, limit: int, before_seq: int | None
) -> list[Message]:
    rows = read.all(
        name,
        thread_id=thread.thread.id,
        document_id=thread.document_id,
        after_seq=after_seq,
        before_seq=FAR_FUTURE if before_seq is None else before_seq,
        limit=limit,
    )
    return with_reactions(read, sorted(map(of_row, rows), key=lambda stored: stored.message.seq))


def count(read: Reader) -> int:
    """The number of messages in all threads."""
    return int(read.must("count_messages")["messages"])


def by_key(read: Reader, thread: StoredThread, author: str, key: str) -> StoredMessage | None:
    row = read.one("message_by_key", document_id=thread.document_id, author=author, key=key)
    return of_row(row) if row else None


def add(change: Change, thread: StoredThread, message: Message, key: str | None = None) -> mentions.Receivers:
    """Add a message to its thread. Returns who it is meant for."""
    passage_id = documents.add_passage(change, "bus", _passage(thread.document_id, message))
    receivers = receivers_of(change, thread, message)
    mentions.add(change, message, passage_id, thread.document_id, receivers)
    if key is not None:
        posted = {"document_id": thread.document_id, "author": message.author, "key": key}
        change.run("insert_post_key", passage_id=passage_id, **posted)
    return receivers


def edit(change: Change, stored: StoredMessage, content: str, edited_by: str) -> Message:
    old, at = stored.message, now()
    message = replace(old, content=content, edited_at=at, edit_version=old.edit_version + 1)
    change.run(
        "insert_edit",
        passage_id=stored.passage_id,
        version=message.edit_version,
        old_content=old.content,
        edited_by=edited_by,
        created_at=micros(at),
    )
    documents.update_passage(change, "bus", stored.passage_id, _passage(stored.document_id, message))
    change.run("delete_mentions", passage_id=stored.passage_id)
    receivers = receivers_of(change, must_have_thread(change, message.thread_id), message)
    mentions.add(change, message, stored.passage_id, stored.document_id, receivers)
    return message


def receivers_of(read: Reader, thread: StoredThread, message: Message) -> mentions.Receivers:
    """Who a message is meant for. A reply is meant for the author of the message that it answers."""
    answered = find(read, message.reply_to_msg_id) if message.reply_to_msg_id else None
    author = (answered.message.author_id or answered.message.author) if answered else None
    return mentions.receivers_of(read, thread, message, author)


def history(read: Reader, stored: StoredMessage) -> list[Edit]:
    return [from_row(Edit, row) for row in read.all("edits", passage_id=stored.passage_id)]


def remove(change: Change, stored: StoredMessage) -> None:
    """Delete a message from the tables, the index and the event log. Its seq is never used again."""
    documents.remove_passage(change, stored.passage_id)
    change.run("subtract_message", document_id=stored.document_id)
    events.forget_content(change, stored.message.thread_id, stored.message.id)


# Reactions: labels on messages


def react(change: Change, stored: StoredMessage, by: Reactor, label: str) -> tuple[Reaction, bool]:
    """Add a reaction. Returns it, and whether it is new. Adding it twice has no effect."""
    own = {"passage_id": stored.passage_id, "agent_id": by.agent_id, "reaction": label}
    is_new = change.run("insert_reaction", id=new_id(), agent_name=by.name, created_at=micros(now()), **own)
    return from_row(Reaction, change.must("reaction", **own), message_id=stored.message.id), bool(is_new)


def unreact(change: Change, stored: StoredMessage, agent_id: str | None, label: str) -> bool:
    removed = change.run("delete_reaction", passage_id=stored.passage_id, agent_id=agent_id, reaction=label)
    return bool(removed)


# Messages that a search found, with their texts


class FoundPost(NamedTuple):
    passage_id: int
    message_id: str
    thread_id: str
    thread_topic: str
    author: str
    seq: int
    created_at: int
    text: str
    data: str

    @property
    def metadata(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = orjson.loads(self.data).get("metadata")
        return found


def by_passages(read: Reader, passage_ids: list[int]) -> list[FoundPost]:
    """The messages with these passage ids, in the given order."""
    if not passage_ids:
        return []
    found = read.rows("found_messages", ids=orjson.dumps(passage_ids).decode())
    rows = {row[0]: FoundPost._make(row) for row in found}
    return [rows[id] for id in passage_ids]


# The rate limit of posts


def wait_to_post(change: Change, author: str, limit: int) -> int:
    """Record the time of a post of this author. If the last minute has `limit` posts already, record nothing and return
    the number of seconds to wait, else 0. The times are in the database, so all processes count together."""
    at = micros(now())
    change.run("forget_post_times", before=at - MINUTE_MICROS, after=at + MINUTE_MICROS)  # the clock may be set back
    row = change.must("post_times", author=author)
    if row["posts"] >= limit:
        wait: int = max(1, ceil((row["first"] + MINUTE_MICROS - at) / 1_000_000))
        return wait
    change.run("insert_post_time", author=author, at=at)
    return 0
