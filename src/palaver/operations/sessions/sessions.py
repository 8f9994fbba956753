"""Sessions of agents: record turns, search them, list, show, delete and export sessions."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from palaver.errors import NotFound, PalaverError, Refused, Unavailable
from palaver.model import visibility
from palaver.model.answers import OmitsDefaults
from palaver.model.events import encode
from palaver.model.ids import new_id
from palaver.model.messages import Role
from palaver.model.people import Caller
from palaver.model.requests import (
    Id,
    Line,
    NotBlank,
    Project,
    Query,
    Request,
    Text,
    Time,
    clamp,
)
from palaver.model.sessions import Owner, Turn
from palaver.model.times import iso, now, parse
from palaver.operations import identity
from palaver.operations.operation import Command, Route, Tool, only, operation
from palaver.operations.sessions.session_index import catch_up, forget
from palaver.search import hints
from palaver.search.match import match_turns
from palaver.search.snippet import as_html, as_text, excerpt
from palaver.settings import Settings
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sessions
from palaver.store.sessions.sessions import SessionInfo
from palaver.store.sessions.transcripts import Transcripts
from palaver.store.workspaces import Workspace
from palaver.text import query as queries

log = logging.getLogger("palaver")

NOT_AVAILABLE = "Conversation search is not available"

# On these routes an invalid field is a 400, and errors have an `error` field.
v1_route = partial(Route, invalid=400, complaint=("error", "detail"))

# Whose sessions


def owner_of(read: Reader, caller: Caller, name: str) -> Owner:
    """The agent with this id or slug. An agent with a token can only name itself."""
    agent = agents.named(read, name)
    visibility.must_reach_sessions_of(caller, agent.id if agent else None)
    if agent is None:
        raise NotFound("agent", name, "List agents to see the known ones.")
    return Owner(agent.id, agent.slug, agent.name)


def owner_or_new(change: Change, caller: Caller, name: str) -> Owner:
    """The agent with this id or slug. An unknown one is registered: it is new with its first recorded turn."""
    if agents.named(change, name) is None and not visibility.is_bound(caller):
        agents.register(change, name=name, slug=agents.slug_of(name), is_online=False)
    return owner_of(change, caller, name)


async def recording_owner(workspace: Workspace, caller: Caller, name: str) -> Owner:
    """The agent to record for. If the database does not answer, the transcripts know the agents: recording goes on."""
    try:
        try:
            return await workspace.read(lambda read: owner_of(read, caller, name))
        except NotFound:
            return await workspace.change(lambda change: owner_or_new(change, caller, name))
    except Unavailable:
        owner = await asyncio.to_thread(workspace.transcripts.owner, name)
        if owner is None:
            raise
        visibility.must_reach_sessions_of(caller, owner.id)
        return owner


# Recording


class Recorded(Request):
    role: Role
    """user, assistant, system or tool."""
    content: Annotated[Text, Field(min_length=1)]
    """Text of the turn."""
    ts: Time | None = None
    """Time of the turn. Default: now."""
    id: Annotated[Id, NotBlank] | None = None
    """Your own id; a second turn with it is ignored."""
    project: Project | None = None
    """Path of the project; later turns of the session inherit it."""


class RecordTurn(Recorded):
    agent: Annotated[Id, NotBlank]
    """Id or slug of the agent. An unknown agent is created."""
    session: Annotated[Id, NotBlank]
    """Id of the session."""


class RecordOwnTurn(Recorded):
    session_id: Annotated[Id, NotBlank]
    """Id of the session."""


@dataclass(frozen=True)
class TurnAnswer(OmitsDefaults):
    omit_if_default = ("project",)

    id: str
    session_id: str
    agent_id: str
    role: str
    content: str
    ts: datetime


@dataclass(frozen=True)
class RecordedTurn(TurnAnswer):
    """A recorded turn. `project` is present if it is known."""

    project: str | None = None


def recorded_turn(turn: Turn) -> RecordedTurn:
    return RecordedTurn(turn.id, turn.session_id, turn.agent_id, turn.role, turn.content, turn.ts, turn.project)


@operation(
    v1_route("POST", "/api/v1/agents/{agent}/sessions/{session:any}/messages", status=201),
)
async def record_turn(workspace: Workspace, caller: Caller, request: RecordTurn) -> RecordedTurn:
    """Record a turn of a session. It is written to the transcript on disk first, then indexed for search."""
    owner = await recording_owner(workspace, caller, request.agent)
    return recorded_turn(await record(workspace, owner, request.session, request))


@operation(Tool("session.append", acts=True, toolset="sessions"))
async def record_own_turn(workspace: Workspace, caller: Caller, request: RecordOwnTurn) -> RecordedTurn:
    """Record a turn of your session, so that conversation_search_own finds it later."""
    name = caller.acting_agent or caller.session.slug  # an agent named by the client's settings is created here
    if name is None:
        raise identity.unknown_agent()
    owner = await recording_owner(workspace, caller, name)
    caller.session.agent_id = owner.id
    project: str | None = request.project or caller.client.project
    if not project:
        with contextlib.suppress(PalaverError):  # recording does not depend on it
            agent = await workspace.read(lambda read: identity.agent_of(read, caller))
            project = agent.project if agent else None
    return recorded_turn(
        await record(workspace, owner, request.session_id, request.model_copy(update={"project": project or None}))
    )


async def record_without_database(settings: Settings, workspace: str, request: RecordTurn) -> RecordedTurn | None:
    """Record a turn in its transcript only; it is indexed later. None if no transcript knows the agent."""
    transcripts = Transcripts(settings.data / "sessions" / workspace)
    owner = await asyncio.to_thread(transcripts.owner, request.agent)
    if owner is None:
        return None
    turn = _turn_of(owner, request.session, request)
    try:
        await asyncio.to_thread(transcripts.append, owner, request.session, [turn])
    except OSError as problem:
        raise _not_written(problem) from problem
    return recorded_turn(turn)


async def record(workspace: Workspace, owner: Owner, session_id: str, request: Recorded) -> Turn:
    """Record a turn, unless a turn with its id is recorded."""
    after = None
    if (turn_id := request.id) and workspace.settings.sessions_index:
        file = workspace.transcripts.of(owner, session_id).path.name
        try:
            known, after = await workspace.read(
                lambda read: (
                    sessions.find_turn(read, owner, session_id, turn_id),
                    sessions.mark(read, owner.id, file),
                )
            )
        except Exception:  # the turn is then written twice; readers take the first
            known = None
        if known:
            return known
    turn = _turn_of(owner, session_id, request)
    await append(workspace, owner, session_id, [turn], after)
    return turn


def _turn_of(owner: Owner, session_id: str, request: Recorded) -> Turn:
    at = now()
    return Turn(
        id=request.id or new_id(),
        session_id=session_id,
        agent_id=owner.id,
        role=request.role,
        content=request.content,
        ts=parse(request.ts) if request.ts else at,
        recorded_at=at,
        project=request.project.strip() if request.project else None,
    )


async def append(
    workspace: Workspace, owner: Owner, session_id: str, turns: list[Turn], after: int | None = None
) -> list[Turn]:
    """Write turns to the transcript, then to the index. The index may fail; it catches up later.

    Turns that the transcript has after the offset `after` are left out. Returns the turns that were written.
    """
    try:
        turns = await asyncio.to_thread(workspace.transcripts.append, owner, session_id, turns, after)
    except OSError as problem:
        raise _not_written(problem) from problem
    if workspace.settings.sessions_index:
        try:
            await catch_up(workspace, workspace.transcripts.of(owner, session_id))
        except Exception as problem:  # the turn is safe in the transcript
            log.warning("a turn was recorded but not indexed yet: %s", problem)
    return turns


async def take_back(workspace: Workspace, owner: Owner, session_id: str, turn_ids: set[str]) -> None:
    """Remove turns that were undone in their own program: from the transcript, then from the index."""
    try:
        await asyncio.to_thread(workspace.transcripts.take_back, owner, session_id, turn_ids)
    except OSError as problem:
        raise _not_written(problem) from problem
    if workspace.settings.sessions_index:
        try:
            await workspace.change(lambda change: sessions.take_back(change, owner, session_id, turn_ids))
        except Exception as problem:
            log.warning("turns were removed from a transcript but not from the index yet: %s", problem)


def _not_written(problem: OSError) -> Unavailable:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable("The disk is full: nothing was recorded. Free some space and try again.")
    return Unavailable(f"The transcript cannot be written ({problem.strerror}): nothing was recorded.")


# Searching


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
    """A turn that matches. `project` is present if it is known."""

    snippet: str
    project: str | None = None


@dataclass(frozen=True)
class ConversationHits(OmitsDefaults):
    """The turns that match. If there are none, `hint` says why."""

    omit_if_default = ("hint",)

    count: int
    query: str
    hits: list[ConversationHit]
    hint: str | None = None


def _html(answer: ConversationHits) -> ConversationHits:
    return replace(answer, hits=[replace(hit, snippet=as_html(hit.snippet)) for hit in answer.hits])


def must_be_indexed(workspace: Reader) -> None:
    if not workspace.settings.sessions_index:
        raise Unavailable(f"{NOT_AVAILABLE}: the index is off (PALAVER_SESSIONS_INDEX).")


def find(read: Reader, text: str, limit: int, **filters: Any) -> ConversationHits:
    if not text.strip():
        raise Refused("query must not be empty")
    wanted = queries.plain(text)
    if isinstance(wanted, queries.Nothing):
        return ConversationHits(0, text, [], hints.NO_WORD)
    scope = sessions.search_scope(read, **filters)
    found = match_turns(read, queries.closer(wanted), scope, limit) if scope else []
    hits = [
        ConversationHit(
            t.id, t.session_id, t.agent_id, t.role, t.content, t.ts, excerpt(t.content, wanted, length=20), t.project
        )
        for t in found
    ]
    if not hits:
        names = [name for name in ("session_id", "role", "since", "until", "project") if filters.get(name)]
        why = hints.nothing_found("No turn has all of these words", names, "Try fewer words or another spelling.")
        return ConversationHits(0, text, [], why)
    return ConversationHits(len(hits), text, hits)


def _find(
    read: Reader, request: SearchAllConversations, agent_id: str | None, session_id: str | None = None
) -> ConversationHits:
    return find(
        read,
        request.query,
        request.limit,
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
def search_conversations(read: Reader, caller: Caller, request: SearchConversations) -> ConversationHits:
    """Search the sessions of one agent by keywords, best match first."""
    must_be_indexed(read)
    owner = owner_of(read, caller, request.agent_id)
    return _find(read, request, owner.id, request.session_id)


@operation(
    v1_route("POST", "/api/v1/conversations/search/all", show=_html),
)
def search_all_conversations(read: Reader, caller: Caller, request: SearchAllConversations) -> ConversationHits:
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
    If nothing matches, `hint` says why."""

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
        found = find(read, request.query, request.limit, agent_id=agent.id, project=request.project)
        return OwnHits(found.count, found.query, found.hits, hint=found.hint)

    try:
        return await workspace.read(find_own)
    except PalaverError as problem:
        return _not_available(request, problem.message)


# List, show, delete and export


class ListSessions(Request):
    agent: Id | None = None
    """Id or slug of the agent. Default: all agents."""
    project: Project | None = None
    """Only sessions of this project: path or folder name."""
    limit: Annotated[int, clamp(1, 1000)] = 100
    """Maximum number of sessions."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """Number of sessions to skip."""


@dataclass(frozen=True, slots=True)
class Sessions:
    sessions: list[SessionInfo]


@operation(
    v1_route("GET", "/api/v1/sessions"),
    Command(
        "session list", columns=("session_id", "agent", "project", "turns", "last_turn_at", "title"), rows="sessions"
    ),
)
def list_sessions(read: Reader, caller: Caller, request: ListSessions) -> Sessions:
    """List sessions, latest first."""
    must_be_indexed(read)
    agent_id = visibility.only_sessions_of(caller)
    if agent_id is None and request.agent:
        agent_id = owner_of(read, caller, request.agent).id
    return Sessions(sessions.list_sessions(read, agent_id, request.limit, request.offset, request.project))


class OneSession(Request):
    agent: Id
    """Id or slug of the agent."""
    session: Id
    """Id of the session."""


class ShowSession(OneSession):
    after: Annotated[int, clamp(0, 2**31)] = 0
    """Number of turns to skip."""
    limit: Annotated[int, clamp(1, 1000)] = 200
    """Maximum number of turns."""


@dataclass(frozen=True, slots=True)
class SessionTurns:
    session_id: str
    agent_id: str
    turns: list[RecordedTurn]


@operation(
    v1_route("GET", "/api/v1/agents/{agent}/sessions/{session:any}/messages"),
    Command("session show", takes=("agent", "session"), columns=("ts", "role", "content"), rows="turns"),
)
def show_session(read: Reader, caller: Caller, request: ShowSession) -> SessionTurns:
    """List the turns of a session in order."""
    must_be_indexed(read)
    owner = owner_of(read, caller, request.agent)
    found = sessions.turns(read, owner, request.session, request.after, request.limit)
    return SessionTurns(request.session, owner.id, [recorded_turn(turn) for turn in found])


@dataclass(frozen=True, slots=True)
class SessionDeleted:
    deleted: bool
    session_id: str
    agent_id: str


@operation(
    v1_route("DELETE", "/api/v1/agents/{agent}/sessions/{session:any}"),
    Command("session delete", takes=("agent", "session")),
)
async def delete_session(workspace: Workspace, caller: Caller, request: OneSession) -> SessionDeleted:
    """Permanently delete a session: its transcript and its index entries. Rebuilding the index does not restore it."""
    owner = await workspace.read(lambda read: owner_of(read, caller, request.agent))
    transcript = workspace.transcripts.of(owner, request.session)
    is_there = await asyncio.to_thread(transcript.path.exists)
    if (
        not is_there and workspace.settings.sessions_index
    ):  # the file may be missing: indexed turns can still be deleted
        is_there = await workspace.read(lambda read: sessions.is_known(read, owner, request.session))
    if not is_there:
        raise NotFound("session", request.session, "List sessions to see the known ids.")
    await delete_recorded(workspace, owner, request.session)
    return SessionDeleted(True, request.session, owner.id)


async def delete_recorded(workspace: Workspace, owner: Owner, session_id: str) -> None:
    """Delete the transcript of a session, then its index entries."""
    try:
        await asyncio.to_thread(workspace.transcripts.delete, owner, session_id)
    except OSError as problem:
        raise _not_written(problem) from problem
    if workspace.settings.sessions_index:
        await forget(workspace, workspace.transcripts.of(owner, session_id), session_id)


class ExportSession(OneSession):
    format: Literal["markdown", "jsonl"] = "markdown"
    """markdown for people, jsonl for programs."""


@dataclass(frozen=True, slots=True)
class SessionExport:
    text: str


@operation(
    v1_route(
        "GET",
        "/api/v1/agents/{agent}/sessions/{session:any}/export",
        show=only(SessionExport, "text"),
        media_type="text/plain; charset=utf-8",
    ),
    Command("session export", takes=("agent", "session"), text="text"),
)
async def export_session(workspace: Workspace, caller: Caller, request: ExportSession) -> SessionExport:
    """Export a session as Markdown or as JSON Lines."""
    owner = await workspace.read(lambda read: owner_of(read, caller, request.agent))
    transcript = workspace.transcripts.of(owner, request.session)
    if not await asyncio.to_thread(transcript.path.exists):
        raise NotFound("session", request.session, "List sessions to see the known ids.")
    lines = await asyncio.to_thread(lambda: list(workspace.transcripts.lines(transcript)))
    turns: dict[str, Turn] = {}
    for line in lines:
        if line.turn:
            turns.setdefault(line.turn.id, line.turn)
    if request.format == "jsonl":
        return SessionExport("".join(encode(recorded_turn(turn)).decode() + "\n" for turn in turns.values()))
    parts = [f"## {turn.role} — {iso(turn.ts)}\n\n{turn.content}\n\n" for turn in turns.values()]
    return SessionExport("".join([f"# {request.session}\n\n", *parts]))
