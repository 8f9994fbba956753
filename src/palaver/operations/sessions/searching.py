"""Search the turns of sessions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from palaver.errors import PalaverError, Refused
from palaver.model import visibility
from palaver.model.answers import OmitsDefaults
from palaver.model.people import Caller
from palaver.model.requests import Id, Line, NotBlank, Project, Query, Request, Time, clamp
from palaver.model.times import parse
from palaver.operations import identity
from palaver.operations.operation import Tool, operation
from palaver.operations.sessions.owners import NOT_AVAILABLE, must_be_indexed, owner_of, v1_route
from palaver.operations.sessions.recording import TurnAnswer
from palaver.search import hints
from palaver.search.match import match_turns
from palaver.search.snippet import as_html, as_text, excerpt
from palaver.store.engines.database import Reader, SearchReader
from palaver.store.sessions import sessions
from palaver.store.workspaces import Workspace
from palaver.text import query as queries


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


def find(read: Reader, text: str, limit: int, asked: str | None = None, **filters: Any) -> ConversationHits:
    """The turns that match. `asked` is the agent as the search named it."""
    if not text.strip():
        raise Refused("query must not be empty")
    wanted = queries.plain(text)
    if isinstance(wanted, queries.Nothing):
        return ConversationHits(0, text, [], hints.NO_WORD)
    scope = sessions.search_scope(read, **filters)
    found, capped = match_turns(read, queries.closer(wanted), scope, limit) if scope else ([], False)
    hits = [
        ConversationHit(
            id=t.id,
            session_id=t.session_id,
            agent_id=asked or t.agent_id,
            role=t.role,
            content=t.content,
            ts=t.ts,
            snippet=excerpt(t.content, wanted, length=20),
            agent=t.agent_id,
            project=t.project,
        )
        for t in found
    ]
    if not hits:
        names = [name for name in ("session_id", "role", "since", "until", "project") if filters.get(name)]
        why = hints.nothing_found("No turn has all of these words", names, "Try fewer words or another spelling.")
        return ConversationHits(0, text, [], why)
    return ConversationHits(len(hits), text, hits, hints.CAPPED.format("turns") if capped else None)


def _find(
    read: Reader,
    request: SearchAllConversations,
    agent_id: str | None,
    session_id: str | None = None,
    asked: str | None = None,
) -> ConversationHits:
    return find(
        read,
        request.query,
        request.limit,
        asked,
        agent_id=agent_id,
        session_id=session_id,
        role=request.role,
        since=parse(request.since) if request.since else None,
        until=parse(request.until, end_of_day=True) if request.until else None,
        project=request.project,
    )


@operation(
    v1_route("POST", "/api/v1/conversations/search", show=_html),
)
def search_conversations(read: SearchReader, caller: Caller, request: SearchConversations) -> ConversationHits:
    """Search the sessions of one agent by keywords, best match first."""
    must_be_indexed(read)
    owner = owner_of(read, caller, request.agent_id)
    return _find(read, request, owner.id, request.session_id, request.agent_id)


@operation(
    v1_route("POST", "/api/v1/conversations/search/all", show=_html),
)
def search_all_conversations(read: SearchReader, caller: Caller, request: SearchAllConversations) -> ConversationHits:
    """Search the sessions of all agents in the workspace. An agent searches only its own."""
    must_be_indexed(read)
    return _find(read, request, visibility.only_sessions_of(caller))


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
    hits: list[ConversationHit]
    available: bool = True
    message: str | None = None
    hint: str | None = None


def _plain(answer: OwnHits) -> OwnHits:
    return replace(answer, hits=[replace(hit, snippet=as_text(hit.snippet)) for hit in answer.hits])


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
    )
)
async def search_own_conversations(workspace: Workspace, caller: Caller, request: SearchOwnConversations) -> OwnHits:
    """Search your own earlier sessions by keywords: what you and your user said before."""
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
        found = find(read, request.query, request.limit, asked, agent_id=agent.id, project=request.project)
        return OwnHits(found.count, found.query, found.hits, hint=found.hint)

    try:
        return await workspace.search(caller, find_own)
    except PalaverError as problem:
        return _not_available(request, problem.message)
