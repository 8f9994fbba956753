"""Chats with characters, and their messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from palaver.model.library import Chat, ItemDraft
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Line
from palaver.model.times import instant
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    ItemSource,
    Listing,
    current,
    operations_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources import tokens
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.search import found_passages


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


def _chat_scopes(character_id: int | str | None) -> tuple[str, ...]:
    return (tokens.character(character_id),) if character_id is not None else ()


def _index_chat(chat: Chat) -> ItemDraft:
    return ItemDraft(
        title=chat.title,
        facts={"character_id": chat.character_id},
        bodies={},
        passages=(),
        title_scopes=_chat_scopes(chat.character_id),
    )


class _ChatItems(ItemSource):
    answer = KeptChat

    def show(self, read: Reader, kept: LibraryItem) -> KeptChat:
        count = found_passages.passage_bounds(read, kept.document_id).last
        shown: KeptChat = self.answer_with(KeptChat, kept, {}, conversation_id=kept.id, message_count=count)
        return shown

    def store(self, change: Change, item: LibraryItem, draft: ItemDraft) -> LibraryItem:
        return items.retitle(change, item, draft)  # its messages stay


CHATS = _ChatItems(
    name="chats",
    noun="chat",
    key="conversation_id",
    key_help="Id of the chat.",
    piece=Chat,
    index=_index_chat,
    creates=CreateChat,
    help={
        "create": "Create a chat, with or without a character.",
        "read": "Get one chat without its messages.",
        "update": "Update the title or the character of a chat.",
        "list": "List chats, latest message first.",
    },
    columns=("id", "title", "message_count", "last_modified"),
)
OPERATIONS = operations_of(CHATS)
create_chat, read_chat, update_chat, list_chats, delete_chat, restore_chat = OPERATIONS


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
    return ChatMessage(added.id, added.id, kept.id, added.index, request.sender, request.content, added.created_at)


@operation(
    Route("GET", "/api/chats/{conversation_id}/messages"),
    Command("chat messages", takes=("conversation_id",), columns=("created_at", "sender", "content")),
)
def list_chat_messages(read: Reader, caller: Caller, request: ListChatMessages) -> list[ChatMessage]:
    """List the messages of a chat in order."""
    kept = current(read, "chats", request.conversation_id)
    first = 1 + request.offset
    rows = found_passages.passages(read, kept.document_id, first, first + request.limit - 1)
    return [
        ChatMessage(
            one.native_id, one.native_id, kept.id, one.position - 1, one.author or "", one.text,
            instant(one.created_at or 0),
        )
        for one in rows
    ]  # fmt: skip
