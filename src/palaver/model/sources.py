"""The table of sources. A new source is a row here and a file in search/sources/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple


class SourceRow(NamedTuple):
    """One kind of document."""

    name: str
    """The name in requests, URIs and tools."""
    label: str
    """The name that people see, in the plural."""
    singular: str
    shape: Literal["conversation", "text", "fields"]
    """In a conversation each message is a result; elsewhere the document is."""
    id_range: int
    """The number of its range of passage ids. It is in the database, so it never changes."""
    is_library: bool = False
    """People create, edit and delete its items."""
    has_projects: bool = False
    """Its documents can belong to a project."""
    has_copies: bool = False
    """A message can be stored more than once, with the same id."""
    is_shared: bool = True
    """Everyone in the workspace can search it; otherwise an agent finds only its own."""
    has_substrings: bool = False
    """Any part of a text can be searched for, not only words."""


SOURCES: tuple[SourceRow, ...] = (
    SourceRow("notes", "Notes", "note", "text", 4, is_library=True),
    SourceRow("media", "Media", "media item", "text", 5, is_library=True),
    SourceRow("chats", "Chats", "chat", "conversation", 3, is_library=True),
    SourceRow("characters", "Characters", "character", "fields", 7, is_library=True),
    SourceRow("prompts", "Prompts", "prompt", "fields", 6, is_library=True),
    SourceRow("bus", "Bus", "thread", "conversation", 0),
    SourceRow(
        "sessions", "Sessions", "session", "conversation", 1, has_projects=True, has_copies=True, is_shared=False
    ),
    SourceRow(
        "archive",
        "Imported",
        "conversation",
        "conversation",
        2,
        has_projects=True,
        has_copies=True,
        has_substrings=True,
    ),
)

ALL_SOURCES: tuple[str, ...] = tuple(row.name for row in SOURCES)

if TYPE_CHECKING:
    SourceName = str
else:
    SourceName = Literal[ALL_SOURCES]
