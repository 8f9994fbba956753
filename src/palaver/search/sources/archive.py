"""The archive: imported conversations."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Any, Literal

from pydantic import Field

from palaver.model.library import COPYING, is_unique
from palaver.model.people import Caller
from palaver.model.requests import Date, Project
from palaver.model.search import FoundPassage
from palaver.model.times import between_dates
from palaver.search.sources.shapes import Conversation, Hit, SourceFilters
from palaver.store.engines.database import Reader, Scope
from palaver.store.library.documents import project_filter

RECORDED = (COPYING, "codex:", "copilot:", "gemini:", "opencode:")
"""Prefixes of the ids of imported conversations that `palaver watch` can also record as sessions."""
OF_CHATGPT = ("chatgpt:", "canonical-db:")
"""Prefixes of ChatGPT conversations. An export and a canonical database can hold the same one, with the same ids."""


class ArchiveFilters(SourceFilters):
    roles: Annotated[list[Literal["user", "assistant", "tool"]], Field(max_length=10)] | None = None
    """Only messages with these roles."""
    date_from: Date | None = None
    """Only what was said at this time or later (ISO 8601)."""
    date_to: Date | None = None
    """Only what was said at this time or earlier; a date alone means the end of that day."""
    project: Project | None = None
    """Only conversations of this project: its path, or its last component."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        roles = tuple(self.roles or ())
        since, until = between_dates(self.date_from, self.date_to)
        own = project_filter(self.project)
        return Scope(("archive",), titles=not roles, scopes=own, roles=roles, since=since, until=until)


class Archive(Conversation):
    name = "archive"
    filters = ArchiveFilters
    has_own_message_ids = False
    search_help = "Search messages of imported conversations with keywords or a question, best match first."
    get_help = "Open an imported conversation: a page of its messages, or the part around one of them."
    id_field, id_help = "conversation_id", "Id of the conversation."

    def key_of(self, hit: Hit) -> Hashable:
        if hit.document.startswith(OF_CHATGPT):
            own_id = hit.native_id if hit.position else hit.document.partition(":")[2]
            return own_id if is_unique(own_id) else super().key_of(hit)
        if not hit.position or not hit.document.startswith(RECORDED):
            return super().key_of(hit)
        if is_unique(hit.native_id):
            return hit.native_id
        is_copied = hit.created_at and hit.document.startswith(COPYING)
        return (hit.native_id, hit.created_at) if is_copied else super().key_of(hit)

    def conversation_of(self, hit: Hit) -> Hashable:
        own_id = hit.document.partition(":")[2]
        return own_id if is_unique(own_id) else super().conversation_of(hit)

    def particulars(self, at: FoundPassage) -> dict[str, Any]:
        return {**super().particulars(at), "project": at.facts.get("project")}
