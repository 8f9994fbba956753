"""Opening what a search has found: as much of it as a budget allows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from palaver.errors import Invalid, Refused
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Ask, Query, clamp
from palaver.model.search import GetResponse, SourceName
from palaver.operations import library
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search import open as opening
from palaver.search.open import RetrievalOptions, how_of, open_item
from palaver.search.scope import must_be_on
from palaver.search.sources import SOURCES
from palaver.search.sources.shapes import parse_uri
from palaver.search.sources.shelving import CHARACTER_FACTS, CHARACTER_TEXTS
from palaver.store.engines.database import Reader

KNOWLEDGE = "knowledge"


def _own(source: str, id: int | str) -> str:
    """The id as it is, or what the uri of a result of this source names."""
    found = parse_uri(id) if isinstance(id, str) else None
    return found[1] if found and found[0] == source else str(id)


class GetNote(Ask):
    note_id: AnyId
    """Id of the note."""
    retrieval: RetrievalOptions | None = None
    """{mode: snippet|chunk|chunk_with_siblings|full (pages of 1,000,000 characters)|auto, max_tokens, loc, query,
    cursor, sibling_window, …}."""


@operation(Tool("notes.get", brings_words=True, toolset=KNOWLEDGE))
def get_note(read: Reader, caller: Caller, ask: GetNote) -> GetResponse:
    """Open a note: a snippet, the matching chunk, the chunk with its neighbours, or the whole note."""
    return open_item(read, caller, "notes", _own("notes", ask.note_id), how_of(ask.retrieval, caller))


class GetMedia(Ask):
    media_id: AnyId
    """Id of the media item."""
    retrieval: RetrievalOptions | None = None
    """{mode: snippet|chunk|chunk_with_siblings|full (pages of 1,000,000 characters)|auto, max_tokens, loc, query,
    cursor, sibling_window, …}."""


@operation(Tool("media.get", brings_words=True, toolset=KNOWLEDGE))
def get_media(read: Reader, caller: Caller, ask: GetMedia) -> GetResponse:
    """Open a media item (video, podcast, book, article): a snippet, a chunk with its neighbours, or all of it."""
    return open_item(read, caller, "media", _own("media", ask.media_id), how_of(ask.retrieval, caller))


class PagedGet(Ask):
    page: Annotated[int, clamp(1, 2**31)] | None = None
    """Page number. Default: 1."""
    page_size: Annotated[int, clamp(1, 200)] | None = None
    """Messages on a page, 1 to 200. Default: 50."""
    retrieval: RetrievalOptions | None = None
    """{mode, max_tokens, loc, query, sibling_window}: open the part around a message instead of a page."""

    def open(self, read: Reader, caller: Caller, source: str, id: int | str) -> GetResponse:
        how, id = how_of(self.retrieval, caller, "full" if self.retrieval is None else "snippet"), _own(source, id)
        if self.retrieval is None or (how.mode == "full" and how.cursor is None and (self.page or self.page_size)):
            return opening.page_of(read, caller, source, id, how, self.page or 1, self.page_size or 50)
        return open_item(read, caller, source, id, how)


class GetChat(PagedGet):
    conversation_id: AnyId
    """Id of the chat."""


@operation(Tool("chats.get", brings_words=True, toolset=KNOWLEDGE))
def get_chat(read: Reader, caller: Caller, ask: GetChat) -> GetResponse:
    """Open a chat: a page of its messages, or the part around one of them."""
    return ask.open(read, caller, "chats", ask.conversation_id)


class GetThreadItem(PagedGet):
    thread_id: AnyId
    """Id of the thread, or of a message in it."""


@operation(Tool("bus.get", brings_words=True, toolset=KNOWLEDGE))
def get_bus_item(read: Reader, caller: Caller, ask: GetThreadItem) -> GetResponse:
    """Open a thread of the bus: a page of its messages, or the part around one of them."""
    return ask.open(read, caller, "bus", ask.thread_id)


class GetSession(PagedGet):
    session_id: AnyId
    """Id from a search result (agent/session), or the plain session id if you are that agent."""


@operation(Tool("sessions.get", brings_words=True, acts=True, toolset=KNOWLEDGE))
def get_session(read: Reader, caller: Caller, ask: GetSession) -> GetResponse:
    """Open an agent's session: a page of its turns, or the part around one of them."""
    must_be_on(read)
    return ask.open(read, caller, "sessions", _own_session(caller, _own("sessions", ask.session_id)))


def _own_session(caller: Caller, id: str) -> str:
    agent = caller.acting_agent
    return f"{agent}/{id}" if agent and not id.startswith(f"{agent}/") else id


class GetArchived(PagedGet):
    conversation_id: AnyId
    """Id of the conversation."""


@operation(Tool("archive.get", brings_words=True, toolset=KNOWLEDGE))
def get_archived(read: Reader, caller: Caller, ask: GetArchived) -> GetResponse:
    """Open an imported conversation: a page of its messages, or the part around one of them."""
    return ask.open(read, caller, "archive", ask.conversation_id)


class GetCharacter(Ask):
    character_id: AnyId
    """Id of the character."""
    retrieval: RetrievalOptions | None = None
    """Open a part of the card instead of all of it."""


@operation(Tool("characters.get", brings_words=True, toolset=KNOWLEDGE))
def get_character(read: Reader, caller: Caller, ask: GetCharacter) -> GetResponse:
    """Open a character: the whole card, or a part of it."""
    how = how_of(ask.retrieval, caller, "full")
    id = _own("characters", ask.character_id)
    answer = open_item(read, caller, "characters", id, how)
    if ask.retrieval is not None:
        return answer
    kept = library.current(read, "characters", id)
    card = library.character_of(read, kept)
    return _as_card(answer, card, ("name", *CHARACTER_TEXTS, *CHARACTER_FACTS))


class GetPrompt(Ask):
    prompt_id_or_name: AnyId
    """Id or name of the prompt."""
    retrieval: RetrievalOptions | None = None
    """Open a part of the prompt instead of all of it."""


@operation(Tool("prompts.get", brings_words=True, toolset=KNOWLEDGE))
def get_prompt(read: Reader, caller: Caller, ask: GetPrompt) -> GetResponse:
    """Open a prompt by its id or its name: all its fields, or a part of one."""
    kept = library.find_prompt(read, _own("prompts", ask.prompt_id_or_name))
    answer = open_item(read, caller, "prompts", kept.id, how_of(ask.retrieval, caller, "full"))
    if ask.retrieval is not None:
        return answer
    fields = ("name", "author", "details", "system_prompt", "user_prompt", "keywords")
    return _as_card(answer, library.prompt_of(read, kept), fields)


def _as_card(answer: GetResponse, card: Any, fields: Iterable[str]) -> GetResponse:
    return GetResponse(answer.meta, {name: getattr(card, name) for name in fields})


class GetKnowledge(Ask):
    source: SourceName | None = None
    """The result's source."""
    id: AnyId | None = None
    """The result's id or uri."""
    uri: Annotated[str, Field(max_length=4000)] | None = None
    """The result's uri, instead of source and id."""
    retrieval: RetrievalOptions | None = None
    """{mode: snippet|chunk|chunk_with_siblings|full (pages of 1,000,000 characters)|auto, max_tokens, loc, query,
    cursor, sibling_window, …}."""


@operation(
    Tool("knowledge.get", brings_words=True, acts=True, toolset=KNOWLEDGE, required=("source", "id"), instead="uri"),
    Route("POST", "/api/knowledge/get"),
)
def get_knowledge(read: Reader, caller: Caller, ask: GetKnowledge) -> GetResponse:
    """Open a search result by its source and id: a snippet, the matching chunk, the chunk with its neighbours within
    max_tokens, or the whole text. Pass the result's loc in retrieval to open it at the match."""
    return open_named(read, caller, *_named(ask.source, ask.id, ask.uri), ask.retrieval)


def open_named(read: Reader, caller: Caller, source: str, id: str, options: RetrievalOptions | None) -> GetResponse:
    if source == "sessions":
        must_be_on(read)
    if source == "prompts":
        id = library.find_prompt(read, id).id
    return open_item(read, caller, source, id, how_of(options, caller))


def _named(source: str | None, id: int | str | None, uri: str | None) -> tuple[str, str]:
    if uri is None and isinstance(id, str) and "://" in id:
        if source is not None:
            return source, _own(source, id)
        uri = id
    if uri is not None:
        found = parse_uri(uri)
        if found is None or found[0] not in SOURCES:
            raise Refused(f"uri: must begin with one of {', '.join(f'{name}://' for name in SOURCES)}.")
        return found
    if source is None or id is None:
        raise Invalid(f"{'source' if source is None else 'id'}: is required. Give source and id, or a uri.")
    return source, str(id)


class OpenUri(Ask):
    uri: Annotated[str, Field(max_length=4000)] | None = None
    """Uri of a search result, e.g. notes://…"""
    source: SourceName | None = None
    """Source of the item. Pass source and id instead of uri."""
    id: AnyId | None = None
    """Id of the item in that source."""
    mode: opening.Mode = "chunk_with_siblings"
    """snippet, chunk, chunk_with_siblings, full (pages of 1,000,000 characters) or auto."""
    query: Query | None = None
    """Open the item at the part that matches this."""
    max_tokens: Annotated[int, clamp(0, 200_000)] | None = None
    """Maximum tokens to show."""
    cursor: Annotated[str, Field(max_length=200)] | None = None
    """next_cursor of the previous page."""


@operation(Route("GET", "/api/knowledge/open"), Command("get", takes=("uri",), text="content"))
def open_uri(read: Reader, caller: Caller, ask: OpenUri) -> GetResponse:
    """Open a search result by its uri: the matching part with its context, or the whole text."""
    options = RetrievalOptions(mode=ask.mode, query=ask.query, max_tokens=ask.max_tokens, cursor=ask.cursor)
    return open_named(read, caller, *_named(ask.source, ask.id, ask.uri), options)
