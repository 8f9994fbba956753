"""Notes: a title, a text and keywords."""

from __future__ import annotations

from palaver.model.library import ItemDraft, Note
from palaver.model.people import Caller
from palaver.model.requests import Names
from palaver.search.sources import tokens
from palaver.search.sources.indexing import cut, labels
from palaver.search.sources.shapes import SourceFilters, Text
from palaver.store.engines.database import Reader, Scope


class NotesFilters(SourceFilters):
    keywords: Names | None = None
    """Only notes that have all of these keywords."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        return Scope(("notes",), scopes=tuple(tokens.keyword(keyword) for keyword in self.keywords or ()))


class Notes(Text):
    name = "notes"
    filters = NotesFilters
    search_help = "Search notes, best match first."
    get_help = "Open a note: a snippet, the matching chunk with its neighbours, or all of it."
    id_field, id_help = "note_id", "Id of the note."


def index_note(note: Note) -> ItemDraft:
    own = tuple(tokens.keyword(keyword) for keyword in note.keywords)
    return ItemDraft(
        title=note.title,
        facts={"keywords": list(note.keywords)},
        bodies={"content": note.content},
        passages=(*cut(note.content, "content", own), *labels("keywords", note.keywords, own)),
        title_scopes=own,
    )
