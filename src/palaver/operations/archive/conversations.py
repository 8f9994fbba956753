"""Imported conversations: search (`conversation_search`), list, show and export them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from palaver.errors import DatabaseNotFound, NotFound
from palaver.model.events import encode
from palaver.model.library import Conversation
from palaver.model.people import Caller
from palaver.model.requests import NEVER_STORED, Date, Id, Project, Query, Request, clamp
from palaver.model.times import iso, parse
from palaver.operations.archive.external_database import bring_up_to_date, find_database, import_if_changed
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.store.engines.database import Reader, Scope
from palaver.store.library import archive
from palaver.store.library.archive import ConversationInfo, FoundMessage
from palaver.store.workspaces import Workspace
from palaver.text.control_characters import without_control_characters

LONGEST_SHOWN = 2_000
SEPARATOR = "\n\n---\n\n"
FROM_DATABASE = "canonical-db:"
"""The ids of conversations from a canonical ChatGPT database begin with this."""


class SearchArchive(Request):
    query: Query | None = None
    """Text to find in message content and conversation titles. Case does not matter."""
    roles: Annotated[list[Literal["user", "assistant", "tool"]], Field(max_length=10)] | None = None
    """Only messages with these roles."""
    start_date: Date | None = None
    """ISO 8601, inclusive. A date alone is the start of that day in UTC."""
    end_date: Date | None = None
    """ISO 8601, inclusive. A date alone is the end of that day in UTC."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """Maximum number of messages, 1 to 200."""

    @property
    def part(self) -> str | None:
        part = NEVER_STORED.sub("", self.query or "")
        return part if part.strip() else None

    @property
    def scope(self) -> Scope:
        since = parse(self.start_date) if self.start_date else None
        until = parse(self.end_date, end_of_day=True) if self.end_date else None
        return Scope(("archive",), roles=tuple(self.roles or ())).between(since, until)


@operation(Tool("conversation_search", brings_words=True, toolset="archive", is_text=True))
async def search_archive(here: Workspace, caller: Caller, request: SearchArchive) -> str:
    """Search prior conversation history (canonical ChatGPT export). Hybrid-style: text match on content and titles. \
Optional filters: roles (user/assistant/tool), start_date and end_date (ISO 8601 inclusive). Returns matching messages \
with timestamps and content."""
    database = find_database(here.settings) if here.is_default else None
    unread = None
    if database:
        unread = await bring_up_to_date(here, database)
    elif await here.read(archive.is_empty):
        raise DatabaseNotFound("nothing has been imported yet", "Run 'palaver import PATH', or set CONVERSATION_DB.")
    found = await here.search(caller, lambda read: archive.search(read, request.part, request.scope, request.limit))
    blocks = [format_message(one) for one in found] or ["No matching messages."]
    return SEPARATOR.join([*blocks, unread] if unread else blocks)


def format_message(found: FoundMessage) -> str:
    said = found.said
    at = said.ts.strftime("%Y-%m-%d %H:%M") if said.ts else "unknown time"
    text = said.text if len(said.text) <= LONGEST_SHOWN else said.text[:LONGEST_SHOWN] + "..."
    is_named = found.is_titled or not found.conversation.startswith(FROM_DATABASE)
    title = " ".join((found.title or "").split()) if is_named else ""
    title = title or found.conversation.removeprefix(FROM_DATABASE)
    return without_control_characters(f"[{at}] {said.role or 'unknown'} (conv: {title})\n{text}")


# List and show


class ListConversations(Request):
    project: Project | None = None
    """Only conversations of this project: path or folder name."""
    limit: Annotated[int, clamp(1, 1000)] = 100
    """Maximum number of conversations."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """Number of conversations to skip."""


@dataclass(frozen=True, slots=True)
class Conversations:
    conversations: list[ConversationInfo]


@operation(
    Route("GET", "/api/archive"),
    Command("archive list", columns=("id", "origin", "messages", "updated_at", "title"), rows="conversations"),
    before=import_if_changed,
)
def list_conversations(read: Reader, caller: Caller, request: ListConversations) -> Conversations:
    """List imported conversations, latest first."""
    return Conversations(archive.list_conversations(read, request.limit, request.offset, request.project))


class OneConversation(Request):
    conversation_id: Id
    """Id of the conversation."""


@operation(Route("GET", "/api/archive/{conversation_id:any}"), Command("archive show", takes=("conversation_id",)))
def get_conversation(read: Reader, caller: Caller, request: OneConversation) -> Conversation:
    """Get one imported conversation with all its messages."""
    return find_conversation(read, request.conversation_id)


def all_conversation_ids(read: Reader) -> list[str]:
    return [held.id for held in archive.list_conversations(read, limit=2**31, offset=0)]


def find_conversation(read: Reader, id: str) -> Conversation:
    found = archive.conversation(read, id)
    if found is None:
        raise NotFound("conversation", id, "List the archive to see what is there.")
    return found


# Export


def export_text(read: Reader, id: str, format: Literal["markdown", "jsonl"]) -> str:
    return "".join(export_lines(find_conversation(read, id), format))


def export_lines(conversation: Conversation, format: Literal["markdown", "jsonl"]) -> Iterator[str]:
    """A conversation as Markdown, or as one JSON line."""
    if format == "jsonl":
        yield encode(conversation).decode() + "\n"
        return
    yield f"# {conversation.title or conversation.id}\n\n*{conversation.origin}, {conversation.id}*\n\n"
    for said in conversation.messages:
        at = f" — {iso(said.ts)}" if said.ts else ""
        yield f"## {said.role}{at}\n\n{said.text}\n\n"
