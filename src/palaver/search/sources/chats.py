"""Chats with characters."""

from __future__ import annotations

from typing import Literal

from palaver.model.people import Caller
from palaver.model.requests import Line, NumberId
from palaver.search.sources import tokens
from palaver.search.sources.shapes import Conversation, SourceFilters
from palaver.store.engines.database import Reader, Scope


class ChatsFilters(SourceFilters):
    by: Literal["both", "title", "message"] | None = None
    """Look in titles, in messages, or in both."""
    character_id: NumberId | None = None
    """Only chats with this character."""
    sender: Line | None = None
    """Only messages of this sender."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        by, own = self.by or "both", []
        if self.character_id is not None:
            own.append(tokens.character(self.character_id))
        if self.sender:
            own.append(tokens.sender(self.sender))
        titles = by != "message" and not self.sender
        if not titles and by == "title":
            return None
        return Scope(("chats",), bodies=by != "title", titles=titles, scopes=tuple(own))


class Chats(Conversation):
    name = "chats"
    filters = ChatsFilters
    search_help = "Search chats by title and messages, best match first."
    get_help = "Open a chat: a page of its messages, or the part around one of them."
    id_field, id_help = "conversation_id", "Id of the chat."
