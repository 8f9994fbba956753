"""Finding bus messages: rank first, then read text for the page only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from palaver.store.database import Finding, Narrow, Reader, Row
from palaver.store.documents import document_scope
from palaver.text.query import Query


@dataclass(frozen=True, slots=True)
class FoundMessage:
    row: Row
    metadata: dict[str, Any] | None


def messages(read: Reader, query: Query, document_id: int | None, limit: int) -> tuple[list[FoundMessage], Finding]:
    scopes = () if document_id is None else (document_scope(document_id),)
    finding = read.find(query, Narrow("bus", scopes=scopes), limit)
    ids = orjson.dumps([hit.passage_id for hit in finding.hits]).decode()
    rows = {row["passage_id"]: row for row in read.all("found_messages", ids=ids)}
    ranked = [rows[hit.passage_id] for hit in finding.hits]
    return [FoundMessage(row, orjson.loads(row["data"]).get("metadata")) for row in ranked], finding
