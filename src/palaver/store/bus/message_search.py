"""Search in bus messages: ranks all matches, then reads the texts of one page."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from palaver.store.engines.database import RankedPage, Reader, Scope
from palaver.store.library.documents import HUMAN_ONLY, document_scope
from palaver.text.query import Query


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


def messages(
    read: Reader, query: Query, document_id: int | None, limit: int, *, is_blind: bool
) -> tuple[list[FoundMessage], RankedPage]:
    """The best messages. With `is_blind`, human-only messages are neither found nor counted."""
    scopes = () if document_id is None else (document_scope(document_id),)
    without = (HUMAN_ONLY,) if is_blind else ()
    scope = Scope(("bus",), titles=False, scopes=scopes, without=without, is_blind=is_blind)
    finding = read.find_also_apart(query, scope, limit)
    ids = [hit.passage_id for hit in finding.hits]
    rows = {row[0]: FoundMessage._make(row) for row in read.rows("found_messages", ids=orjson.dumps(ids).decode())}
    return [rows[id] for id in ids], finding
