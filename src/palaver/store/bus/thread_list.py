"""The list of threads, each with the beginnings of its last messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

import orjson

from palaver.model.times import instant
from palaver.store.bus import threads
from palaver.store.bus.threads import StoredThread
from palaver.store.engines.database import Reader

LAST_FEW = 20
"""How many of the last messages are read for each thread."""
LENGTH = 200
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
        each=LAST_FEW,
        length=LENGTH,
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
        found.append(ThreadSummary(threads.stored_of(some[0]), messages, some[0]["read_seq"]))
    return found
