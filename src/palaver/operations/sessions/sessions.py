"""Agents' sessions: recording what is said, and finding it again."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from palaver.errors import Forbidden, NotFound, PalaverError, Refused, Unavailable
from palaver.model.answers import Sparse
from palaver.model.ids import new_id
from palaver.model.messages import Role
from palaver.model.people import Caller
from palaver.model.requests import (
    Ask,
    Id,
    Line,
    NotBlank,
    Project,
    Query,
    Text,
    Time,
    clamp,
)
from palaver.model.sessions import Owner, Turn
from palaver.model.times import now, parse
from palaver.operations import identity
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.operations.sessions.session_index import catch_up, forget
from palaver.search import hints
from palaver.search.snippet import as_html, as_text, excerpt
from palaver.settings import Settings
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sessions
from palaver.store.sessions.sessions import SessionInfo
from palaver.store.sessions.transcripts import Line as TranscriptLine
from palaver.store.sessions.transcripts import Transcripts
from palaver.store.workspaces import Workspace
from palaver.text import query as queries

log = logging.getLogger("palaver")

NOT_AVAILABLE = "Conversation search is not available"

# Here a missing or misshapen field is a 400, and errors are said under `error`.
_v1 = partial(Route, invalid=400, complaint=("error", "detail"))

# Whose sessions


def owner_of(read: Reader, caller: Caller, name: str) -> Owner:
    """The agent of this id or slug. An agent reaches itself alone."""
    agent = agents.named(read, name)
    return _reached(caller, name, Owner(agent.id, agent.slug, agent.name) if agent else None)


def _reached(caller: Caller, name: str, owner: Owner | None) -> Owner:
    if caller.is_authenticated and caller.is_agent and (owner is None or owner.id != caller.agent_id):
        raise Forbidden("An agent reaches its own sessions only.")
    if owner is None:
        raise NotFound("agent", name, "List agents to see who is known.")
    return owner


def owner_or_new(change: Change, caller: Caller, name: str) -> Owner:
    """The same, but a new name is a new agent: it comes to be by its first recorded turn."""
    if agents.named(change, name) is None and not (caller.is_authenticated and caller.is_agent):
        agents.register(change, name=name, slug=agents.slug_of(name), is_online=False)
    return owner_of(change, caller, name)


async def recording_owner(here: Workspace, caller: Caller, name: str) -> Owner:
    """The same, but where the database does not answer the transcripts know who is who: recording goes on."""
    try:
        try:
            return await here.read(lambda read: owner_of(read, caller, name))
        except NotFound:
            return await here.change(lambda change: owner_or_new(change, caller, name))
    except Unavailable:
        owner = await asyncio.to_thread(here.transcripts.owner, name)
        if owner is None:
            raise
        return _reached(caller, name, owner)


# Recording


class Recorded(Ask):
    role: Role
    """user, assistant, system or tool."""
    content: Annotated[Text, Field(min_length=1)]
    """What was said."""
    ts: Time | None = None
    """Time of the turn. Default: now."""
    id: Annotated[Id, NotBlank] | None = None
    """Your own id: the same id twice is one turn."""
    project: Project | None = None
    """Path of the project; later turns of the session belong to it too."""


class RecordTurn(Recorded):
    agent: Annotated[Id, NotBlank]
    """Id or slug of the agent; a new one comes to be by its first turn."""
    session: Annotated[Id, NotBlank]
    """Id of the session."""


class RecordOwnTurn(Recorded):
    session_id: Annotated[Id, NotBlank]
    """Id of the session."""


@dataclass(frozen=True)
class SaidTurn(Sparse):
    """A turn. `project` is there where it is known."""

    sparse = ("project",)

    id: str
    session_id: str
    agent_id: str
    role: str
    content: str
    ts: datetime
    project: str | None = None


def said(turn: Turn) -> SaidTurn:
    return SaidTurn(turn.id, turn.session_id, turn.agent_id, turn.role, turn.content, turn.ts, turn.project)


@operation(
    _v1("POST", "/api/v1/agents/{agent}/sessions/{session:any}/messages", status=201),
    needs="write",
)
async def record_turn(here: Workspace, caller: Caller, ask: RecordTurn) -> SaidTurn:
    """Record a turn of a session. It is in the transcript on disk when this answers, and then in the index."""
    owner = await recording_owner(here, caller, ask.agent)
    return said(await record(here, owner, ask.session, ask))


@operation(Tool("session.append", acts=True, toolset="sessions"), needs="write")
async def record_own_turn(here: Workspace, caller: Caller, ask: RecordOwnTurn) -> SaidTurn:
    """Record a turn of your session, so that conversation_search_own finds it later."""
    name = caller.acting_agent or caller.session.slug  # who was named by the client's settings comes to be by it
    if name is None:
        raise identity.nobody()
    owner = await recording_owner(here, caller, name)
    caller.session.agent_id = owner.id
    if ask.project is None:
        ask = ask.model_copy(update={"project": await _own_project(here, caller)})
    return said(await record(here, owner, ask.session_id, ask))


async def _own_project(here: Workspace, caller: Caller) -> str | None:
    """The project the caller works on, as its client or its bus_connect said. Recording does not depend on it."""
    if caller.client.project:
        return caller.client.project
    with contextlib.suppress(PalaverError):
        agent = await here.read(lambda read: identity.me(read, caller))
        return agent.project if agent else None
    return None


async def record_without_database(settings: Settings, workspace: str, ask: RecordTurn) -> SaidTurn | None:
    """Record a turn in its transcript alone; the index catches up later. None where no file knows the agent."""
    transcripts = Transcripts(settings.data / "sessions" / workspace)
    owner = await asyncio.to_thread(transcripts.owner, ask.agent)
    if owner is None:
        return None
    turn = _turn_of(owner, ask.session, ask)
    try:
        await asyncio.to_thread(transcripts.append, owner, ask.session, [turn])
    except OSError as problem:
        raise _not_written(problem) from problem
    return said(turn)


async def record(here: Workspace, owner: Owner, session_id: str, ask: Recorded) -> Turn:
    if ask.id and (known := await _known(here, owner, session_id, ask.id)):
        return known
    turn = _turn_of(owner, session_id, ask)
    await append(here, owner, session_id, [turn])
    return turn


def _turn_of(owner: Owner, session_id: str, ask: Recorded) -> Turn:
    at = now()
    return Turn(
        id=ask.id or new_id(),
        session_id=session_id,
        agent_id=owner.id,
        role=ask.role,
        content=ask.content,
        ts=parse(ask.ts) if ask.ts else at,
        recorded_at=at,
        project=ask.project.strip() if ask.project else None,
    )


async def _known(here: Workspace, owner: Owner, session_id: str, turn_id: str) -> Turn | None:
    if not here.settings.sessions_index:
        return None
    try:
        return await here.read(lambda read: sessions.find_turn(read, owner, session_id, turn_id))
    except Exception:  # then it is written twice, and still read as one turn
        return None


async def append(here: Workspace, owner: Owner, session_id: str, turns: list[Turn]) -> None:
    """The transcript first: that is what counts. Then the index, which may fail and catch up later."""
    try:
        await asyncio.to_thread(here.transcripts.append, owner, session_id, turns)
    except OSError as problem:
        raise _not_written(problem) from problem
    if here.settings.sessions_index:
        try:
            await catch_up(here, here.transcripts.of(owner, session_id))
        except Exception as problem:  # whatever it is: the turn is safe, and the index can be made again
            log.warning("a turn was recorded but not indexed yet: %s", problem)


async def take_back(here: Workspace, owner: Owner, session_id: str, turn_ids: set[str]) -> None:
    """Turns that were taken back where they were said are not found any more. The transcripts first, as ever."""
    try:
        await asyncio.to_thread(here.transcripts.take_back, owner, session_id, turn_ids)
    except OSError as problem:
        raise _not_written(problem) from problem
    if here.settings.sessions_index:
        try:
            await here.change(lambda change: sessions.take_back(change, owner, session_id, turn_ids))
        except Exception as problem:
            log.warning("turns were taken back and will leave the index later: %s", problem)


def _not_written(problem: OSError) -> Unavailable:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable("The disk is full: nothing was recorded. Free some space and try again.")
    return Unavailable(f"The transcript cannot be written ({problem.strerror}): nothing was recorded.")


# Searching


class SearchConversations(Ask):
    agent_id: Annotated[Id, NotBlank]
    """Id or slug of the agent."""
    query: Annotated[Query, NotBlank]
    """Words; all of them must be there."""
    limit: Annotated[int, clamp(1, 100)] = 20
    """How many hits at the most, up to 100."""
    role: Line | None = None
    """Only turns of this role."""
    session_id: Id | None = None
    """Only this session."""
    since: Time | None = None
    """Only turns from this time on."""
    until: Time | None = None
    """Only turns up to this time; a date means its end."""
    project: Project | None = None
    """Only turns of this project: path or folder name."""


@dataclass(frozen=True)
class ConversationHit(Sparse):
    """A turn that was found. `project` is there where it is known."""

    sparse = ("project",)

    id: str
    session_id: str
    agent_id: str
    role: str
    content: str
    ts: datetime
    snippet: str
    project: str | None = None


@dataclass(frozen=True)
class ConversationHits(Sparse):
    """Where nothing was found, `hint` says why."""

    sparse = ("hint",)

    count: int
    query: str
    hits: list[ConversationHit]
    hint: str | None = None


def _plain(answer: ConversationHits) -> ConversationHits:
    return _marked(answer, as_text)


def _html(answer: ConversationHits) -> ConversationHits:
    return _marked(answer, as_html)


def _marked(answer: ConversationHits, dress: Callable[[str], str]) -> ConversationHits:
    return replace(answer, hits=[replace(hit, snippet=dress(hit.snippet)) for hit in answer.hits])


def must_be_indexed(here: Reader) -> None:
    if not here.settings.sessions_index:
        raise Unavailable(f"{NOT_AVAILABLE}: the index is off (PALAVER_SESSIONS_INDEX).")


def find(read: Reader, text: str, limit: int, **filters: Any) -> ConversationHits:
    if not text.strip():
        raise Refused("query must not be empty")
    wanted = queries.plain(text)
    if isinstance(wanted, queries.Nothing):
        return ConversationHits(0, text, [], hints.NO_WORD)
    scope = sessions.search_scope(read, **filters)
    found = sessions.search(read, queries.closer(wanted), scope, limit) if scope else []
    hits = [
        ConversationHit(
            t.id, t.session_id, t.agent_id, t.role, t.content, t.ts, excerpt(t.content, wanted, length=20), t.project
        )
        for t in (one.turn for one in found)
    ]
    if not hits:
        names = [name for name in ("session_id", "role", "since", "until", "project") if filters.get(name)]
        why = hints.nothing_found("No turn has all of these words", names, "Try fewer words or another spelling.")
        return ConversationHits(0, text, [], why)
    return ConversationHits(len(hits), text, hits)


def _find(read: Reader, ask: SearchConversations | SearchAllConversations, agent_id: str | None) -> ConversationHits:
    return find(
        read,
        ask.query,
        ask.limit,
        agent_id=agent_id,
        session_id=ask.session_id,
        role=ask.role,
        since=parse(ask.since) if ask.since else None,
        until=parse(ask.until, end_of_day=True) if ask.until else None,
        project=ask.project,
    )


@operation(
    _v1("POST", "/api/v1/conversations/search", show=_html),
)
def search_conversations(read: Reader, caller: Caller, ask: SearchConversations) -> ConversationHits:
    """Find earlier turns of an agent's sessions by their words, best first."""
    must_be_indexed(read)
    owner = owner_of(read, caller, ask.agent_id)
    return _find(read, ask, owner.id)


class SearchAllConversations(Ask):
    query: Annotated[Query, NotBlank]
    """Words; all of them must be there."""
    limit: Annotated[int, clamp(1, 100)] = 20
    """How many hits at the most, up to 100."""
    role: Line | None = None
    """Only turns of this role."""
    since: Time | None = None
    """Only turns from this time on."""
    until: Time | None = None
    """Only turns up to this time; a date means its end."""
    project: Project | None = None
    """Only turns of this project: path or folder name."""

    @property
    def session_id(self) -> None:
        return None


@operation(
    _v1("POST", "/api/v1/conversations/search/all", show=_html),
)
def search_all_conversations(read: Reader, caller: Caller, ask: SearchAllConversations) -> ConversationHits:
    """Find earlier turns of all agents of the workspace; an agent finds its own alone."""
    must_be_indexed(read)
    return _find(read, ask, caller.agent_id if caller.is_agent else None)


class SearchOwnConversations(Ask):
    query: Query
    """Words; all of them must be there."""
    limit: Annotated[int, clamp(1, 100)] = 20
    """How many hits at the most, up to 100."""
    project: Project | None = None
    """Only turns of this project: path or folder name."""


@dataclass(frozen=True)
class OwnHits(Sparse):
    """`available` is false when there is nothing to search in; `message` says why and what to do. Where nothing was
    found, `hint` says why."""

    sparse = ("hint",)

    count: int
    query: str
    hits: list[ConversationHit]
    available: bool = True
    message: str | None = None
    hint: str | None = None


def _own_plain(answer: OwnHits) -> OwnHits:
    return replace(answer, hits=[replace(hit, snippet=as_text(hit.snippet)) for hit in answer.hits])


def _own_away(ask: SearchOwnConversations, why: str) -> OwnHits:
    return OwnHits(0, ask.query, [], False, f"{NOT_AVAILABLE}: {why.removeprefix(f'{NOT_AVAILABLE}: ')}")


def _self(read: Reader, caller: Caller) -> Owner:
    agent = agents.find(read, caller.acting_agent) if caller.acting_agent else None
    if agent is None:
        raise identity.nobody()
    return Owner(agent.id, agent.slug, agent.name)


@operation(
    Tool(
        "conversation.search",
        brings_words=True,
        acts=True,
        toolset="sessions",
        listed="conversation_search_own",
        show=_own_plain,
        also={"q": "query"},
        if_away=_own_away,
    )
)
async def search_own_conversations(here: Workspace, caller: Caller, ask: SearchOwnConversations) -> OwnHits:
    """Search your own earlier sessions by keywords: what you and your user said before."""
    if not ask.query.strip():
        raise Refused("query must not be empty")
    try:
        return await here.read(lambda read: _own(read, caller, ask))
    except PalaverError as problem:
        return _own_away(ask, problem.message)


def _own(read: Reader, caller: Caller, ask: SearchOwnConversations) -> OwnHits:
    must_be_indexed(read)
    if caller.acting_agent is None and caller.session.slug:  # it has a name, and has yet to come to be
        return OwnHits(0, ask.query, [], hint=hints.NOT_RECORDED)
    owner = _self(read, caller)
    found = find(read, ask.query, ask.limit, agent_id=owner.id, project=ask.project)
    return OwnHits(found.count, found.query, found.hits, hint=found.hint)


# Looking after sessions


class ListSessions(Ask):
    agent: Id | None = None
    """Id or slug of the agent; all agents if left out."""
    project: Project | None = None
    """Only sessions of this project: its path, or its last component."""
    limit: Annotated[int, clamp(1, 1000)] = 100
    """How many at the most."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """How many to skip."""


@dataclass(frozen=True, slots=True)
class Sessions:
    sessions: list[SessionInfo]


@operation(
    _v1("GET", "/api/v1/sessions"),
    Command(
        "session list", columns=("session_id", "agent", "project", "turns", "last_turn_at", "title"), rows="sessions"
    ),
)
def list_sessions(read: Reader, caller: Caller, ask: ListSessions) -> Sessions:
    """Sessions, the latest first."""
    must_be_indexed(read)
    if caller.is_agent and caller.is_authenticated:
        agent_id: str | None = caller.agent_id
    else:
        agent_id = owner_of(read, caller, ask.agent).id if ask.agent else None
    return Sessions(sessions.list_sessions(read, agent_id, ask.limit, ask.offset, ask.project))


class OneSession(Ask):
    agent: Id
    """Id or slug of the agent."""
    session: Id
    """Id of the session."""


class ShowSession(OneSession):
    after: Annotated[int, clamp(0, 2**31)] = 0
    """How many turns to skip."""
    limit: Annotated[int, clamp(1, 1000)] = 200
    """How many turns at the most."""


@dataclass(frozen=True, slots=True)
class SessionTurns:
    session_id: str
    agent_id: str
    turns: list[SaidTurn]


@operation(
    _v1("GET", "/api/v1/agents/{agent}/sessions/{session:any}/messages"),
    Command("session show", takes=("agent", "session"), columns=("ts", "role", "content"), rows="turns"),
)
def show_session(read: Reader, caller: Caller, ask: ShowSession) -> SessionTurns:
    """The turns of a session, in order."""
    must_be_indexed(read)
    owner = owner_of(read, caller, ask.agent)
    found = sessions.turns(read, owner, ask.session, ask.after, ask.limit)
    return SessionTurns(ask.session, owner.id, [said(turn) for turn in found])


@dataclass(frozen=True, slots=True)
class SessionDeleted:
    deleted: bool
    session_id: str
    agent_id: str


@operation(
    _v1("DELETE", "/api/v1/agents/{agent}/sessions/{session:any}"),
    Command("session delete", takes=("agent", "session")),
    needs="write",
)
async def delete_session(here: Workspace, caller: Caller, ask: OneSession) -> SessionDeleted:
    """Delete a session for good: its transcript and its place in the index. A rebuild does not bring it back."""
    owner = await here.read(lambda read: owner_of(read, caller, ask.agent))
    transcript = here.transcripts.of(owner, ask.session)
    if not await asyncio.to_thread(transcript.path.exists) and not await _is_indexed(here, owner, ask.session):
        raise NotFound("session", ask.session, "List sessions to see which exist.")
    await delete_recorded(here, owner, ask.session)
    return SessionDeleted(True, ask.session, owner.id)


async def delete_recorded(here: Workspace, owner: Owner, session_id: str) -> None:
    """Delete a session's transcript, then its place in the index."""
    try:
        await asyncio.to_thread(here.transcripts.delete, owner, session_id)
    except OSError as problem:
        raise _not_written(problem) from problem
    if here.settings.sessions_index:
        await forget(here, here.transcripts.of(owner, session_id), session_id)


async def _is_indexed(here: Workspace, owner: Owner, session_id: str) -> bool:
    """Somebody may have taken the transcript away; what is still found can still be deleted."""
    return here.settings.sessions_index and await here.read(lambda read: sessions.is_known(read, owner, session_id))


class ExportSession(OneSession):
    format: Literal["markdown", "jsonl"] = "markdown"
    """markdown to read, jsonl to take elsewhere."""


@dataclass(frozen=True, slots=True)
class SessionExport:
    text: str


def _text(answer: SessionExport) -> str:
    return answer.text


@operation(
    _v1(
        "GET",
        "/api/v1/agents/{agent}/sessions/{session:any}/export",
        show=_text,
        media_type="text/plain; charset=utf-8",
    ),
    Command("session export", takes=("agent", "session"), text="text"),
)
async def export_session(here: Workspace, caller: Caller, ask: ExportSession) -> SessionExport:
    """A session as Markdown, or as the JSON lines it is kept in."""
    owner = await here.read(lambda read: owner_of(read, caller, ask.agent))
    transcript = here.transcripts.of(owner, ask.session)
    if not await asyncio.to_thread(transcript.path.exists):
        raise NotFound("session", ask.session, "List sessions to see which exist.")
    turns = await asyncio.to_thread(lambda: list(_distinct(here.transcripts.lines(transcript))))
    return SessionExport("".join(_jsonl(turns) if ask.format == "jsonl" else _markdown(ask.session, turns)))


def _distinct(lines: Iterator[TranscriptLine]) -> Iterator[Turn]:
    seen: set[str] = set()
    for line in lines:
        if line.turn and line.turn.id not in seen:
            seen.add(line.turn.id)
            yield line.turn


def _jsonl(turns: list[Turn]) -> Iterator[str]:
    from palaver.model.events import encode

    for turn in turns:
        yield encode(said(turn)).decode() + "\n"


def _markdown(session_id: str, turns: list[Turn]) -> Iterator[str]:
    from palaver.model.times import iso

    yield f"# {session_id}\n\n"
    for turn in turns:
        yield f"## {turn.role} — {iso(turn.ts)}\n\n{turn.content}\n\n"
