"""Messages: the passages of threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson

from palaver.errors import NotFound
from palaver.model.ids import new_id
from palaver.model.messages import Edit, Message, Priority, Role
from palaver.model.times import instant, micros, now
from palaver.store.bus import events, mentions, reactions
from palaver.store.bus.threads import FAR_FUTURE, StoredThread, lock
from palaver.store.bus.threads import must_exist as must_have_thread
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.library import documents


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message with the ids of its passage and its thread's document."""

    passage_id: int
    document_id: int
    message: Message


@dataclass(frozen=True, slots=True)
class Draft:
    """A message without its number."""

    author: str
    author_id: str | None
    author_name: str
    content: str
    role: Role = "user"
    priority: Priority = "normal"
    mentions: tuple[str, ...] = ()
    reply_to_msg_id: str | None = None
    metadata: dict[str, Any] | None = None


def of_row(row: Row) -> StoredMessage:
    data = orjson.loads(row["data"])
    edited_at = data.get("edited_at")
    message = Message(
        id=row["id"],
        message_id=row["id"],
        thread_id=row["thread_id"],
        seq=row["seq"],
        author=row["author"],
        author_id=row["author_id"],
        author_name=data.get("author_name") or row["author"],
        role=row["role"],
        content=row["text"],
        created_at=instant(row["created_at"]),
        priority=data.get("priority", "normal"),
        mentions=data.get("mentions", []),
        reply_to_msg_id=data.get("reply_to_msg_id"),
        metadata=data.get("metadata"),
        edited_at=instant(edited_at) if edited_at else None,
        edit_version=data.get("edit_version", 0),
    )
    return StoredMessage(row["passage_id"], row["document_id"], message)


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


def find(read: Reader, message_id: str) -> StoredMessage | None:
    row = read.one("message", id=message_id)
    return of_row(row) if row else None


def must_exist(read: Reader, message_id: str) -> StoredMessage:
    stored = find(read, message_id)
    if stored is None:
        raise NotFound("message", message_id, "List the messages of its thread, or search for it.")
    return stored


def must_hold(change: Change, message_id: str) -> StoredMessage:
    """The message, locked until the commit."""
    lock(change, must_exist(change, message_id).document_id)
    return must_exist(change, message_id)


def with_reactions(read: Reader, stored: list[StoredMessage]) -> list[Message]:
    """Messages of one thread with their reactions, read by one query."""
    if not stored:
        return []
    seqs = [s.message.seq for s in stored]
    found = reactions.between(read, stored[0].document_id, min(seqs), max(seqs))
    return [
        replace(s.message, reactions=reactions.of(rows, s.message.id))
        if (rows := found.get(s.passage_id))
        else s.message
        for s in stored
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


def add(
    change: Change, thread: StoredThread, draft: Draft, seq: int, key: str | None
) -> tuple[Message, mentions.Receivers]:
    message_id, at = new_id(), now()
    message = Message(
        id=message_id,
        message_id=message_id,
        thread_id=thread.thread.id,
        seq=seq,
        author=draft.author,
        author_id=draft.author_id,
        author_name=draft.author_name,
        role=draft.role,
        content=draft.content,
        created_at=at,
        priority=draft.priority,
        mentions=list(draft.mentions),
        reply_to_msg_id=draft.reply_to_msg_id,
        metadata=draft.metadata,
        edited_at=None,
        edit_version=0,
    )
    passage_id = documents.add_passage(
        change,
        source="bus",
        document_id=thread.document_id,
        position=seq,
        native_id=message_id,
        role=draft.role,
        author=draft.author,
        author_id=draft.author_id,
        text=draft.content,
        created_at=at,
        data=_data(message),
    )
    receivers = receivers_of(change, thread, message)
    mentions.add(change, message, passage_id, thread.document_id, receivers)
    if key is not None:
        change.run(
            "insert_post_key", document_id=thread.document_id, author=draft.author, key=key, passage_id=passage_id
        )
    return message, receivers


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
    documents.update_passage(
        change,
        source="bus",
        document_id=stored.document_id,
        passage_id=stored.passage_id,
        author_id=old.author_id,
        role=old.role,
        text=content,
        data=documents.encode_data(_data(message)),
    )
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
    rows = read.all("edits", passage_id=stored.passage_id)
    return [Edit(r["version"], r["old_content"], r["edited_by"], instant(r["created_at"])) for r in rows]


def remove(change: Change, stored: StoredMessage) -> None:
    """Delete a message from the tables, the index and the event log. Its seq is never used again."""
    documents.remove_passage(change, stored.passage_id)
    change.run("subtract_message", document_id=stored.document_id)
    events.forget_content(change, stored.message.thread_id, stored.message.id)
