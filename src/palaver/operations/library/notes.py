"""Notes: a title, a text and keywords."""

from __future__ import annotations

from pydantic import Field

from palaver.model.library import Note
from palaver.model.requests import Line
from palaver.operations.library.items import Content, Created, ItemSource, Keywords, operations_of
from palaver.operations.operation import Command
from palaver.search.sources.indexing import index_note


class CreateNote(Created):
    title: Line
    """Title of the note."""
    content: Content = ""
    """Text of the note. It is stored unchanged."""
    keywords: Keywords = Field(default=[])
    """Keywords for search."""


NOTES = ItemSource(
    name="notes",
    noun="note",
    key="note_id",
    key_help="Id of the note.",
    piece=Note,
    index=index_note,
    creates=CreateNote,
    help={
        "create": "Store a note with a title, a text and keywords.",
        "read": "Get one note.",
        "list": "List notes, last changed first.",
    },
    columns=("id", "title", "keywords", "last_modified"),
    text="content",
    commands={
        "create": Command("note add", takes=("title",), rest="content"),
        "update": Command("note edit", takes=("note_id",)),
    },
    hidden=("created_at",),
)
OPERATIONS = operations_of(NOTES)
create_note, read_note, update_note, list_notes, delete_note, restore_note = OPERATIONS
