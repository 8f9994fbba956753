"""Documents and passages: what every source is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from unicodedata import normalize

import orjson

from palaver.model.times import micros
from palaver.store.database import Change, IndexRow, Reader, Row, in_pieces
from palaver.store.lanes import SUBSTRING_SOURCES, lane_of
from palaver.text import fold

SCOPES = "scopes"
"""Where a passage's own data names the further scopes it stands in."""


def encode_data(data: dict[str, Any]) -> str:
    return orjson.dumps({key: value for key, value in data.items() if value is not None}).decode()


def add_document(
    change: Change,
    *,
    source: str,
    native_id: str,
    title: str | None,
    created_at: datetime,
    data: dict[str, Any],
    agent_id: str | None = None,
    is_found_by_title: bool = True,
) -> int:
    row = change.must(
        "insert_document",
        source=source,
        native_id=native_id,
        title=title,
        agent_id=agent_id,
        created_at=micros(created_at),
        data=encode_data(data),
    )
    document_id: int = row["id"]
    if title and is_found_by_title:
        add_title(change, source, document_id, native_id, title, created_at)
    return document_id


def add_title(change: Change, source: str, document_id: int, native_id: str, title: str, created_at: datetime) -> None:
    """The title is passage zero."""
    add_passage(
        change,
        source=source,
        document_id=document_id,
        position=0,
        native_id=f"{native_id}#title",
        field="title",
        text=title,
        created_at=created_at,
    )


def add_passage(
    change: Change,
    *,
    source: str,
    document_id: int,
    position: int,
    native_id: str,
    text: str,
    created_at: datetime | None,
    field: str = "content",
    role: str | None = None,
    author: str | None = None,
    author_id: str | None = None,
    data: dict[str, Any] | None = None,
) -> int:
    """Store a passage and hand it to the index, both in this change."""
    lane, lane_end = lane_of(source, titles=field == "title")
    row = change.must(
        "insert_passage",
        lane=lane,
        lane_end=lane_end,
        document_id=document_id,
        position=position,
        native_id=native_id,
        field=field,
        role=role,
        author=author,
        author_id=author_id,
        text=text,
        created_at=micros(created_at) if created_at else None,
        data=encode_data(data or {}),
    )
    passage_id: int = row["id"]
    scopes = (data or {}).get(SCOPES, ())
    change.index(passage_id, index_row(source, document_id, field, author_id, text, role, scopes), is_new=True)
    return passage_id


class Folded(NamedTuple):
    """A text as the index knows it."""

    words: list[str]
    stems: list[str]
    substring: str


def folded(text: str) -> Folded:
    words = fold.words(text)
    return Folded(words, fold.stems(words), substring_form(text))


class NewPassage(NamedTuple):
    document_id: int
    position: int
    native_id: str
    role: str | None
    text: str
    created_at: datetime | None
    folded: Folded


def add_passages(change: Change, source: str, field: str, passages: Sequence[NewPassage]) -> None:
    """Store many passages of one kind, said by whoever has the role, and hand them to the index."""
    if not passages:
        return
    lane, lane_end = lane_of(source, titles=field == "title")
    ids = orjson.loads(change.must("take_passage_ids", lane=lane, lane_end=lane_end, count=len(passages))["ids"])
    rows = (
        (id, new.document_id, new.position, new.native_id, field, new.role, new.text,
         micros(new.created_at) if new.created_at else None)
        for id, new in zip(ids, passages, strict=True)
    )  # fmt: skip
    for some in in_pieces(rows):
        change.run("insert_passages", rows=some)
    kinds = (source, f"{source}{'title' if field == 'title' else 'body'}")
    for id, new in zip(ids, passages, strict=True):
        scopes = (*kinds, document_scope(new.document_id), *((role_scope(new.role),) if new.role else ()))
        words, stems, substring = new.folded
        row = IndexRow(scopes, words, substring if source in SUBSTRING_SOURCES else None, stems)
        change.index(id, row, is_new=True)


def index_row(
    source: str,
    document_id: int,
    field: str,
    author_id: str | None,
    text: str,
    role: str | None = None,
    more: Iterable[str] = (),
) -> IndexRow:
    """The scopes a passage stands in: its source and kind, its document, the agent it belongs to, its role, and
    whatever else its source narrows by."""
    kind = "title" if field == "title" else "body"
    scopes = [source, f"{source}{kind}", document_scope(document_id)]
    if author_id:
        scopes.append(agent_scope(author_id))
    if role:
        scopes.append(role_scope(role))
    scopes += more
    substring = substring_form(text) if source in SUBSTRING_SOURCES else None
    return IndexRow(tuple(scopes), fold.words(text), substring)


def substring_form(text: str) -> str:
    """Text in which any part is to be found, whatever its case."""
    return normalize("NFC", text).casefold()


def document_scope(document_id: int) -> str:
    return f"d{document_id}"


@lru_cache(maxsize=1024)
def role_scope(role: str) -> str:
    return "r" + "".join(fold.words(role))


@lru_cache(maxsize=1024)
def agent_scope(agent_id: str) -> str:
    return "a" + "".join(fold.words(agent_id))


def rewrite_passage(
    change: Change,
    *,
    source: str,
    document_id: int,
    passage_id: int,
    author_id: str | None,
    role: str | None,
    text: str,
    data: str,
) -> None:
    change.run("update_passage", id=passage_id, text=text, data=data)
    change.index(passage_id, index_row(source, document_id, "content", author_id, text, role), is_new=False)


def retitle(change: Change, *, source: str, document_id: int, title: str) -> None:
    row = change.must("title_passage", document_id=document_id)
    change.run("update_passage", id=row["id"], text=title, data="{}")
    change.index(row["id"], index_row(source, document_id, "title", None, title), is_new=False)


def backfill(change: Change, limit: int) -> int:
    """Take into the index what it does not have. Returns how many passages that were."""
    if mark := change.one("parts_mark"):
        return _backfill_parts(change, mark["value"], limit)
    rows = change.all("unindexed_passages", limit=limit)
    for row in rows:
        change.index(row["id"], index_row_of(row["source"], row), is_new=True)
    return len(rows)


def index_row_of(source: str, row: Row) -> IndexRow:
    """The same from a stored passage."""
    more = orjson.loads(row["data"]).get(SCOPES, ())
    return index_row(source, row["document_id"], row["field"], row["author_id"], row["text"], row["role"], more)


def is_complete(read: Reader) -> bool:
    """Does every passage stand in the index?"""
    return has_all_parts(read) and not read.all("unindexed_passages", limit=1)


def has_all_parts(read: Reader) -> bool:
    """Can any part of every text that allows it be looked up?"""
    return read.one("parts_mark") is None


def _backfill_parts(change: Change, after: int, limit: int) -> int:
    lane, lane_end = lane_of("archive")[0], lane_of("archive", titles=True)[1]
    rows = change.all("passages_without_parts", after=after, lane=lane, lane_end=lane_end, limit=limit)
    texts = {row["id"]: substring_form(row["text"]) for row in rows}
    change.connection.dialect.write_parts(change.connection, texts)
    if rows:
        change.run("move_parts_mark", value=rows[-1]["id"])
    else:
        change.run("forget_parts_mark")
    return 1 + len(rows)


def remove_passage(change: Change, passage_id: int) -> None:
    change.run("delete_passage", id=passage_id)
    change.unindex(passage_id)


def remove_document(change: Change, document_id: int) -> None:
    """Really gone: the document, its passages, and every word of them in the index."""
    for row in change.all("passage_ids", document_id=document_id):
        change.unindex(row["id"])
    change.run("delete_document", id=document_id)
