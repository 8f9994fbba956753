"""For deep research: two tools with fixed names and shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from palaver.errors import NotFound
from palaver.model.people import Caller
from palaver.model.requests import Query, Request
from palaver.model.search import CompactItem, ResultItem
from palaver.operations.archive.external_database import import_if_changed
from palaver.operations.operation import Tool, operation
from palaver.operations.search.knowledge import SearchKnowledge, compact_item, metadata_of, search_knowledge
from palaver.operations.search.retrieval import open_named
from palaver.search.open import MAX_TOKENS, RetrievalOptions
from palaver.search.sources import SOURCES, parse_uri
from palaver.store.engines.database import Reader
from palaver.store.workspaces import Workspace


@dataclass(frozen=True, slots=True)
class ResearchItem:
    id: str
    title: str
    url: str


@dataclass(frozen=True, slots=True)
class ResearchResults:
    """Exactly the fields that ChatGPT's connectors expect."""

    results: list[ResearchItem]


class Research(Request):
    query: Query
    """Keywords or a question."""


@operation(Tool("search", brings_words=True, toolset="deep-research"), before=import_if_changed)
async def research(here: Workspace, caller: Caller, request: Research) -> ResearchResults:
    """Search all messages, sessions, imported conversations and library items."""
    asked = SearchKnowledge(query=request.query, dedupe=False)
    answer = await search_knowledge.work(here, replace(caller, answers="full"), asked)
    items = [compact_item(item) for item in answer.results if isinstance(item, ResultItem)]
    return ResearchResults([ResearchItem(item.id, item.title, item.url) for item in items])


class Fetch(Request):
    id: Annotated[str, Field(max_length=4000)]
    """Id of a search result."""


@operation(Tool("fetch", brings_words=True, toolset="deep-research"))
def fetch(read: Reader, caller: Caller, request: Fetch) -> CompactItem:
    """Open a search result by its id."""
    found = parse_uri(request.id)
    if found is None or found.source not in SOURCES:
        raise NotFound("item", request.id, "Use the id of a search result.")
    options = RetrievalOptions(mode="full")
    if SOURCES[found.source].is_conversation:
        options = RetrievalOptions(mode="chunk_with_siblings", max_tokens=MAX_TOKENS)
    answer = open_named(read, caller, found, options)
    item = answer.meta
    about = metadata_of(item) | ({"truncated": True} if answer.truncated else {})
    return CompactItem(request.id, item.title or request.id, str(answer.content), item.link or "", about)
