"""What a person keeps: notes, media, chats, characters, prompts. Each is a document with whole texts and passages.

Deleting is soft: the document and its passages stay, the index forgets them; restoring indexes them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from palaver.errors import Conflict, NotFound
from palaver.model.ids import new_id
from palaver.model.library import ItemDraft
from palaver.model.times import instant, micros, now
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.library import documents
from palaver.store.library.documents import NewPassage

Outcome = Literal["new", "changed", "unchanged"]

NUMBERED = frozenset({"media", "characters"})
_NAMES = {"notes": "note", "media": "media", "chats": "chat", "characters": "character", "prompts": "prompt"}


@dataclass(frozen=True, slots=True)
class LibraryItem:
    """A document of the library, as stored."""

    document_id: int
    source: str
    id: str
    title: str | None
    facts: dict[str, Any]
    created_at: datetime
    last_modified: datetime
    version: int

    @property
    def shown_id(self) -> str | int:
        return int(self.id) if self.source in NUMBERED else self.id


# Reading


def find(read: Reader, source: str, id: str) -> LibraryItem | None:
    row = read.one("kept", source=source, native_id=id)
    return _kept(source, row) if row and row["deleted_at"] is None else None


def must_exist(read: Reader, source: str, id: str) -> LibraryItem:
    found = find(read, source, id)
    if found is None:
        raise _unknown(source, id)
    return found


def by_title(read: Reader, source: str, title: str) -> LibraryItem | None:
    """The one of this name that was changed last."""
    row = read.one("kept_by_title", source=source, title=title)
    return _kept(source, row) if row else None


def id_of_name(read: Reader, source: str, name: str) -> str:
    """The id of what has this id or this name, be it deleted: of several, the one that was deleted last."""
    row = read.one("kept", source=source, native_id=name) or read.one("once_named", source=source, title=name)
    return row["native_id"] if row else name


def page(read: Reader, source: str, limit: int, offset: int) -> list[LibraryItem]:
    return [_kept(source, row) for row in read.all("kept_page", source=source, limit=limit, offset=offset)]


def count(read: Reader, source: str) -> int:
    kept: int = read.must("count_kept", source=source)["kept"]
    return kept


def bodies(read: Reader, document_id: int) -> dict[str, str]:
    """The whole texts of a document, by field."""
    return {row["field"]: row["text"] for row in read.all("bodies", document_id=document_id)}


def body(read: Reader, document_id: int, field: str) -> str | None:
    row = read.one("body", document_id=document_id, field=field)
    return row["text"] if row else None


def media_types(read: Reader) -> list[str]:
    return [row["media_type"] for row in read.all("media_types") if row["media_type"]]


# Writing


def add(change: Change, source: str, shelved: ItemDraft, created_at: datetime | None = None) -> LibraryItem:
    id = str(change.must("take_number", name=source)["value"]) if source in NUMBERED else new_id()
    at = created_at or now()
    document_id = documents.add_document(
        change,
        source=source,
        native_id=id,
        title=shelved.title,
        created_at=at,
        data=shelved.facts,
        is_found_by_title=False,
    )
    kept = LibraryItem(document_id, source, id, shelved.title, shelved.facts, at, at, 1)
    _write(change, kept, shelved)
    return kept


def update(change: Change, kept: LibraryItem, shelved: ItemDraft) -> LibraryItem:
    """What the document is from now on. Its passages are cut anew."""
    at = now()
    _move_on(change, kept, shelved.title, shelved.facts, at)
    for row in change.all("passage_ids", document_id=kept.document_id):
        documents.remove_passage(change, row["id"])
    for name in bodies(change, kept.document_id).keys() - set(shelved.bodies):
        change.run("drop_body", document_id=kept.document_id, field=name)
    _write(change, kept, shelved)
    return _moved(kept, shelved.title, shelved.facts, at)


def _move_on(change: Change, kept: LibraryItem, title: str, facts: dict[str, Any], at: datetime) -> None:
    moved = change.run(
        "update_kept",
        id=kept.document_id,
        version=kept.version,
        title=title,
        modified_at=micros(at),
        data=documents.encode_data(facts),
    )
    if not moved:
        raise Conflict(f"This {_NAMES[kept.source]} has changed meanwhile: read it again, then repeat the change.")


def _moved(kept: LibraryItem, title: str, facts: dict[str, Any], at: datetime) -> LibraryItem:
    return LibraryItem(kept.document_id, kept.source, kept.id, title, facts, kept.created_at, at, kept.version + 1)


def retitle(
    change: Change,
    kept: LibraryItem,
    *,
    title: str,
    facts: dict[str, Any],
    scopes: tuple[str, ...],
    title_scopes: tuple[str, ...],
) -> LibraryItem:
    """A new title and new facts for a document whose passages stay; they are indexed with their new scopes."""
    at = now()
    _move_on(change, kept, title, facts, at)
    for row in _rows(change, kept.document_id):
        if row["position"] == 0:
            documents.remove_passage(change, row["id"])
            continue
        data = orjson.loads(row["data"])
        own = [scope for scope in data.get(documents.SCOPES, ()) if scope.startswith("s")]
        data[documents.SCOPES] = [*own, *scopes]
        change.run("update_passage", id=row["id"], text=row["text"], data=documents.encode_data(data))
        row = {**row, "document_id": kept.document_id, "data": orjson.dumps(data)}
        change.index(row["id"], documents.index_row_of(kept.source, row), is_new=False)
    _add_title(change, kept, title, title_scopes)
    return _moved(kept, title, facts, at)


def delete(change: Change, kept: LibraryItem) -> None:
    change.run("delete_kept", id=kept.document_id, at=micros(now()))
    for row in change.all("passage_ids", document_id=kept.document_id):
        change.unindex(row["id"])


def restore(change: Change, source: str, id: str) -> LibraryItem:
    """Bring back what was deleted. What was not is as it is."""
    row = change.one("kept", source=source, native_id=id)
    if row is None:
        raise _unknown(source, id)
    if row["deleted_at"] is not None:
        change.run("restore_kept", id=row["id"])
        for passage in _rows(change, row["id"]):
            index_row = documents.index_row_of(source, {**passage, "document_id": row["id"]})
            change.index(passage["id"], index_row, is_new=False)
    return must_exist(change, source, id)


@dataclass(frozen=True, slots=True)
class AddedMessage:
    id: str
    index: int
    created_at: datetime


def add_message(
    change: Change, kept: LibraryItem, *, author: str, text: str, scopes: tuple[str, ...], at: datetime | None
) -> AddedMessage:
    """Add a message to a chat. The lock makes other callers wait, so that positions have no gaps."""
    change.run("lock_kept", id=kept.document_id)
    last = change.must("passage_bounds", document_id=kept.document_id)["last"]
    native_id, moment = new_id(), at or now()
    documents.add_passage(
        change,
        source=kept.source,
        document_id=kept.document_id,
        position=last + 1,
        native_id=native_id,
        author=author,
        text=text,
        created_at=moment,
        data={documents.SCOPES: list(scopes)},
    )
    change.run("document_spoke", id=kept.document_id, modified_at=micros(moment))
    return AddedMessage(native_id, last, moment)


def _write(change: Change, kept: LibraryItem, shelved: ItemDraft) -> None:
    for name, text in shelved.bodies.items():
        change.run("put_body", document_id=kept.document_id, field=name, text=text)
    _add_title(change, kept, shelved.title, shelved.title_scopes)
    passages = (
        NewPassage(
            kept.document_id,
            position,
            draft.native_id or f"{kept.id}#{position - 1}",
            draft.text,
            kept.created_at,
            draft.field,
            author=draft.author,
            data={**draft.data, documents.SCOPES: list(draft.scopes)} if draft.scopes else dict(draft.data),
        )
        for position, draft in enumerate(shelved.passages, 1)
    )
    documents.add_passages(change, kept.source, passages)


def _add_title(change: Change, kept: LibraryItem, title: str, scopes: tuple[str, ...]) -> None:
    if not title:
        return
    documents.add_passage(
        change,
        source=kept.source,
        document_id=kept.document_id,
        position=0,
        native_id=f"{kept.id}#title",
        field="title",
        text=title,
        created_at=kept.created_at,
        data={documents.SCOPES: list(scopes)} if scopes else {},
    )


def _rows(read: Reader, document_id: int) -> list[Row]:
    return read.all("whole_passages", document_id=document_id, first=0, last=2**31)


def _kept(source: str, row: Row) -> LibraryItem:
    return LibraryItem(
        row["id"],
        source,
        row["native_id"],
        row["title"],
        orjson.loads(row["data"]),
        instant(row["created_at"]),
        instant(row["modified_at"]),
        row["version"],
    )


def _unknown(source: str, id: str) -> NotFound:
    return NotFound(_NAMES[source], id, f"List {source} to see what is there.")


# Where it came from


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of a file: which document it became, and whether what it holds has changed since."""

    id: str
    fingerprint: str
    is_deleted: bool


def origin(read: Reader, source: str, name: str) -> Origin | None:
    row = read.one("origin", source=source, origin=name)
    return Origin(row["native_id"], row["fingerprint"], row["deleted_at"] is not None) if row else None


def id_by_content(read: Reader, source: str, digest: str) -> str | None:
    """What holds content of this digest, with which fingerprints begin, wherever it came from."""
    row = read.one("origin_by_content", source=source, first=digest + "0" * 32, last=digest + "f" * 32)
    return row["native_id"] if row else None


def remember_origin(change: Change, kept: LibraryItem, name: str, fingerprint: str) -> None:
    change.run("put_origin", origin=name, source=kept.source, fingerprint=fingerprint, document_id=kept.document_id)
