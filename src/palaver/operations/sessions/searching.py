"""Search the turns of sessions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from palaver.errors import PalaverError, Refused
from palaver.model.answers import OmitsDefaults, answer_of
from palaver.model.people import Caller
from palaver.model.requests import Id, Line, NotBlank, Project, Query, Request, Time, clamp
from palaver.model.search import FoundPassage, LeanItem
from palaver.model.sessions import Turn
from palaver.model.times import parse
from palaver.operations import identity
from palaver.operations.operation import Tool, operation
from palaver.operations.sessions.owners import NOT_AVAILABLE, must_be_indexed, owners_called, v1_route
from palaver.operations.sessions.recording import TurnAnswer
from palaver.search import hints
from palaver.search.match import match_turns
from palaver.search.page import LEAN_PAGE, LEAN_SNIPPETS, fit
from palaver.search.present import lean_items
from palaver.search.scope import own_scopes, readable_scopes
from palaver.search.snippet import as_html, as_text, excerpt, snippet_and_place
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader, Scope, SearchReader
from palaver.store.library.documents import project_filter
from palaver.store.search import found_passages
from palaver.store.sessions import sessions, sharing
from palaver.store.workspaces import Workspace
from palaver.text import query as queries

MOST = 100
"""Hits of one search."""
TURNS = Scope(("sessions",), titles=False)


class SearchAllConversations(Request):
    query: Annotated[Query, NotBlank]
    """Words; all are required."""
    limit: Annotated[int, clamp(1, 100)] = 20
    """Maximum number of hits, up to 100."""
    role: Line | None = None
    """Only turns of this role."""
    since: Time | None = None
    """Only turns at or after this time."""
    until: Time | None = None
    """Only turns up to this time; a date means the end of that day."""
    project: Project | None = None
    """Only turns of this project: path or folder name."""


class SearchConversations(SearchAllConversations):
    agent_id: Annotated[Id, NotBlank]
    """Id or slug of the agent."""
    session_id: Id | None = None
    """Only this session."""


@dataclass(frozen=True)
class ConversationHit(TurnAnswer):
    """A turn that matches. `agent_id` is the agent as the search named it, `agent` its id. `project` is present if it
    is known."""

    snippet: str
    agent: str
    project: str | None = None


@dataclass(frozen=True)
class ConversationHits(OmitsDefaults):
    """The turns that match. If there are none, `hint` says why; if there are very many, it says what was ranked."""

    omit_if_default = ("hint",)

    count: int
    query: str
    hits: list[ConversationHit]
    hint: str | None = None


def _html(answer: ConversationHits) -> ConversationHits:
    return replace(answer, hits=[replace(hit, snippet=as_html(hit.snippet)) for hit in answer.hits])


def find(
    read: Reader,
    request: SearchAllConversations | SearchOwnConversations,
    scopes: Iterable[Scope],
    asked: str | None = None,
    limit: int | None = None,
) -> ConversationHits:
    """The turns that match: those of the first scope first. `asked` is the agent as the search named it."""
    text, limit = request.query, limit or request.limit
    if not text.strip():
        raise Refused("query must not be empty")
    wanted = queries.plain(text)
    if isinstance(wanted, queries.Nothing):
        return ConversationHits(0, text, [], hints.NO_WORD)
    found, capped = list[Turn](), False
    for scope in scopes:
        scope = replace(scope, scopes=(*scope.scopes, *project_filter(request.project)))
        if isinstance(request, SearchAllConversations):
            since = parse(request.since) if request.since else None
            until = parse(request.until, end_of_day=True) if request.until else None
            scope = replace(scope.between(since, until), roles=(request.role,) if request.role else ())
        some, is_capped = match_turns(read, queries.closer(wanted), scope, limit - len(found))
        found, capped = found + some, capped or is_capped
        if len(found) >= limit:
            break
    hits = [
        answer_of(
            ConversationHit,
            turn,
            agent_id=asked or turn.agent_id,
            agent=turn.agent_id,
            snippet=excerpt(turn.content, wanted, length=20),
        )
        for turn in found
    ]
    if not hits:
        filters = hints.filters_of(request, {"query", "limit", "agent_id"})
        why = hints.nothing_found("No turn has all of these words", filters, "Try fewer words or another spelling.")
        return ConversationHits(0, text, [], why)
    return ConversationHits(len(hits), text, hits, hints.CAPPED.format("turns") if capped else None)


@operation(v1_route("POST", "/api/v1/conversations/search", show=_html))
def search_conversations(read: SearchReader, caller: Caller, request: SearchConversations) -> ConversationHits:
    """Search the sessions of one agent by keywords, best match first. An agent searches its own: those of its program,
    in all projects, its project first."""
    must_be_indexed(read)
    owners = {owner.id for owner in owners_called(read, caller, request.agent_id)}
    reach = sharing.reach_of(read, caller)
    own = reach.own if owners & reach.own else frozenset(owners)
    scopes = own_scopes(read, own, reach.project)
    if request.session_id:
        tokens = sessions.scopes_of(read, request.session_id, own)
        scopes = [replace(one, any_of=(*one.any_of, tokens)) for one in scopes] if tokens else []
    return find(read, request, scopes, request.agent_id)


@operation(v1_route("POST", "/api/v1/conversations/search/all", show=_html))
def search_all_conversations(read: SearchReader, caller: Caller, request: SearchAllConversations) -> ConversationHits:
    """Search the sessions of all agents in the workspace. An agent searches those that it may read."""
    must_be_indexed(read)
    return find(read, request, readable_scopes(read, caller, [TURNS]))


class SearchOwnConversations(Request):
    query: Query
    """Words; all are required."""
    limit: Annotated[int, clamp(1, 100)] = 20
    """Maximum number of hits, up to 100."""
    project: Project | None = None
    """Only turns of this project: path or folder name."""


@dataclass(frozen=True)
class OwnHits(OmitsDefaults):
    """The turns that match. `available` is false if the search could not run; `message` then says why and what to do.
    If nothing matches, `hint` says why; if very many match, it says what was ranked."""

    omit_if_default = ("hint",)

    count: int
    query: str
    hits: list[ConversationHit | LeanItem]
    available: bool = True
    message: str | None = None
    hint: str | None = None


def _plain(answer: OwnHits) -> OwnHits:
    return replace(answer, hits=[replace(hit, snippet=as_text(hit.snippet or "")) for hit in answer.hits])


def _lean(read: Reader, caller: Caller, request: SearchOwnConversations, found: ConversationHits) -> OwnHits:
    """The best turn of each session in few tokens."""
    best: dict[tuple[str, str], ConversationHit] = {}
    for hit in found.hits:
        best.setdefault((hit.agent, hit.session_id), hit)
    hits = list(best.values())
    is_default, wanted = "limit" not in request.model_fields_set, queries.plain(request.query)
    source, places = SOURCES["sessions"], list[FoundPassage]()
    for hit in hits[: LEAN_PAGE["limit"] if is_default else request.limit]:
        named = found_passages.resolve(read, "sessions", f"{hit.agent}/{hit.session_id}/{hit.id}")
        if named and named.passage_id and (at := found_passages.by_id(read, named.passage_id)):
            places.append(at)

    def show(length: int) -> list[LeanItem]:
        items = []
        for at in places:
            snippet, place = snippet_and_place(at.text, wanted, length=length)
            loc = source.loc(at, place[0] if place else 0)
            items.append(source.result(at, score=1.0, snippet=snippet, loc=loc, link=""))
        return lean_items(read, caller, items)

    shown = list(fit(show, LEAN_SNIPPETS, LEAN_PAGE["max_tokens"] if is_default else None))
    left = len(hits) - len(shown)
    more = f"{left} more sessions match; set limit to see them." if left else None
    return OwnHits(len(shown), found.query, [*shown], hint=" ".join(filter(None, (found.hint, more))) or None)


def _not_available(request: SearchOwnConversations, why: str) -> OwnHits:
    return OwnHits(0, request.query, [], False, f"{NOT_AVAILABLE}: {why.removeprefix(f'{NOT_AVAILABLE}: ')}")


@operation(
    Tool(
        "conversation.search",
        brings_words=True,
        acts=True,
        toolset="sessions",
        listed="conversation_search_own",
        show=_plain,
        also={"q": "query"},
        if_away=_not_available,
        page={"limit": LEAN_PAGE["limit"]},
    )
)
async def search_own_conversations(workspace: Workspace, caller: Caller, request: SearchOwnConversations) -> OwnHits:
    """Search your own earlier sessions by keywords, in all projects, this one first."""
    if not request.query.strip():
        raise Refused("query must not be empty")

    def find_own(read: Reader) -> OwnHits:
        must_be_indexed(read)
        if caller.acting_agent is None and caller.session.slug:  # the agent has a name, but is not registered yet
            return OwnHits(0, request.query, [], hint=hints.NOT_RECORDED)
        agent = identity.agent_of(read, caller)
        if agent is None:
            raise identity.unknown_agent()
        named = caller.session.slug
        asked = named if named and agent.answers_to(named) else agent.id
        is_lean = caller.answers == "compact"
        limit = MOST if is_lean else request.limit
        reach = sharing.reach_of(read, caller)
        found = find(read, request, own_scopes(read, reach.own or {agent.id}, reach.project), asked, limit)
        if is_lean:
            return _lean(read, caller, request, found)
        return OwnHits(found.count, found.query, [*found.hits], hint=found.hint)

    try:
        return await workspace.search(caller, find_own)
    except PalaverError as problem:
        return _not_available(request, problem.message)
