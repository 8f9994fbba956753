"""The table of importers. A new format is a new file and one row here.

A file goes to the first importer that recognises it: first the chats, then the importers of other packages, then the
library.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

from palaver.importers.chats import canonical_db, chatgpt, claude_ai, palaver_export
from palaver.importers.coding_agents import claude_code, cline, codex, codex_json, copilot, cursor, gemini, opencode
from palaver.importers.coding_agents.session_files import SessionFiles
from palaver.importers.item import Importer, Item, LibraryImporter, Skipped, printable
from palaver.importers.library import (
    character_cards,
    epub,
    notes,
    office,
    pdf,
    plain_text,
    prompt_files,
    recordings,
    web_pages,
)


@runtime_checkable
class WholeSessions(Importer, Protocol):
    """An importer whose files `palaver watch` reads again as a whole whenever they change."""

    @property
    def session_names(self) -> tuple[str, ...]:
        """The names of its files, with wildcards."""

    def last_change(self, item: Item) -> int:
        """The time of the last change in a database, for `Item.since`; 0 for other files."""


CHATS: tuple[Importer, ...] = (
    palaver_export,
    canonical_db,
    cursor,
    opencode,
    SessionFiles("copilot", copilot),
    gemini,
    cline,
    chatgpt,
    claude_ai,
    codex_json,
    SessionFiles("codex", codex),
    SessionFiles("claude-code", claude_code),
)

LIBRARY: tuple[LibraryImporter, ...] = (
    character_cards,
    prompt_files,
    recordings,
    notes,
    pdf,
    epub,
    office,
    web_pages,
    plain_text,
)

ENTRY_POINTS = "palaver.importers"

AnyImporter = Importer | LibraryImporter


def all_importers() -> Iterator[AnyImporter | Skipped]:
    """Every importer, in the order they are asked; Skipped for one of another package that cannot be loaded."""
    yield from CHATS
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            importer = entry.load()
            is_importer = isinstance(importer.name, str) and callable(importer.recognises)
            if not is_importer or not any(
                callable(getattr(importer, name, None)) for name in ("conversations", "pieces")
            ):
                raise TypeError("not an importer")
        except Exception as problem:
            why = f"it cannot be loaded ({printable(f'{type(problem).__name__}: {problem}')})"
            yield Skipped(printable(f"importer {entry.name}"), why)
        else:
            yield importer
    yield from LIBRARY


def is_library(importer: AnyImporter) -> bool:
    return any(importer is ours for ours in LIBRARY)


def is_built_in(importer: AnyImporter) -> bool:
    return any(importer is ours for ours in (*CHATS, *LIBRARY))
