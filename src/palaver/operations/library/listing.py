"""List the library: the documents of one source, filtered, sorted and paged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from palaver.model.people import Caller
from palaver.model.requests import Line, Request, clamp
from palaver.operations.operation import Command, Route, operation
from palaver.operations.sessions.owners import must_be_indexed
from palaver.search.sources import tokens
from palaver.store.engines.database import Reader
from palaver.store.library import listing
from palaver.store.library.listing import Card, Choices, Sort, Wanted
from palaver.store.sessions import sharing


class ListLibrary(Request):
    source: Literal["notes", "prompts", "media", "characters", "chats", "sessions", "archive"]
    """notes, prompts, media, characters, chats, sessions or archive (imported chats)."""
    text: Line = ""
    """Words that must be in the title or the tags. Parts of words are enough."""
    tag: Line = ""
    """Only documents with this tag."""
    origin: Line = ""
    """Only this program (imported chats), agent (sessions), type (media), or folder that files were imported from."""
    project: Line = ""
    """Only sessions and imported chats of this project: path or folder name."""
    sort: Sort = "changed"
    """changed (latest first), created (latest first) or title."""
    deleted: bool = False
    """List the deleted documents instead. They can be restored."""
    choices: bool = False
    """Add the tags, origins and projects to filter by, with the number of documents."""
    limit: Annotated[int, clamp(1, 200)] = 60
    """Maximum number of documents, up to 200."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """Number of documents to skip."""


@dataclass(frozen=True, slots=True)
class LibraryPage:
    documents: list[Card]
    total: int
    """Number of documents on all pages."""
    choices: Choices | None


@operation(
    Route("GET", "/api/library/{source}"),
    Command(
        "library",
        takes=("source",),
        columns=("id", "title", "tags", "origin", "project", "changed_at"),
        rows="documents",
    ),
)
def list_library(read: Reader, caller: Caller, request: ListLibrary) -> LibraryPage:
    """List the documents of one source, with filters and an order. Texts are shortened."""
    groups = None
    if request.source == "sessions":
        must_be_indexed(read)
        groups = sharing.readable_groups(read, sharing.reach_of(read, caller))
    scopes = [tokens.keyword(request.tag)] if request.tag else []
    if request.source == "media" and request.origin:
        scopes.append(tokens.media_type(request.origin))
    wanted = Wanted(
        groups=groups,
        text=request.text.strip(),
        project=request.project.strip(),
        tokens=tuple(scopes),
        **request.model_dump(include={"source", "tag", "origin", "sort", "deleted"}),
    )
    documents, total = listing.page(read, wanted, request.limit, request.offset)
    found = listing.choices(read, wanted) if request.choices else None
    return LibraryPage(documents, total, found)
