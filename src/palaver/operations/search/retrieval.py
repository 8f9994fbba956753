"""Open a search result by its source and id, or by its URI."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from palaver.errors import Invalid, Refused
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Query, Request, clamp
from palaver.model.search import GetResponse
from palaver.model.sources import SourceName
from palaver.operations.library.items import current
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.open import Mode, RetrievalOptions, open_document
from palaver.search.scope import must_be_on
from palaver.search.sources import SOURCES, ParsedUri, parse_uri
from palaver.store.engines.database import Reader


class GetKnowledge(Request):
    source: SourceName | None = None
    """notes, media, chats, characters, prompts, bus, sessions or archive."""
    id: AnyId | None = None
    """The result's id or uri."""
    uri: Annotated[str, Field(max_length=4000)] | None = None
    """The result's uri, instead of source and id."""
    retrieval: RetrievalOptions | None = None
    """Default mode: snippet. full: pages of 1,000,000 characters."""


@operation(
    Tool("knowledge.get", brings_words=True, acts=True, toolset="knowledge", required=("source", "id"), instead="uri"),
    Route("POST", "/api/knowledge/get"),
)
def get_knowledge(read: Reader, caller: Caller, request: GetKnowledge) -> GetResponse:
    """Open a search result: a snippet, the matching chunk, that chunk with its neighbours within max_tokens, or the
    whole text. Its loc, or its uri as id, opens it at the match."""
    return open_named(read, caller, _named(request.source, request.id, request.uri), request.retrieval)


def open_named(
    read: Reader,
    caller: Caller,
    named: ParsedUri,
    options: RetrievalOptions | None = None,
    *,
    default: Mode = "snippet",
    page: tuple[int, int] | None = None,
) -> GetResponse:
    """Open what a URI names. A prompt can be named by its name too."""
    if named.source == "sessions":
        must_be_on(read)
    if named.source == "prompts":
        named = named._replace(id=current(read, named.source, named.id).id)
    return open_document(read, caller, named, options, default=default, page=page)


def _named(source: str | None, id: int | str | None, uri: str | None) -> ParsedUri:
    if uri is None and isinstance(id, str) and (given := parse_uri(id)) and source in (None, given.source):
        uri = id
    if uri is not None:
        found = parse_uri(uri)
        if found is None or found.source not in SOURCES:
            raise Refused(f"uri: must begin with one of {', '.join(f'{name}://' for name in SOURCES)}.")
        return found
    if source is None or id is None:
        raise Invalid(f"{'source' if source is None else 'id'}: is required. Give source and id, or a uri.")
    return ParsedUri(source, str(id), None)


class OpenUri(Request):
    uri: Annotated[str, Field(max_length=4000)] | None = None
    """Uri of a search result, e.g. notes://…"""
    source: SourceName | None = None
    """Source of the item. Pass source and id instead of uri."""
    id: AnyId | None = None
    """Id of the item in that source."""
    mode: Mode = "chunk_with_siblings"
    """snippet, chunk, chunk_with_siblings, full (pages of 1,000,000 characters) or auto."""
    query: Query | None = None
    """Open the item at the part that matches this."""
    max_tokens: Annotated[int, clamp(0, 200_000)] | None = None
    """Maximum tokens to show."""
    cursor: Annotated[str, Field(max_length=200)] | None = None
    """next_cursor of the previous page."""


@operation(Route("GET", "/api/knowledge/open"), Command("get", takes=("uri",), text="content"))
def open_uri(read: Reader, caller: Caller, request: OpenUri) -> GetResponse:
    """Open a search result by its uri: the matching part with its context, or the whole text."""
    options = RetrievalOptions(
        mode=request.mode, query=request.query, max_tokens=request.max_tokens, cursor=request.cursor
    )
    return open_named(read, caller, _named(request.source, request.id, request.uri), options)
