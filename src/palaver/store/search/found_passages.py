"""Looking through everything at once: what may be an answer, and where it stands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from palaver.model.search import Standing
from palaver.model.times import instant, maybe_instant
from palaver.store.engines.database import (
    Reader,
    Row,
)
from palaver.store.engines.id_ranges import (
    RECORDED_SOURCES,
    TEXT_SOURCES,
    id_range_of,
    id_ranges_of,
)
from palaver.store.library.documents import further_scopes

_TEXTS = orjson.dumps(TEXT_SOURCES).decode()


class Candidate(NamedTuple):
    """A passage that may be what was asked for, with as much as its order depends on."""

    passage_id: int
    document_id: int
    position: int
    source: str
    document: str
    native_id: str
    created_at: int | None
    modified_at: int


def candidates(read: Reader, passage_ids: Sequence[int]) -> list[Candidate]:
    """Where these passages stand, in the same order."""
    rows = read.rows("candidates", ids=orjson.dumps(passage_ids).decode())
    found = {row[0]: Candidate._make(row) for row in rows}
    return [found[id] for id in passage_ids if id in found]


def texts_among(read: Reader, passage_ids: Sequence[int]) -> dict[int, int]:
    """The documents among these that are one result each, and how many of the passages are in them."""
    first = id_ranges_of(TEXT_SOURCES, bodies=True, titles=True)[0][0]
    return dict(read.rows("texts_among", ids=orjson.dumps(passage_ids).decode(), sources=_TEXTS, first=first))


def ids_of_messages(read: Reader, passage_ids: Sequence[int]) -> list[str]:
    """The messages among these passages that may be kept twice, by their own ids: turns of sessions, and imported."""
    first, last = id_range_of(RECORDED_SOURCES[0])[0], id_range_of(RECORDED_SOURCES[-1])[1]
    ids = orjson.dumps(passage_ids).decode()
    return [id for (id,) in read.rows("ids_of_messages", ids=ids, first=first, last=last)]


class Look(NamedTuple):
    """A passage with its text, to be looked at closely."""

    at: Candidate
    title: str | None
    role: str | None
    author: str | None
    text: str


def looks(read: Reader, spans: Iterable[tuple[int, int, int]], without: Collection[str] = ()) -> list[Look]:
    """The passages of documents between two positions: (document, first, last); none in the scopes of `without`."""
    rows = read.rows("looks", spans=orjson.dumps(list(spans)).decode())
    size = len(Candidate._fields)
    return [
        Look(Candidate._make(row[:size]), *row[size:-1])
        for row in rows
        if not (row[-1] and without) or set(without).isdisjoint(further_scopes("bus", orjson.loads(row[-1])))
    ]


def ids_within(read: Reader, spans: Iterable[tuple[int, int, int]]) -> dict[int, dict[int, int]]:
    """By document and position: the passages between two positions; no text is read. (document, first, last)"""
    found: dict[int, dict[int, int]] = {}
    for document_id, position, id in read.rows("ids_within", spans=orjson.dumps(list(spans)).decode()):
        found.setdefault(document_id, {})[position] = id
    return found


def titled(read: Reader, title: str) -> list[Row]:
    """The newest documents whose titles begin like this one, whatever the case of plain letters."""
    return read.all("titled", title=title, limit=50)


def titles_of(read: Reader, passage_ids: Iterable[int]) -> dict[int, str]:
    """The texts of passages, for those that are titles."""
    return dict(read.rows("titles_of", ids=orjson.dumps(list(passage_ids)).decode()))


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
