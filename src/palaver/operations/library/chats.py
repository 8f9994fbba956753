"""Chats with characters, and what is said in them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from palaver.model.library import ItemDraft
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Ask, Line
from palaver.model.times import instant
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Edited,
    Listing,
    current,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources import scopes
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.search import found_passages
from palaver.store.search.found_passages import PassageRow


@dataclass(frozen=True, slots=True)
class KeptChat:
    id: str
    conversation_id: str
    title: str
    character_id: int | str | None
    message_count: int
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    id: str
    message_id: str
    conversation_id: str
    message_index: int
    sender: str
    content: str
    created_at: datetime


class CreateChat(Created):
    title: Line
    """What it is called."""
    character_id: AnyId | None = None
    """The character it is with."""


class OneChat(Ask):
    conversation_id: AnyId
    """Id of the chat."""


class UpdateChat(Edited):
    conversation_id: AnyId
    """Id of the chat."""
    title: Line | None = None
    """A new title."""
    character_id: AnyId | None = None
    """Another character."""


class AddChatMessage(Created):
    conversation_id: AnyId
    """Id of the chat."""
    sender: Annotated[Line, Field(min_length=1, max_length=200)]
    """Who says it."""
    content: Content
    """What is said."""


class ListChatMessages(Listing):
    conversation_id: AnyId
    """Id of the chat."""


def shown_chat(read: Reader, kept: LibraryItem) -> KeptChat:
    return KeptChat(
        id=kept.id,
        conversation_id=kept.id,
        title=kept.title or "",
        character_id=kept.facts.get("character_id"),
        message_count=found_passages.passage_bounds(read, kept.document_id).last,
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=uri_of(kept),
    )


def _chat_scopes(character_id: int | str | None) -> tuple[str, ...]:
    return (scopes.character(character_id),) if character_id is not None else ()


@operation(Tool("chats.create", toolset=WRITING), Route("POST", "/api/chats", status=201))
def create_chat(change: Change, caller: Caller, ask: CreateChat) -> KeptChat:
    """Begin a chat, with a character or without one."""
    shelved = ItemDraft(
        title=ask.title,
        facts={"character_id": ask.character_id},
        bodies={},
        passages=(),
        title_scopes=_chat_scopes(ask.character_id),
    )
    return shown_chat(change, items.add(change, "chats", shelved, ask.at))


@operation(Route("GET", "/api/chats/{conversation_id}"), Command("chat show", takes=("conversation_id",)))
def read_chat(read: Reader, caller: Caller, ask: OneChat) -> KeptChat:
    """One chat; its messages are read apart."""
    return shown_chat(read, current(read, "chats", ask.conversation_id))


@operation(Tool("chats.update", toolset=WRITING), Route("PUT", "/api/chats/{conversation_id}"))
def update_chat(change: Change, caller: Caller, ask: UpdateChat) -> KeptChat:
    """Change the title of a chat, or the character it is with."""
    kept = current(change, "chats", ask.conversation_id, ask.version)
    character = ask.character_id if ask.character_id is not None else kept.facts.get("character_id")
    own = _chat_scopes(character)
    moved = items.retitle(
        change,
        kept,
        title=ask.title if ask.title is not None else kept.title or "",
        facts={"character_id": character},
        scopes=own,
        title_scopes=own,
    )
    return shown_chat(change, moved)


@operation(Route("GET", "/api/chats"), Command("chat list", columns=("id", "title", "message_count", "last_modified")))
def list_chats(read: Reader, caller: Caller, ask: Listing) -> list[KeptChat]:
    """Chats, those spoken in last first."""
    return [shown_chat(read, kept) for kept in items.page(read, "chats", ask.limit, ask.offset)]


@operation(
    Tool("chats.add_message", toolset=WRITING),
    Route("POST", "/api/chats/{conversation_id}/messages", status=201),
    Command("chat say", takes=("conversation_id", "sender"), rest="content"),
)
def add_chat_message(change: Change, caller: Caller, ask: AddChatMessage) -> ChatMessage:
    """Say something in a chat."""
    kept = current(change, "chats", ask.conversation_id)
    own = (scopes.sender(ask.sender), *_chat_scopes(kept.facts.get("character_id")))
    added = items.add_message(change, kept, author=ask.sender, text=ask.content, scopes=own, at=ask.at)
    return ChatMessage(
        id=added.id,
        message_id=added.id,
        conversation_id=kept.id,
        message_index=added.index,
        sender=ask.sender,
        content=ask.content,
        created_at=added.created_at,
    )


@operation(
    Route("GET", "/api/chats/{conversation_id}/messages"),
    Command("chat messages", takes=("conversation_id",), columns=("created_at", "sender", "content")),
)
def list_chat_messages(read: Reader, caller: Caller, ask: ListChatMessages) -> list[ChatMessage]:
    """The messages of a chat, in order."""
    kept = current(read, "chats", ask.conversation_id)
    first = 1 + ask.offset
    rows = found_passages.passages(read, kept.document_id, first, first + ask.limit - 1)
    return [chat_message(kept.id, row) for row in rows]


def chat_message(conversation_id: str, row: PassageRow) -> ChatMessage:
    return ChatMessage(
        id=row.native_id,
        message_id=row.native_id,
        conversation_id=conversation_id,
        message_index=row.position - 1,
        sender=row.author or "",
        content=row.text,
        created_at=instant(row.created_at or 0),
    )
