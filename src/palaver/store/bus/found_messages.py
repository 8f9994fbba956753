"""Bus messages that a search found, with their texts."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from palaver.store.engines.database import Reader


class FoundMessage(NamedTuple):
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


def by_ids(read: Reader, passage_ids: list[int]) -> list[FoundMessage]:
    """The messages with these passage ids, in the given order."""
    if not passage_ids:
        return []
    found = read.rows("found_messages", ids=orjson.dumps(passage_ids).decode())
    rows = {row[0]: FoundMessage._make(row) for row in found}
    return [rows[id] for id in passage_ids]
