"""The event log: reading, trimming and scrubbing it."""

from __future__ import annotations

from contextlib import suppress

import orjson

from palaver.model.events import Event, encode
from palaver.store.engines.database import Change, Reader


def last_id(read: Reader) -> int:
    """The id of the newest event."""
    return int(read.must("last_event_id")["value"])


def bounds(read: Reader) -> tuple[int, int]:
    """The first event id that can still be replayed, and the last one."""
    last = last_id(read)
    first = read.must("first_event_id")["id"]
    return (last + 1 if first is None else first), last


def after(read: Reader, id: int, thread_id: str | None, limit: int) -> list[Event]:
    name, of_thread = ("events", {}) if thread_id is None else ("thread_events", {"thread_id": thread_id})
    rows = read.all(f"{name}_after", after=id, limit=limit, **of_thread)
    return [Event(row["type"], row["thread_id"], row["payload"].encode(), row["message_id"], row["id"]) for row in rows]


def batch_after(read: Reader, id: int, thread_id: str | None, limit: int, most_bytes: int) -> tuple[list[Event], bool]:
    """The next events and whether there may be more: at most `limit` events and about `most_bytes` of payload, but
    at least one event."""
    name = "event_sizes_after" if thread_id is None else "thread_event_sizes_after"
    sizes = read.rows(name, after=id, limit=limit, **({} if thread_id is None else {"thread_id": thread_id}))
    room, count = most_bytes, 0
    for _, size in sizes:
        room -= size
        if room < 0 and count:
            break
        count += 1
    return (after(read, id, thread_id, count) if count else []), count < len(sizes) or len(sizes) == limit


def forget_old(change: Change, keep: int) -> int:
    """Delete all but the newest `keep` events."""
    return change.run("forget_events_before", id=last_id(change) - keep + 1)


def contents_of(read: Reader, message_id: str) -> list[str]:
    """The texts of a message that its events have, newest first."""
    found = []
    for row in read.all("events_of_message", message_id=message_id):
        with suppress(orjson.JSONDecodeError, AttributeError):  # an event may be damaged too
            found.append(orjson.loads(row["payload"]).get("content"))
    return [text for text in reversed(found) if isinstance(text, str)]


def forget_content(change: Change, thread_id: str, message_id: str | None = None) -> None:
    """Remove the text of deleted messages from their events. The events stay."""
    if message_id is None:
        rows = change.all("events_of_thread", thread_id=thread_id)
    else:
        rows = change.all("events_of_message", message_id=message_id)
    for row in rows:
        payload = orjson.loads(row["payload"])
        scrubbed = payload | {"content": "", "metadata": None, "deleted": True}
        change.run("replace_event_payload", id=row["id"], payload=encode(scrubbed).decode())
