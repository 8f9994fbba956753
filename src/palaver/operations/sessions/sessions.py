"""List, show, delete and export the sessions of agents."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from palaver.errors import NotFound
from palaver.model.events import encode
from palaver.model.people import Caller
from palaver.model.requests import Id, Project, Request, clamp
from palaver.model.sessions import Owner, Turn
from palaver.model.times import iso
from palaver.operations.operation import Command, operation
from palaver.operations.sessions.owners import must_be_indexed, owner_of, readable_owner, v1_route
from palaver.operations.sessions.recording import RecordedTurn, recorded_turn, writing_transcripts
from palaver.operations.sessions.session_index import forget
from palaver.store.bus import agents
from palaver.store.engines.database import Reader
from palaver.store.sessions import sessions, sharing
from palaver.store.sessions.sessions import SessionInfo
from palaver.store.workspaces import Workspace


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
    if request.agent and not agents.called(read, request.agent):
        raise NotFound("agent", request.agent, "List agents to see the known ones.")
    wanted = {agent.id for agent in agents.called(read, request.agent)} if request.agent else None
    groups = sharing.readable_groups(read, sharing.reach_of(read, caller), wanted, request.project)
    return Sessions(sessions.list_sessions(read, groups, request.limit, request.offset))


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
    owner = readable_owner(read, caller, request.agent, request.session)
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
    owner = await workspace.read(lambda read: owner_of(read, caller, request.agent, request.session))
    transcript = workspace.transcripts.of(owner, request.session)
    is_there = await asyncio.to_thread(transcript.path.exists)
    if not is_there and workspace.settings.sessions_index:  # turns that are in the index alone can be deleted too
        is_there = await workspace.read(lambda read: sessions.is_known(read, owner, request.session))
    if not is_there:
        raise NotFound("session", request.session, "List sessions to see the known ids.")
    await delete_recorded(workspace, owner, request.session)
    return SessionDeleted(True, request.session, owner.id)


async def delete_recorded(workspace: Workspace, owner: Owner, session_id: str) -> None:
    """Delete the transcript of a session, then its index entries."""
    with writing_transcripts():
        await asyncio.to_thread(workspace.transcripts.delete, owner, session_id)
    if workspace.settings.sessions_index:
        await forget(workspace, workspace.transcripts.of(owner, session_id), session_id)


class ExportSession(OneSession):
    format: Literal["markdown", "jsonl"] = "markdown"
    """markdown for people, jsonl for programs."""


@operation(
    v1_route(
        "GET",
        "/api/v1/agents/{agent}/sessions/{session:any}/export",
        media_type="text/plain; charset=utf-8",
    ),
    Command("session export", takes=("agent", "session"), text="text"),
)
async def export_session(workspace: Workspace, caller: Caller, request: ExportSession) -> str:
    """Export a session as Markdown or as JSON Lines."""
    owner = await workspace.read(lambda read: readable_owner(read, caller, request.agent, request.session))
    transcript = workspace.transcripts.of(owner, request.session)
    if not await asyncio.to_thread(transcript.path.exists):
        raise NotFound("session", request.session, "List sessions to see the known ids.")
    lines = await asyncio.to_thread(list, workspace.transcripts.lines(transcript))
    turns: dict[str, Turn] = {}
    for line in lines:
        if line.turn:
            turns.setdefault(line.turn.id, line.turn)
    if request.format == "jsonl":
        return "".join(encode(recorded_turn(turn)).decode() + "\n" for turn in turns.values())
    parts = [f"## {turn.role} — {iso(turn.ts)}\n\n{turn.content}\n\n" for turn in turns.values()]
    return "".join([f"# {request.session}\n\n", *parts])
