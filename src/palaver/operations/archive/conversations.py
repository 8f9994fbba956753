"""The archive: searching and exporting the conversations people have brought."""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from palaver.errors import DatabaseNotFound, NotFound, PalaverError, Timeout
from palaver.importers import Unreadable
from palaver.importers.chats.canonical_rows import conversations_among, messages, messages_after
from palaver.importers.files.sqlite_file import Changed, Locked
from palaver.model.events import encode
from palaver.model.library import Conversation
from palaver.model.people import Caller
from palaver.model.requests import (
    Date,
    Id,
    Project,
    Query,
    Request,
    clamp,
)
from palaver.model.times import iso, parse
from palaver.operations.archive.external_database import canonical_database, keep_in_the_archive
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.settings import Settings
from palaver.store.engines.database import Reader, Scope
from palaver.store.library import archive, external_database
from palaver.store.library.archive import ConversationInfo, FoundMessage
from palaver.store.library.documents import substring_form
from palaver.store.workspaces import Workspace

log = logging.getLogger("palaver")

LONGEST_SHOWN = 2_000
SEPARATOR = "\n\n---\n\n"
COPY = "canonical-db:"
"""How the ids of conversations begin that were imported from a canonical database."""
LARGE = 4_000_000
"""Bytes. A smaller database is read in no time."""
READING_SECONDS = 0.5
"""For so long whoever asks reads a large one on, for those who ask later."""

_NEVER_STORED = re.compile("[\x00\ud800-\udfff]")


class SearchArchive(Request):
    query: Query | None = None
    """Text to find in message content and conversation titles. Case does not matter."""
    roles: list[Literal["user", "assistant", "tool"]] | None = None
    """Only messages with these roles."""
    start_date: Date | None = None
    """ISO 8601, inclusive. A date alone is the start of that day in UTC."""
    end_date: Date | None = None
    """ISO 8601, inclusive. A date alone is the end of that day in UTC."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """Maximum number of messages, 1 to 200."""

    @property
    def part(self) -> str | None:
        part = _NEVER_STORED.sub("", self.query or "")
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
    database = canonical_database(here.settings) if here.is_default else None
    if database:
        served_ones = await asyncio.to_thread(_search_canonical, database, request, here.settings)
        imported = await here.read(lambda read: archive.search(read, request.part, request.scope, request.limit))
        imported = await asyncio.to_thread(_not_served, database, imported)
        found = _merged(served_ones, imported, request.limit)
    else:
        found = await here.read(lambda read: _search(read, request))
    return "No matching messages." if not found else SEPARATOR.join(map(block, found))


def _not_served(path: Path, imported: list[FoundMessage]) -> list[FoundMessage]:
    """Without copies of the database's own conversations: they are shown as they are there now."""
    copies = {one.conversation.removeprefix(COPY) for one in imported if one.conversation.startswith(COPY)}
    if not copies:
        return imported
    try:
        there = {COPY + id for id in conversations_among(path, copies)}
    except (Unreadable, OSError, Changed, Locked):  # what it holds was read a moment ago
        there = {COPY + id for id in copies}
    return [one for one in imported if one.conversation not in there]


def _merged(served_ones: list[FoundMessage], imported: list[FoundMessage], limit: int) -> list[FoundMessage]:
    """The newest of both. A message that is in the database too is shown once, as it is there."""
    there = {_sameness(one) for one in served_ones}
    both = [*served_ones, *(one for one in imported if _sameness(one) not in there)]
    both.sort(key=lambda one: one.said.ts.timestamp() if one.said.ts else -math.inf, reverse=True)  # ties stay in order
    return both[:limit]


def _sameness(found: FoundMessage) -> tuple[str, str, str, datetime | None]:
    """The ids of conversations begin with their origin where they were imported."""
    conversation = found.conversation.removeprefix("chatgpt:").removeprefix(COPY)
    return conversation, found.said.role or "unknown", found.said.text.strip(), found.said.ts


def _search_canonical(path: Path, request: SearchArchive, settings: Settings) -> list[FoundMessage]:
    """A database is served as it is, and what changes in it is seen at once. What was read of a large one is kept."""
    began = time.monotonic()
    too_late = _until(began + settings.search_timeout)
    while True:
        try:
            return _search_served(path, request, settings, too_late)
        except Changed:  # somebody wrote it just now: then it is read as it is now
            too_late()
        except Locked:
            log.warning("%s is locked by another program", path.name, exc_info=True)
            raise PalaverError(f"{path.name} is locked by another program. Try again in a moment.") from None
        except (Unreadable, OSError):
            log.exception("%s cannot be read as a canonical ChatGPT database", path.name)
            raise PalaverError(f"{path.name} cannot be read as a canonical ChatGPT database.") from None


def _search_served(
    path: Path, request: SearchArchive, settings: Settings, too_late: Callable[[], bool]
) -> list[FoundMessage]:
    place = settings.data / "cache" / "served.db"
    if path.stat().st_size >= LARGE:
        found = external_database.search(place, path, request.part, request.scope, request.limit)
        with suppress(Unreadable):
            if found is None and external_database.read_on(place, path, partial(messages_after, path), READING_SECONDS):
                found = external_database.search(place, path, request.part, request.scope, request.limit)
        if found is not None:
            return found
    newest = heapq.nlargest(request.limit, enumerate(_matching(path, request, too_late)), key=_newness)
    return [found for _, found in newest]


def _until(end: float) -> Callable[[], bool]:
    def too_late() -> bool:
        if time.monotonic() > end:
            raise Timeout
        return False

    return too_late


def _matching(path: Path, request: SearchArchive, too_late: Callable[[], bool]) -> Iterator[FoundMessage]:
    scope, part = request.scope, substring_form(request.part) if request.part else ""
    for conversation, title, said in messages(path, request.part, too_late):
        if (scope.roles and said.role not in scope.roles) or not scope.includes_time(said.ts):
            continue
        if part in substring_form(said.text) or part in substring_form(title):
            yield FoundMessage(conversation, title, said)


def _newness(found: tuple[int, FoundMessage]) -> tuple[float, int]:
    """Of one moment the last is the newest, as among what was imported."""
    place, message = found
    return message.said.ts.timestamp() if message.said.ts else -math.inf, place


def _search(read: Reader, request: SearchArchive) -> list[FoundMessage]:
    if archive.is_empty(read):
        raise DatabaseNotFound("nothing has been imported yet", "Run 'palaver import PATH', or set CONVERSATION_DB.")
    return archive.search(read, request.part, request.scope, request.limit)


def block(found: FoundMessage) -> str:
    said = found.said
    at = said.ts.strftime("%Y-%m-%d %H:%M") if said.ts else "unknown time"
    text = said.text if len(said.text) <= LONGEST_SHOWN else said.text[:LONGEST_SHOWN] + "..."
    title = " ".join((found.title or "").split()) or found.conversation
    return f"[{at}] {said.role or 'unknown'} (conv: {title})\n{text}"


# Looking at what is there


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
    before=keep_in_the_archive,
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
    return must_exist(read, request.conversation_id)


def all_ids(read: Reader) -> list[str]:
    return [held.id for held in archive.list_conversations(read, limit=2**31, offset=0)]


def must_exist(read: Reader, id: str) -> Conversation:
    found = archive.conversation(read, id)
    if found is None:
        raise NotFound("conversation", id, "List the archive to see the known ids.")
    return found


# Taking it out again


def written(read: Reader, id: str, format: Literal["markdown", "jsonl"]) -> str:
    return "".join(exported(must_exist(read, id), format))


def exported(conversation: Conversation, format: Literal["markdown", "jsonl"]) -> Iterator[str]:
    """A conversation as text: to read, or one JSON line."""
    if format == "jsonl":
        yield encode(conversation).decode() + "\n"
        return
    yield f"# {conversation.title or conversation.id}\n\n*{conversation.origin}, {conversation.id}*\n\n"
    for said in conversation.messages:
        at = f" — {iso(said.ts)}" if said.ts else ""
        yield f"## {said.role}{at}\n\n{said.text}\n\n"
