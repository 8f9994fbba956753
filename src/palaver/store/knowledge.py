"""Looking through everything at once: what may be an answer, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from palaver.model.knowledge import Standing
from palaver.model.times import instant, maybe_instant
from palaver.store.database import Reader, Row, Slice
from palaver.store.documents import document_scope
from palaver.text.query import Phrase

MOST_CANDIDATES = 10_000
TITLE_WEIGHT = 1.6
"""What stands in a title says more about the whole than what stands in a body."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that may be what was asked for, with as much as its order depends on."""

    passage_id: int
    document_id: int
    position: int
    source: str
    document: str
    native_id: str
    created_at: int | None
    modified_at: int
    score: float


def candidates(read: Reader, terms: Sequence[Phrase], slices: Iterable[Slice]) -> list[Candidate]:
    """What has any of the words, from all slices together, best first."""
    found = [hit for where in slices for hit in read.recall(terms, where, MOST_CANDIDATES)]
    found.sort(key=lambda hit: -hit.score)
    del found[MOST_CANDIDATES:]
    scores = {hit.passage_id: hit.score for hit in found}
    rows = read.all("candidates", ids=orjson.dumps(list(scores)).decode())
    weighed = [_candidate(row, scores[row["id"]]) for row in rows]
    weighed.sort(key=lambda one: (-one.score, one.passage_id))
    return weighed


def _candidate(row: Row, score: float) -> Candidate:
    return Candidate(
        passage_id=row["id"],
        document_id=row["document_id"],
        position=row["position"],
        source=row["source"],
        document=row["document"],
        native_id=row["native_id"],
        created_at=row["created_at"],
        modified_at=row["modified_at"],
        score=max(score * (TITLE_WEIGHT if row["position"] == 0 else 1.0), 1e-12),
    )


def best_in(read: Reader, source: str, document_id: int, terms: Sequence[Phrase]) -> int | None:
    """The passage of a document that has most of the words."""
    where = Slice((source,), titles=False, scopes=(document_scope(document_id),))
    found = read.recall(terms, where, 1)
    return found[0].passage_id if found else None


def standings(read: Reader, passage_ids: Iterable[int]) -> dict[int, Standing]:
    rows = read.all("standings", ids=orjson.dumps(list(passage_ids)).decode())
    return {row["id"]: _standing(row) for row in rows}


def standing(read: Reader, passage_id: int) -> Standing | None:
    return standings(read, [passage_id]).get(passage_id)


def _standing(row: Row) -> Standing:
    return Standing(
        source=row["source"],
        document_id=row["document_id"],
        document=row["document"],
        title=row["title"],
        agent_id=row["agent_id"],
        document_created=instant(row["document_created"]),
        document_modified=instant(row["document_modified"]),
        version=row["version"],
        facts=orjson.loads(row["facts"]),
        passage_id=row["id"],
        native_id=row["native_id"],
        position=row["position"],
        field=row["field"],
        role=row["role"],
        author=row["author"],
        author_id=row["author_id"],
        text=row["text"],
        created_at=maybe_instant(row["created_at"]),
        marks=orjson.loads(row["data"]),
    )


def beginnings(read: Reader, document_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """How documents begin: the first passage of each."""
    rows = read.all("first_passages", ids=orjson.dumps(list(document_ids)).decode())
    return {row["document_id"]: {**row, "data": orjson.loads(row["data"])} for row in rows}


# Opening a thing


@dataclass(frozen=True, slots=True)
class Opened:
    """A document, and the passage that was named with it, if one was."""

    document_id: int
    passage_id: int | None


def resolve(read: Reader, source: str, id: str) -> Opened | None:
    """The document of this id; or the passage: by its own id, or by `document/passage`."""
    row = read.one("document_by_native", source=source, native_id=id)
    if row:
        return Opened(row["id"], None)
    if source in ("bus", "chats"):
        found = read.one("passage_of_source", source=source, native_id=id)
        return Opened(found["document_id"], found["id"]) if found else _inside(read, source, id)
    return _inside(read, source, id)


def _inside(read: Reader, source: str, id: str) -> Opened | None:
    for at, char in enumerate(id):
        if char != "/":
            continue
        document = read.one("document_by_native", source=source, native_id=id[:at])
        if document is None:
            continue
        passage = read.one("passage_by_native", document_id=document["id"], native_id=id[at + 1 :])
        if passage:
            return Opened(document["id"], passage["id"])
    return None


def passages(read: Reader, document_id: int, first: int = 0, last: int = 2**31) -> list[Row]:
    """The passages of a document between two positions; the title is at 0."""
    return read.all("whole_passages", document_id=document_id, first=first, last=last)


def document(read: Reader, document_id: int) -> Standing:
    """A document as it stands when no passage of it was named: the place of its title."""
    row = read.must("document_alone", document_id=document_id)
    return _standing(row)
