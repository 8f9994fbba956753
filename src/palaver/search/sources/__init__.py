"""The sources: what can be found, and what is particular about each. A new one is a class and a line here."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from palaver.model.library import COPYING, is_unique
from palaver.model.search import Loc, Standing
from palaver.search.sources.shapes import Fields, Hit, Running, Said, Source

RECORDED = (COPYING, "codex:")
"""How the ids of imported conversations begin that `palaver watch` may have recorded as sessions too."""


OF_CHATGPT = ("chatgpt:", "canonical-db:")
"""The same conversation may come from an export and from a canonical database, with the same ids."""


class Bus(Said):
    """Messages of a thread."""

    name = "bus"
    conversation_key, index_key, first_index = "thread_id", "seq", 1

    def sender_of(self, at: Standing) -> str | None:
        return at.marks.get("author_name") or super().sender_of(at)  # the author of an agent's message is its id


class Sessions(Said):
    """Turns of an agent's session."""

    name = "sessions"
    has_own_message_ids = False

    def key_of(self, hit: Hit) -> Hashable:
        return hit.native_id if hit.position and is_unique(hit.native_id) else super().key_of(hit)

    def loc(self, at: Standing, offset: int) -> Loc:
        return {**super().loc(at, offset), "agent_id": at.agent_id, "session_id": at.facts.get("session_id")}

    def sender_of(self, at: Standing) -> str | None:
        return at.role

    def particulars(self, at: Standing) -> dict[str, Any]:
        return {**super().particulars(at), "project": at.facts.get("project")}


class Archive(Said):
    """Messages of an imported conversation."""

    name = "archive"
    has_own_message_ids = False

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

    def particulars(self, at: Standing) -> dict[str, Any]:
        return {**super().particulars(at), "project": at.facts.get("project")}


class Chats(Said):
    """Messages of a chat with a character."""

    name = "chats"


class Notes(Running):
    name = "notes"


class Media(Running):
    """Videos, podcasts, books, articles."""

    name = "media"

    def id_of(self, document: str, native_id: str, position: int) -> str | int:
        return int(document)

    def loc(self, at: Standing, offset: int) -> Loc:
        found = {"media_id": int(at.document), **super().loc(at, offset)}
        return found | ({"chunk_uuid": at.native_id} if at.position and at.field == "content" else {})

    def particulars(self, at: Standing) -> dict[str, Any]:
        return {"media_type": at.facts.get("media_type"), "url": at.facts.get("url")}


class Characters(Fields):
    name = "characters"

    def id_of(self, document: str, native_id: str, position: int) -> str | int:
        return int(document)

    def tags(self, facts: Any) -> list[str] | None:
        return list(facts.get("tags") or [])


class Prompts(Fields):
    name = "prompts"


SOURCES: dict[str, Source] = {
    source.name: source for source in (Notes(), Media(), Chats(), Characters(), Prompts(), Bus(), Sessions(), Archive())
}
