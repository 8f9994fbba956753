"""Import library items from files. Importing the same item again changes nothing."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import orjson

from palaver.model.library import ImportedPiece, Media, Note
from palaver.operations.library.characters import CHARACTERS
from palaver.operations.library.items import ItemSource
from palaver.operations.library.media import MEDIA
from palaver.operations.library.notes import NOTES
from palaver.operations.library.prompts import PROMPTS
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import Outcome

_SOURCES: dict[type[Any], ItemSource] = {source.piece: source for source in (NOTES, MEDIA, CHARACTERS, PROMPTS)}


def source_of(brought: ImportedPiece) -> ItemSource:
    return _SOURCES[type(brought.piece)]


def import_outcome(read: Reader, brought: ImportedPiece) -> Outcome:
    """Whether an import would add, change or skip the item. Items with the same content are the same item."""
    source = source_of(brought).name
    known = items.origin(read, source, brought.origin)
    if known:
        return "unchanged" if known.fingerprint == fingerprint_of(brought) else "changed"
    return "unchanged" if items.id_by_content(read, source, content_digest(brought)) else "new"


def id_of(read: Reader, brought: ImportedPiece) -> str | int | None:
    """The id of the stored item; None if it was deleted since."""
    source = source_of(brought).name
    known = items.origin(read, source, brought.origin)
    id = known.id if known else items.id_by_content(read, source, content_digest(brought))
    kept = items.find(read, source, id) if id else None
    return kept.shown_id if kept else None


def import_piece(change: Change, brought: ImportedPiece) -> Outcome:
    """Add the item, or update it to the state of its file."""
    outcome = import_outcome(change, brought)
    if outcome != "unchanged":
        source = source_of(brought)
        draft, known = source.index(brought.piece), items.origin(change, source.name, brought.origin)
        kept = items.find(change, source.name, known.id) if known else None
        if kept:
            kept = items.update(change, kept, draft)
        else:
            kept = items.add(change, source.name, draft, brought.piece.created_at)
        items.remember_origin(change, kept, brought.origin, fingerprint_of(brought))
    return outcome


def fingerprint_of(brought: ImportedPiece) -> str:
    """A digest of the content and one of all fields except the creation time."""
    return content_digest(brought) + _digest(orjson.dumps(replace(brought.piece, created_at=None)))


def content_digest(brought: ImportedPiece) -> str:
    """A digest of the content. It is the same for a copy with another file name and title."""
    piece = brought.piece
    if isinstance(piece, Note | Media):
        return _digest(piece.content.encode())
    return _digest(orjson.dumps(replace(piece, created_at=None)))


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=16).hexdigest()
