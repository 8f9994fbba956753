"""Library items: notes, media, chats, characters, prompts. Each is a document with whole texts and passages.

Deleting is soft: the document and its passages stay, but leave the index. Restoring indexes them again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from palaver.store.rows import from_row

Outcome = Literal["new", "changed", "unchanged"]

NUMBERED = frozenset({"media", "characters"})
"""Sources whose ids are numbers."""
_NAMES = {"notes": "note", "media": "media", "chats": "chat", "characters": "character", "prompts": "prompt"}


@dataclass(frozen=True, slots=True)
class LibraryItem:
    """A stored item of the library."""

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
    row = read.one("item", source=source, native_id=id)
    return _item(source, row) if row and row["deleted_at"] is None else None


def must_exist(read: Reader, source: str, id: str) -> LibraryItem:
    found = find(read, source, id)
    if found is None:
        raise _unknown(source, id)
    return found


def by_title(read: Reader, source: str, title: str) -> LibraryItem | None:
    """The item with this title that was changed last."""
    row = read.one("item_by_title", source=source, title=title)
    return _item(source, row) if row else None


def id_of_name(read: Reader, source: str, name: str) -> str:
    """The id of the item with this id or title, even if it is deleted. Of several, the one deleted last."""
    row = read.one("item", source=source, native_id=name) or read.one("item_id_by_title", source=source, title=name)
    return row["native_id"] if row else name


def page(read: Reader, source: str, limit: int, offset: int) -> list[LibraryItem]:
    return [_item(source, row) for row in read.all("item_page", source=source, limit=limit, offset=offset)]


def bodies(read: Reader, document_id: int) -> dict[str, str]:
    """The whole texts of a document, by field."""
    return {row["field"]: row["text"] for row in read.all("bodies", document_id=document_id)}


def body(read: Reader, document_id: int, field: str) -> str | None:
    row = read.one("body", document_id=document_id, field=field)
    return row["text"] if row else None


def media_types(read: Reader) -> list[str]:
    return [row["media_type"] for row in read.all("media_types") if row["media_type"]]


# Writing


def add(change: Change, source: str, draft: ItemDraft, created_at: datetime | None = None) -> LibraryItem:
    id = str(change.must("take_number", name=source)["value"]) if source in NUMBERED else new_id()
    at = created_at or now()
    document_id = documents.add_document(
        change,
        source=source,
        native_id=id,
        title=draft.title,
        created_at=at,
        data=draft.facts,
        is_found_by_title=False,
    )
    item = LibraryItem(document_id, source, id, draft.title, draft.facts, at, at, 1)
    _write(change, item, draft)
    return item


def update(change: Change, item: LibraryItem, draft: ItemDraft) -> LibraryItem:
    """Replace the content of an item. All its passages are replaced."""
    updated = _update_row(change, item, draft.title, draft.facts)
    documents.remove_passages(change, item.document_id)
    for name in bodies(change, item.document_id).keys() - set(draft.bodies):
        change.run("drop_body", document_id=item.document_id, field=name)
    _write(change, item, draft)
    return updated


def _update_row(change: Change, item: LibraryItem, title: str, facts: dict[str, Any]) -> LibraryItem:
    """Store the next version of an item. Raises Conflict if this is not its current version."""
    at = now()
    is_current = change.run(
        "update_item",
        id=item.document_id,
        version=item.version,
        title=title,
        modified_at=micros(at),
        data=documents.encode_data(facts),
    )
    if not is_current:
        raise Conflict(f"This {_NAMES[item.source]} was changed meanwhile. Read it again, then repeat the change.")
    return replace(item, title=title, facts=facts, last_modified=at, version=item.version + 1)


def retitle(change: Change, item: LibraryItem, draft: ItemDraft) -> LibraryItem:
    """Set the title and facts of an item. Its passages stay and are indexed with the scope tokens of the title."""
    updated = _update_row(change, item, draft.title, draft.facts)
    for row in documents.whole_passages(change, item.document_id):
        if row["position"] == 0:
            documents.remove_passage(change, row["id"])
            continue
        data = orjson.loads(row["data"])
        own = [scope for scope in data.get(documents.SCOPES, ()) if scope.startswith("s")]
        documents.index_again(change, item.source, row, {**data, documents.SCOPES: [*own, *draft.title_scopes]})
    _add_title(change, item, draft.title, draft.title_scopes)
    return updated


def delete(change: Change, item: LibraryItem) -> None:
    change.run("delete_item", id=item.document_id, at=micros(now()))
    for row in change.all("passage_ids", document_id=item.document_id):
        change.unindex(row["id"])


def restore(change: Change, source: str, id: str) -> LibraryItem:
    """Restore a deleted item. An item that is not deleted stays as it is."""
    row = change.one("item", source=source, native_id=id)
    if row is None:
        raise _unknown(source, id)
    if row["deleted_at"] is not None:
        change.run("restore_item", id=row["id"])
        for passage in documents.whole_passages(change, row["id"]):
            documents.index_again(change, source, passage)
    return must_exist(change, source, id)


@dataclass(frozen=True, slots=True)
class AddedMessage:
    id: str
    index: int
    created_at: datetime


def add_message(
    change: Change, item: LibraryItem, *, author: str, text: str, scopes: tuple[str, ...], at: datetime | None
) -> AddedMessage:
    """Add a message to a chat. The lock makes other callers wait, so that positions have no gaps."""
    change.run("lock_item", id=item.document_id)
    last = change.must("passage_bounds", document_id=item.document_id)["last"]
    native_id, moment = new_id(), at or now()
    data = {documents.SCOPES: list(scopes)}
    new = NewPassage(item.document_id, last + 1, native_id, text, moment, author=author, data=data)
    documents.add_passage(change, item.source, new)
    change.run("touch_document", id=item.document_id, modified_at=micros(moment))
    return AddedMessage(native_id, last, moment)


def _write(change: Change, item: LibraryItem, draft: ItemDraft) -> None:
    for name, text in draft.bodies.items():
        change.run("put_body", document_id=item.document_id, field=name, text=text)
    _add_title(change, item, draft.title, draft.title_scopes)
    passages = (
        NewPassage(
            item.document_id,
            position,
            passage.native_id or f"{item.id}#{position - 1}",
            passage.text,
            item.created_at,
            passage.field,
            author=passage.author,
            data={**passage.data, documents.SCOPES: list(passage.scopes)} if passage.scopes else dict(passage.data),
        )
        for position, passage in enumerate(draft.passages, 1)
    )
    documents.add_passages(change, item.source, passages)


def _add_title(change: Change, item: LibraryItem, title: str, scopes: tuple[str, ...]) -> None:
    if title:
        data = {documents.SCOPES: list(scopes)} if scopes else None
        new = NewPassage(item.document_id, 0, f"{item.id}#title", title, item.created_at, "title", data=data)
        documents.add_passage(change, item.source, new)


def _item(source: str, row: Row) -> LibraryItem:
    facts, changed_at = orjson.loads(row["data"]), instant(row["modified_at"])
    own = {"document_id": row["id"], "source": source, "id": row["native_id"]}
    return from_row(LibraryItem, row, facts=facts, last_modified=changed_at, **own)


def _unknown(source: str, id: str) -> NotFound:
    return NotFound(_NAMES[source], id, f"List {source} to see what is there.")


# The files that items were imported from


@dataclass(frozen=True, slots=True)
class Origin:
    """The item that a file was imported as, and the fingerprint of the file's content."""

    id: str
    fingerprint: str


def origin(read: Reader, source: str, name: str) -> Origin | None:
    row = read.one("origin", source=source, origin=name)
    return Origin(row["native_id"], row["fingerprint"]) if row else None


def id_by_content(read: Reader, source: str, digest: str) -> str | None:
    """The id of an item with this content, from any file. Fingerprints begin with the digest of the content."""
    row = read.one("origin_by_content", source=source, first=digest + "0" * 32, last=digest + "f" * 32)
    return row["native_id"] if row else None


def remember_origin(change: Change, item: LibraryItem, name: str, fingerprint: str) -> None:
    change.run("put_origin", origin=name, source=item.source, fingerprint=fingerprint, document_id=item.document_id)
