"""Notes: create, read, update, list."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import Field

from palaver.model.library import ItemDraft, Note
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Line, Request
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Keywords,
    Listing,
    VersionedEdit,
    add_item,
    current,
    given,
    update_item,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources.notes import index_note
from palaver.store.engines.database import Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.workspaces import Workspace


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
    """Title of the note."""
    content: Content = ""
    """Text of the note. It is stored unchanged."""
    keywords: Keywords = Field(default=[])
    """Keywords for search."""


class OneNote(Request):
    note_id: AnyId
    """Id of the note."""


class UpdateNote(VersionedEdit):
    note_id: AnyId
    """Id of the note."""
    title: Line | None = None
    """New title."""
    content: Content | None = None
    """New text. It replaces the old one."""
    keywords: Keywords | None = None
    """New keywords. They replace the old ones."""


def note_of(read: Reader, kept: LibraryItem) -> KeptNote:
    return KeptNote(
        id=kept.id,
        title=kept.title or "",
        content=items.bodies(read, kept.document_id).get("content", ""),
        keywords=kept.facts.get("keywords", []),
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=uri_of(kept),
    )


@operation(
    Tool("notes.create", toolset=WRITING, hidden=("created_at",)),
    Route("POST", "/api/notes", status=201),
    Command("note add", takes=("title",), rest="content"),
)
async def create_note(workspace: Workspace, caller: Caller, request: CreateNote) -> KeptNote:
    """Store a note with a title, a text and keywords."""
    piece = Note(title=request.title, content=request.content, keywords=tuple(request.keywords))
    return await add_item(workspace, "notes", lambda: index_note(piece), note_of, request.at)


@operation(Route("GET", "/api/notes/{note_id}"), Command("note show", takes=("note_id",), text="content"))
def read_note(read: Reader, caller: Caller, request: OneNote) -> KeptNote:
    """Get one note."""
    return note_of(read, current(read, "notes", request.note_id))


@operation(
    Tool("notes.update", toolset=WRITING),
    Route("PUT", "/api/notes/{note_id}"),
    Command("note edit", takes=("note_id",)),
)
async def update_note(workspace: Workspace, caller: Caller, request: UpdateNote) -> KeptNote:
    """Update a note. Fields you leave out do not change."""

    def look(read: Reader) -> tuple[LibraryItem, ItemDraft]:
        kept = current(read, "notes", request.note_id, request.version)
        bodies = items.bodies(read, kept.document_id)
        old = Note(title=kept.title or "", content=bodies["content"], keywords=tuple(kept.facts["keywords"]))
        return kept, index_note(replace(old, **given(request, ("title", "content", "keywords"))))

    return await update_item(workspace, look, note_of, request.version)


@operation(
    Route("GET", "/api/notes"),
    Command("note list", columns=("id", "title", "keywords", "last_modified")),
)
def list_notes(read: Reader, caller: Caller, request: Listing) -> list[KeptNote]:
    """List notes, last changed first."""
    return [note_of(read, kept) for kept in items.page(read, "notes", request.limit, request.offset)]
