"""Search everything: the operations `knowledge.search` and `knowledge.answer_context`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from palaver.errors import Unavailable
from palaver.model.ids import age_of, new_id
from palaver.model.people import Caller
from palaver.model.requests import Date, Id, Project, Query, clamp
from palaver.model.search import (
    CompactItem,
    Order,
    ResultItem,
    SaidItem,
    SearchResponse,
    SearchSession,
    SearchSessionKey,
)
from palaver.model.sources import ALL_SOURCES, SourceName
from palaver.model.times import between_dates, iso
from palaver.operations.archive.external_database import import_if_changed
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search import hints
from palaver.search.ask import HIDDEN, Ask, Asking, SearchText
from palaver.search.context import Context, evidence_for
from palaver.search.open import PER_TOKEN
from palaver.search.operators import WITH_PROJECTS
from palaver.search.page import LEAN_PAGE, Page, count_unasked, find_page
from palaver.search.scope import SESSIONS_OFF, Filters
from palaver.store.engines.database import Reader, Scope, SearchReader
from palaver.store.library.documents import project_filter
from palaver.store.search import search_sessions
from palaver.store.workspaces import STORE_SOON_SECONDS, Workspace

NEW_SECONDS = 2.0
"""A search session that is younger may not be stored yet."""
SHOWN = ("explain", "highlight", "shape", "counts")
"""Arguments that change what is shown of the results."""
CHANGE_RESULTS = {"query", "order_by", "as_of", "time_zone", "as_you_type"}
"""Arguments that are no filters, but make another search."""


def _split_commas(value: Any) -> Any:
    """Accept a list written with commas."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return [part.strip() for one in value for part in one.split(",") if part.strip()]
    return value


Sources = Annotated[list[SourceName], BeforeValidator(_split_commas), Field(min_length=1, max_length=50)]


class SearchKnowledge(SearchText):
    has_operators = True
    no_filters = SearchText.no_filters | {"session_id", "dedupe", "as_you_type", *SHOWN}

    query: Query
    """Keywords or a question. Operators: from: in: source: project: before: after: has:; -from: etc. exclude"""
    limit: Annotated[int, clamp(1, 100)] = 20
    """1 to 100."""
    sources: Sources | None = None
    """Default: all."""
    order_by: Order | None = None
    """relevance or recent."""
    filters: Filters | None = None
    """Filters per source; also bus, sessions and archive."""
    date_from: Date | None = None
    """Earliest time (ISO 8601)."""
    date_to: Date | None = None
    """Latest time; a date means the end of that day."""
    project: Project | None = None
    """Only this project: path or name; * for all. Sessions: yours by default."""
    session_id: Id | None = None
    """session_id of the previous answer."""
    dedupe: bool = True
    """false: also show results shown before."""
    explain: bool = False
    """Add the ranking features of each result, and the times that the query names."""
    highlight: bool = False
    """Add `highlights` to each snippet: where matched words begin and end."""
    shape: Literal["full", "compact"] = "full"
    """compact gives only id, title, text, url and metadata of each result."""
    counts: bool = False
    """Add how many results there are in each source and in each month."""
    as_you_type: bool = False
    """The last word may be unfinished: words that begin with its letters (at least two) are found too."""

    def ask_in_session(self, read: Reader, caller: Caller, sources: Sequence[SourceName], seen: frozenset[str]) -> Ask:
        """What is asked for, besides the results that its session was shown before."""
        ask = self.ask(read, caller, self.query, self.scopes(read, caller, sources))
        # An order for media alone is the order of a search in media alone.
        media = self.filters.media if self.filters and self.sources and {*self.sources} == {"media"} else None
        return replace(
            ask,
            order=self.order_by or (media and media.order_by) or ask.order,
            sources=tuple(sources),
            seen=seen,
            explain=self.explain,
            highlight=self.highlight,
            counts=self.counts,
        )

    @property
    def names_project(self) -> bool:
        of_sessions = self.filters.sessions if self.filters else None
        return self.project is not None or (of_sessions is not None and of_sessions.project is not None)

    def scopes(self, read: Reader, caller: Caller, sources: Sequence[SourceName]) -> list[Scope]:
        """One scope for all sources without filters, and one for each source with filters."""
        project = project_filter(self.project)
        sources = [name for name in sources if not project or name in WITH_PROJECTS]
        narrowed = {name: getattr(self.filters, name) for name in sources} if self.filters else {}
        found = [own for name in sources if (given := narrowed.get(name)) and (own := given.scope(read, caller))]
        others = tuple(name for name in sources if not narrowed.get(name))
        if others:
            found.append(Scope(others))
        if project:
            found = [replace(s, scopes=(*s.scopes, *project)) for s in found]
        if self.date_from or self.date_to:
            since, until = between_dates(self.date_from, self.date_to)
            found = [replace(s, since=max(s.since, since), until=min(s.until, until)) for s in found]
        return found

    @property
    def key(self) -> str:
        """What makes it the same search, whatever page of it is asked for."""
        return json.dumps(self.model_dump(exclude={*self.no_filters - CHANGE_RESULTS}))


SESSION = "mcp-session-id"


def _session_header(answer: SearchResponse) -> dict[str, str]:
    """A name that a header cannot carry is in the body alone."""
    id = answer.session_id or ""
    return {SESSION: id} if id.isascii() and id.isprintable() and id.strip() == id != "" else {}


_route = partial(Route, path="/api/knowledge/search", from_headers={SESSION: "session_id"}, headers=_session_header)


@operation(
    Tool(
        "knowledge.search",
        brings_words=True,
        acts=True,
        toolset="knowledge",
        hidden=(*SHOWN, "as_you_type", "max_tokens", "filters.bus", "filters.sessions", "filters.archive", *HIDDEN),
        page=LEAN_PAGE,
    ),
    _route("GET", also={"q": "query", "source": "sources", SESSION: "session_id"}),
    _route("POST", also={"q": "query"}),
    before=import_if_changed,
)
async def search_knowledge(here: Workspace, caller: Caller, request: SearchKnowledge) -> SearchResponse:
    """Search everything: messages, sessions of your project, imported conversations, notes, media, chats, characters,
    prompts. Results shown before in this session are left out."""
    key = _session_of(caller, request)
    sources = tuple(dict.fromkeys(request.sources)) if request.sources is not None else ALL_SOURCES
    errors = None
    if request.shape == "compact":  # it has its own short form
        caller = replace(caller, answers="full")
    if "sessions" in sources and not here.settings.sessions_index:
        if sources == ("sessions",):
            raise Unavailable(SESSIONS_OFF)
        errors = {"sessions": SESSIONS_OFF}
        sources = tuple(name for name in sources if name != "sessions")

    def find(read: Reader) -> tuple[SearchSessionKey | None, frozenset[str], Page]:
        found = search_sessions.find(read, key) if key else None
        current = key
        if key and not found and key.id == request.session_id and key != caller.search_session:
            current = replace(key, id=new_id())  # the named session is unknown or has expired
        seen = search_sessions.seen_before(found or SearchSession(), request.key, is_new=request.offset == 0)
        return current, seen, find_page(read, request.ask_in_session(read, caller, sources, seen))

    async with here.session_turns.of(key) if key else nullcontext():
        if key and request.session_id:
            await _wait_for_new(here, key)
        current, seen, page = await here.search(caller, find)
        if current:
            shown, query = page.names, "" if request.offset else request.query
            is_new = request.session_id is None and current != caller.search_session
            await here.store_soon(
                lambda change: search_sessions.store_page(change, current, request.key, seen, shown, query),
                seconds=0 if is_new else STORE_SOON_SECONDS,
            )
    session_id = request.session_id if current is None else current.id if current.is_told else None
    answer = replace(page.response, session_id=session_id, errors=errors)
    if request.shape == "compact":
        return replace(answer, results=[compact_item(item) for item in answer.results if isinstance(item, ResultItem)])
    return answer


def _session_of(caller: Caller, request: SearchKnowledge) -> SearchSessionKey | None:
    """The session this search belongs to: the connection's, or the one it names, or a new one."""
    if not request.dedupe:
        return None
    own = caller.search_session
    if own and request.session_id in (None, own.id):
        return own
    return SearchSessionKey(f"{caller.kind}:{caller.name}:{caller.acting_agent}", request.session_id or new_id())


async def _wait_for_new(here: Workspace, key: SearchSessionKey) -> None:
    """A server answers before it has stored a new session. Wait for one that was made a moment ago."""
    if (age_of(key.id) or NEW_SECONDS) >= NEW_SECONDS:
        return
    for _ in range(20):
        if await here.read(lambda read: search_sessions.find(read, key)):
            return
        await asyncio.sleep(0.02)


def compact_item(item: ResultItem) -> CompactItem:
    return CompactItem(
        id=item.uri,
        title=item.title or item.snippet or item.uri,
        text=item.snippet or "",
        url=item.link or "",
        metadata=metadata_of(item),
    )


def metadata_of(item: ResultItem) -> dict[str, Any]:
    at = item.created_at
    found = {
        "source": item.source,
        "score": item.score,
        "created_at": iso(at) if at else None,
        "sender": item.sender,
        "agent": item.agent,
        "project": item.project,
        "seen": item.seen or None,
        "answer": item.answer.snippet if isinstance(item, SaidItem) and item.answer else None,
        "later": item.later.snippet if isinstance(item, SaidItem) and item.later else None,
    }
    return {name: value for name, value in found.items() if value is not None}


# Evidence for an answer, within a budget


class AnswerContext(Asking):
    has_operators = True

    query: Query
    """The question to answer."""
    max_tokens: Annotated[int, clamp(16, 200_000)] = 2000
    """Maximum tokens of the whole answer."""
    sources: Annotated[list[SourceName], Field(min_length=1, max_length=50)] | None = None
    """Only these sources. Default: all."""


@operation(
    Tool("knowledge.answer_context", brings_words=True, toolset="knowledge", hidden=HIDDEN),
    Route("GET", "/api/knowledge/context", also={"q": "query"}),
    Command("context", rest="query", text="text"),
    before=import_if_changed,
)
def answer_context(read: SearchReader, caller: Caller, request: AnswerContext) -> Context:
    """Get the best evidence for a question from all sources, as one text within a token budget. Each piece names its
    source, author and time. The text is between two lines with the same random mark."""
    sources = tuple(dict.fromkeys(request.sources)) if request.sources is not None else ALL_SOURCES
    if not read.settings.sessions_index:
        sources = tuple(name for name in sources if name != "sessions")
    ask = request.ask(read, caller, request.query, [Scope(sources)] if sources else [])
    budget = int(request.max_tokens * (caller.config.get("chars_per_token") or PER_TOKEN))
    context = evidence_for(read, ask, budget)
    if context.hits:
        return context
    filters = [*(["sources"] if request.sources is not None else []), *ask.operators.names]
    why = hints.nothing_found("Nothing has any of these words", filters) if ask.question.terms else hints.NO_WORD
    unasked = count_unasked(read, ask)
    explained = replace(context, hint=" ".join(part for part in (why, unasked) if part))
    return explained if explained.length <= budget else context
