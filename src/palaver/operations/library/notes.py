"""Notes: a title, a text, keywords."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import Field

from palaver.model.library import Note
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Ask, Line
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Edited,
    Keywords,
    Listing,
    current,
    given,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources import shelving
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem


@dataclass(frozen=True, slots=True)
class KeptNote:
    id: str
    title: str
    content: str
    keywords: list[str]
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


class CreateNote(Created):
    title: Line
    """What it is called."""
    content: Content = ""
    """The text, as it is to be kept."""
    keywords: Keywords = Field(default=[])
    """Words to find it by; upper and lower case are the same."""


class OneNote(Ask):
    note_id: AnyId
    """Id of the note."""


class UpdateNote(Edited):
    note_id: AnyId
    """Id of the note."""
    title: Line | None = None
    """A new title."""
    content: Content | None = None
    """New text, in place of the old."""
    keywords: Keywords | None = None
    """New keywords, in place of the old."""


def _note(kept: LibraryItem, bodies: dict[str, str]) -> KeptNote:
    return KeptNote(
        id=kept.id,
        title=kept.title or "",
        content=bodies.get("content", ""),
        keywords=kept.facts.get("keywords", []),
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=uri_of(kept),
    )


def shown_note(read: Reader, kept: LibraryItem) -> KeptNote:
    return _note(kept, items.bodies(read, kept.document_id))


@operation(
    Tool("notes.create", toolset=WRITING),
    Route("POST", "/api/notes", status=201),
    Command("note add", takes=("title",), rest="content"),
)
def create_note(change: Change, caller: Caller, ask: CreateNote) -> KeptNote:
    """Keep a note: a title, a text, keywords to find it by."""
    piece = Note(title=ask.title, content=ask.content, keywords=tuple(ask.keywords))
    return shown_note(change, items.add(change, "notes", shelving.note(piece), ask.at))


@operation(Route("GET", "/api/notes/{note_id}"), Command("note show", takes=("note_id",), text="content"))
def read_note(read: Reader, caller: Caller, ask: OneNote) -> KeptNote:
    """One note, whole."""
    return shown_note(read, current(read, "notes", ask.note_id))


@operation(
    Tool("notes.update", toolset=WRITING),
    Route("PUT", "/api/notes/{note_id}"),
    Command("note edit", takes=("note_id",)),
)
def update_note(change: Change, caller: Caller, ask: UpdateNote) -> KeptNote:
    """Change a note: what you leave out stays as it is."""
    kept = current(change, "notes", ask.note_id, ask.version)
    bodies = items.bodies(change, kept.document_id)
    old = Note(title=kept.title or "", content=bodies["content"], keywords=tuple(kept.facts["keywords"]))
    piece = replace(old, **given(ask, ("title", "content", "keywords")))
    return shown_note(change, items.update(change, kept, shelving.note(piece)))


@operation(
    Route("GET", "/api/notes"),
    Command("note list", columns=("id", "title", "keywords", "last_modified")),
)
def list_notes(read: Reader, caller: Caller, ask: Listing) -> list[KeptNote]:
    """Notes, those changed last first."""
    return [shown_note(read, kept) for kept in items.page(read, "notes", ask.limit, ask.offset)]
