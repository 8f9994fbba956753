"""Chats with characters: create, read, update, list, and their messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from palaver.model.library import ItemDraft
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Line, Request
from palaver.model.times import instant
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Listing,
    VersionedEdit,
    current,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources import tokens
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
    """Title of the chat."""
    character_id: AnyId | None = None
    """Id of the character in the chat."""


class OneChat(Request):
    conversation_id: AnyId
    """Id of the chat."""


class UpdateChat(VersionedEdit):
    conversation_id: AnyId
    """Id of the chat."""
    title: Line | None = None
    """New title."""
    character_id: AnyId | None = None
    """Id of another character."""


class AddChatMessage(Created):
    conversation_id: AnyId
    """Id of the chat."""
    sender: Annotated[Line, Field(min_length=1, max_length=200)]
    """Name of the sender."""
    content: Content
    """Text of the message."""


class ListChatMessages(Listing):
    conversation_id: AnyId
    """Id of the chat."""


def chat_of(read: Reader, kept: LibraryItem) -> KeptChat:
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
    return (tokens.character(character_id),) if character_id is not None else ()


@operation(Tool("chats.create", toolset=WRITING), Route("POST", "/api/chats", status=201))
def create_chat(change: Change, caller: Caller, request: CreateChat) -> KeptChat:
    """Create a chat, with or without a character."""
    shelved = ItemDraft(
        title=request.title,
        facts={"character_id": request.character_id},
        bodies={},
        passages=(),
        title_scopes=_chat_scopes(request.character_id),
    )
    return chat_of(change, items.add(change, "chats", shelved, request.at))


@operation(Route("GET", "/api/chats/{conversation_id}"), Command("chat show", takes=("conversation_id",)))
def read_chat(read: Reader, caller: Caller, request: OneChat) -> KeptChat:
    """Get one chat without its messages."""
    return chat_of(read, current(read, "chats", request.conversation_id))


@operation(Tool("chats.update", toolset=WRITING), Route("PUT", "/api/chats/{conversation_id}"))
def update_chat(change: Change, caller: Caller, request: UpdateChat) -> KeptChat:
    """Update the title or the character of a chat."""
    kept = current(change, "chats", request.conversation_id, request.version)
    character = request.character_id if request.character_id is not None else kept.facts.get("character_id")
    own = _chat_scopes(character)
    moved = items.retitle(
        change,
        kept,
        title=request.title if request.title is not None else kept.title or "",
        facts={"character_id": character},
        scopes=own,
        title_scopes=own,
    )
    return chat_of(change, moved)


@operation(Route("GET", "/api/chats"), Command("chat list", columns=("id", "title", "message_count", "last_modified")))
def list_chats(read: Reader, caller: Caller, request: Listing) -> list[KeptChat]:
    """List chats, latest message first."""
    return [chat_of(read, kept) for kept in items.page(read, "chats", request.limit, request.offset)]


@operation(
    Tool("chats.add_message", toolset=WRITING),
    Route("POST", "/api/chats/{conversation_id}/messages", status=201),
    Command("chat say", takes=("conversation_id", "sender"), rest="content"),
)
def add_chat_message(change: Change, caller: Caller, request: AddChatMessage) -> ChatMessage:
    """Add a message to a chat."""
    kept = current(change, "chats", request.conversation_id)
    own = (tokens.sender(request.sender), *_chat_scopes(kept.facts.get("character_id")))
    added = items.add_message(change, kept, author=request.sender, text=request.content, scopes=own, at=request.at)
    return ChatMessage(
        id=added.id,
        message_id=added.id,
        conversation_id=kept.id,
        message_index=added.index,
        sender=request.sender,
        content=request.content,
        created_at=added.created_at,
    )


@operation(
    Route("GET", "/api/chats/{conversation_id}/messages"),
    Command("chat messages", takes=("conversation_id",), columns=("created_at", "sender", "content")),
)
def list_chat_messages(read: Reader, caller: Caller, request: ListChatMessages) -> list[ChatMessage]:
    """List the messages of a chat in order."""
    kept = current(read, "chats", request.conversation_id)
    first = 1 + request.offset
    rows = found_passages.passages(read, kept.document_id, first, first + request.limit - 1)
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
