"""Knowledge: searching everything that is kept here, or one source of it, the best first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from palaver.errors import Unavailable
from palaver.model.people import Caller
from palaver.model.requests import (
    Ask,
    Date,
    Id,
    Line,
    Project,
    Query,
    clamp,
)
from palaver.model.search import (
    ALL_SOURCES,
    Capped,
    CompactItem,
    Recall,
    ResultItem,
    SaidItem,
    SearchResponse,
    SourceName,
)
from palaver.model.times import iso
from palaver.operations.archive.external_database import import_if_changed
from palaver.operations.identity import nobody
from palaver.operations.operation import Route, Tool, operation
from palaver.search import hints, results
from palaver.search.question import Question, taken_apart
from palaver.search.results import Order, Ranked
from palaver.search.scope import (
    HAVE_PROJECTS,
    SESSIONS_OFF,
    ArchiveFilters,
    BusFilters,
    CharactersFilters,
    ChatsFilters,
    Filters,
    MediaFilters,
    NotesFilters,
    PromptField,
    PromptsFilters,
    SessionsFilters,
    between_dates,
    must_be_on,
)
from palaver.store.engines.database import Reader, Slice
from palaver.store.library.documents import project_scope
from palaver.store.search import search_sessions as recalls
from palaver.store.workspaces import Workspace

KNOWLEDGE = "knowledge"


def _listed(value: Any) -> Any:
    """A list may be written with commas where only text can be written."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return [part.strip() for one in value for part in one.split(",") if part.strip()]
    return value


class Paged(Ask):
    no_filters: ClassVar[frozenset[str]] = frozenset({"query", "limit", "offset", "snippet_length", "order_by"})
    """Arguments that leave no results out."""

    limit: Annotated[int, clamp(1, 100)] = 10
    """At most this many results, 1 to 100."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """next_offset of the previous page."""
    snippet_length: Annotated[int, clamp(50, 1000)] | None = None
    """Characters per snippet, 50 to 1000."""


class SearchText(Paged):
    query: Query
    """Keywords or a question."""


@dataclass(frozen=True, slots=True)
class _Page:
    items: list[ResultItem]
    names: list[str]
    """What a session of searching remembers of the items."""
    is_again: bool
    """All results were shown before, so they are shown again."""
    total: int
    suppressed: int
    matched: results.Matched
    left_out: list[str] | None
    capped: Capped | None
    explanations: dict[str, dict[str, float]] | None


def _hint(caller: Caller, question: Question, page: _Page, ask: Paged, sources: tuple[str, ...]) -> str | None:
    if not question.terms:
        return hints.NO_WORD
    if sources == ("sessions",) and caller.is_agent and caller.acting_agent is None:
        return hints.NOT_RECORDED if caller.session.slug else nobody().message
    if not page.items and ask.offset and page.total:
        return hints.no_more(page.total)
    if not page.items and not page.suppressed:
        return hints.nothing_found("Nothing has any of these words", hints.filters_of(ask, ask.no_filters))
    if page.is_again:
        return "Every result was shown earlier in this session; they are shown again, marked seen."
    if page.suppressed:
        count = f"{page.suppressed} result{'' if page.suppressed == 1 else 's'}"
        return f"{count} shown earlier in this session left out. To see all results, search with dedupe: false."
    return None


def _search(
    read: Reader,
    caller: Caller,
    question: Question,
    slices: Iterable[Slice],
    order: Order,
    ask: Paged,
    seen: frozenset[str] = frozenset(),
    *,
    explain: bool = False,
) -> _Page:
    wanted = ask.offset + ask.limit + len(seen)
    found = results.everything(read, question, results.own_slices(caller, slices), order, wanted)
    fresh = [one for one in found.ranked if one.name not in seen] if seen else found.ranked
    is_again = bool(found.ranked) and not fresh and not found.more
    if is_again:  # all of them were shown before: nothing is left out, and the answer says so
        fresh = found.ranked
    page: list[Ranked] = fresh[ask.offset : ask.offset + ask.limit]
    length = ask.snippet_length or caller.config.get("snippet_length") or results.SNIPPET
    items = results.dressed(read, caller, page, question.terms, length, found.gathered)
    return _Page(
        [replace(item, seen=True) for item in items] if is_again else items,
        [one.name for one in page],
        is_again,
        total=len(fresh) + found.more,
        suppressed=len(found.ranked) - len(fresh),
        matched=found.matched,
        left_out=found.left_out(question.terms),
        capped=found.capped(question.terms),
        explanations={one.uri: _explained(one) for one in page if one.why.seen} if explain else None,
    )


def _explained(one: Ranked) -> dict[str, float]:
    return {name: round(value, 3) for name, value in one.why.seen._asdict().items() if value} if one.why.seen else {}


def _response(page: _Page, ask: Paged, **more: Any) -> SearchResponse:
    after = ask.offset + len(page.items)
    has_more = bool(page.items) and after < page.total
    return SearchResponse(
        results=list(page.items),
        has_more=has_more,
        next_offset=after if has_more else None,
        total_estimated=page.total,
        suppressed=page.suppressed,
        matched=page.matched,
        left_out=page.left_out,
        capped=page.capped,
        **more,
    )


def _in_one(
    read: Reader,
    caller: Caller,
    ask: Paged,
    query: str | list[str],
    filters: Any,
    order: Order | None = None,
) -> SearchResponse:
    question = _question(query)
    where = filters.slice(read, caller)
    chosen = order or caller.config.get("order_by") or "relevance"
    page = _search(read, caller, question, [where] if where else [], chosen, ask)
    if caller.recall is not None and ask.offset == 0:
        recalls.remember(caller.recall, question.text)
    return _response(page, ask, hint=_hint(caller, question, page, ask, where.sources if where else ()))


def _question(query: str | list[str]) -> Question:
    return taken_apart(query if isinstance(query, str) else ", ".join(query))


class SearchNotes(SearchText, NotesFilters):
    pass


@operation(Tool("notes.search", brings_words=True, toolset=KNOWLEDGE))
def search_notes(read: Reader, caller: Caller, ask: SearchNotes) -> SearchResponse:
    """Find notes by what they say, best first."""
    return _in_one(read, caller, ask, ask.query, ask)


class SearchMedia(SearchText, MediaFilters):
    pass


@operation(Tool("media.search", brings_words=True, toolset=KNOWLEDGE))
def search_media(read: Reader, caller: Caller, ask: SearchMedia) -> SearchResponse:
    """Find videos, podcasts, books and articles by what is said in them, best first."""
    return _in_one(read, caller, ask, ask.query, ask, ask.order_by)


class SearchChats(SearchText, ChatsFilters):
    pass


@operation(Tool("chats.search", brings_words=True, toolset=KNOWLEDGE))
def search_chats(read: Reader, caller: Caller, ask: SearchChats) -> SearchResponse:
    """Find chats by their titles, and what was said in them, best first."""
    return _in_one(read, caller, ask, ask.query, ask)


def _text_or_texts(query: Any) -> Any:
    if isinstance(query, str) or (isinstance(query, list) and all(isinstance(one, str) for one in query)):
        return query
    raise ValueError("must be text, or a list of texts")


class SearchCharacters(Paged):
    query: Annotated[Query | Annotated[list[Line], Field(max_length=200)], BeforeValidator(_text_or_texts)]
    """Words, a tag, tags with commas between them, or a list of tags."""


@operation(Tool("characters.search", brings_words=True, toolset=KNOWLEDGE))
def search_characters(read: Reader, caller: Caller, ask: SearchCharacters) -> SearchResponse:
    """Find characters by who they are or by their tags, best first."""
    return _in_one(read, caller, ask, ask.query, CharactersFilters())


class SearchPrompts(SearchText):
    fields: Annotated[list[PromptField], Field(max_length=20)] | None = None
    """Look only in these fields."""


@operation(Tool("prompts.search", brings_words=True, toolset=KNOWLEDGE))
def search_prompts(read: Reader, caller: Caller, ask: SearchPrompts) -> SearchResponse:
    """Find prompts by their name, text, author or keywords, best first."""
    return _in_one(read, caller, ask, ask.query, PromptsFilters(fields=ask.fields))


class SearchBus(SearchText, BusFilters):
    pass


@operation(Tool("bus.search", brings_words=True, toolset=KNOWLEDGE))
def search_bus(read: Reader, caller: Caller, ask: SearchBus) -> SearchResponse:
    """Find messages and threads of the bus by a question or some words, best first."""
    return _in_one(read, caller, ask, ask.query, ask)


class SearchSessions(SearchText, SessionsFilters):
    pass


@operation(Tool("sessions.search", brings_words=True, acts=True, toolset=KNOWLEDGE))
def search_sessions(read: Reader, caller: Caller, ask: SearchSessions) -> SearchResponse:
    """Find turns of agents' sessions by a question or some words, best first; an agent finds its own."""
    must_be_on(read)
    return _in_one(read, caller, ask, ask.query, ask)


class SearchArchived(SearchText, ArchiveFilters):
    pass


@operation(Tool("archive.search", brings_words=True, toolset=KNOWLEDGE), before=import_if_changed)
def search_archived(read: Reader, caller: Caller, ask: SearchArchived) -> SearchResponse:
    """Find messages of imported conversations by a question or some words, best first."""
    return _in_one(read, caller, ask, ask.query, ask)


class SearchKnowledge(SearchText):
    no_filters = SearchText.no_filters | {"session_id", "dedupe", "explain", "shape"}

    limit: Annotated[int, clamp(1, 100)] = 20
    """At most this many results, 1 to 100."""
    sources: Annotated[list[SourceName], BeforeValidator(_listed), Field(min_length=1, max_length=50)] | None = None
    """Default: all."""
    order_by: Order | None = None
    """relevance or recent (newest first)."""
    filters: Filters | None = None
    """Filters per source: {notes: {keywords}, media: {media_types, date_from, date_to}, chats: {by, sender}, …}."""
    date_from: Date | None = None
    """Earliest time (ISO 8601)."""
    date_to: Date | None = None
    """Latest time; a date means the end of that day."""
    project: Project | None = None
    """Only sessions and imports of this project: path or folder name."""
    session_id: Id | None = None
    """session_id of the previous answer."""
    dedupe: bool = True
    """false: also show results shown before."""
    explain: bool = False
    """Say what was seen of each result."""
    shape: Literal["full", "compact"] = "full"
    """compact gives only id, title, text, url and metadata of each result."""

    @property
    def wanted(self) -> tuple[SourceName, ...]:
        return tuple(dict.fromkeys(self.sources)) if self.sources is not None else ALL_SOURCES

    def slices(self, read: Reader, caller: Caller) -> list[Slice]:
        """One for all sources that are not narrowed, and one for each that is."""
        wanted = tuple(name for name in self.wanted if not self.project or name in HAVE_PROJECTS)
        narrowed = {name: getattr(self.filters, name) for name in wanted} if self.filters else {}
        found = [own for name in wanted if (given := narrowed.get(name)) and (own := given.slice(read, caller))]
        others = tuple(name for name in wanted if not narrowed.get(name))
        if others:
            found.append(Slice(others))
        if self.project:
            found = [replace(s, scopes=(*s.scopes, project_scope(self.project))) for s in found]
        if self.date_from or self.date_to:
            since, until = between_dates(self.date_from, self.date_to)
            found = [replace(s, since=max(s.since, since), until=min(s.until, until)) for s in found]
        return found

    @property
    def key(self) -> str:
        """What makes it the same search, whatever page of it is asked for."""
        same = self.model_dump(
            exclude={"limit", "offset", "snippet_length", "session_id", "dedupe", "explain", "shape"}
        )
        return json.dumps(same)


SESSION = "mcp-session-id"


def _session_header(answer: SearchResponse) -> dict[str, str]:
    """A name that a header cannot carry is in the body alone."""
    id = answer.session_id or ""
    return {SESSION: id} if id.isascii() and id.isprintable() and id.strip() == id != "" else {}


@operation(
    Tool("knowledge.search", brings_words=True, acts=True, toolset=KNOWLEDGE, hidden=("explain", "shape")),
    Route(
        "GET",
        "/api/knowledge/search",
        also={"q": "query", "source": "sources", SESSION: "session_id"},
        from_headers={SESSION: "session_id"},
        headers=_session_header,
    ),
    Route(
        "POST",
        "/api/knowledge/search",
        also={"q": "query"},
        from_headers={SESSION: "session_id"},
        headers=_session_header,
    ),
    before=import_if_changed,
)
async def search_knowledge(here: Workspace, caller: Caller, ask: SearchKnowledge) -> SearchResponse:
    """Search everything: bus messages, your own sessions, imported conversations, notes, media, chats, characters and
    prompts. Pass keywords or a whole question. Results are ranked; those this session has shown are left out."""
    question = taken_apart(ask.query)
    session_id, recall = _recall(here, caller, ask)
    key, asked = ask.key, ask
    order = ask.order_by or _media_order(ask) or caller.config.get("order_by") or "relevance"
    wanted, errors = ask.wanted, {}
    if "sessions" in wanted and not here.settings.sessions_index:
        errors["sessions"] = SESSIONS_OFF
        if wanted == ("sessions",):
            raise Unavailable(SESSIONS_OFF)
        ask = ask.model_copy(update={"sources": [name for name in wanted if name != "sessions"]})
    async with recalls.turn_of(recall):
        seen = recalls.seen_before(recall, key, is_new=ask.offset == 0) if recall else frozenset[str]()
        page = await here.read(
            lambda read: _search(
                read, caller, question, ask.slices(read, caller), order, ask, seen, explain=ask.explain
            )
        )
        if recall:
            recalls.mark_seen(recall, page.names)
            if ask.offset == 0:
                recalls.remember(recall, ask.query)
    why = page.explanations
    hint = _hint(caller, question, page, asked, ask.wanted)
    answer = _response(page, ask, session_id=session_id, errors=errors or None, hint=hint, explanations=why)
    return _compact(answer) if ask.shape == "compact" else answer


def _media_order(ask: SearchKnowledge) -> Order | None:
    """An order for media alone is the order of a search in media alone."""
    media = ask.filters.media if ask.filters else None
    return media.order_by if media and ask.wanted == ("media",) else None


def _recall(here: Workspace, caller: Caller, ask: SearchKnowledge) -> tuple[str | None, Recall | None]:
    """The session this search belongs to: the connection's, or the one it names; a new one where there is none."""
    if not ask.dedupe:
        return ask.session_id, None
    owner = f"{caller.kind}:{caller.name}:{caller.acting_agent}"
    if ask.session_id is None and caller.recall is not None:
        recall = here.recalls.alive(caller.recall)
        return here.recalls.name_of(owner, recall) if recall.is_named else None, recall
    return here.recalls.named(owner, ask.session_id)


def _compact(answer: SearchResponse) -> SearchResponse:
    items = [compact_item(item) for item in answer.results if isinstance(item, ResultItem)]
    return replace(answer, results=list(items))


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
        "project": item.project,
        "seen": item.seen or None,
        "answer": item.answer.snippet if isinstance(item, SaidItem) and item.answer else None,
        "later": item.later.snippet if isinstance(item, SaidItem) and item.later else None,
    }
    return {name: value for name, value in found.items() if value is not None}
