"""Record turns of sessions."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from palaver.errors import PalaverError, Refused, Unavailable
from palaver.model.answers import OmitsDefaults, answer_of
from palaver.model.ids import new_id
from palaver.model.messages import Role
from palaver.model.people import Caller
from palaver.model.requests import Id, NotBlank, Project, Request, Time
from palaver.model.sessions import Owner, Turn
from palaver.model.times import now, parse
from palaver.operations import identity
from palaver.operations.operation import Tool, operation
from palaver.operations.sessions.owners import owner_without_database, recording_owner, v1_route
from palaver.operations.sessions.private import TurnText, privacy_rules
from palaver.operations.sessions.session_index import catch_up
from palaver.settings import Settings
from palaver.store.sessions import sessions
from palaver.store.sessions.forgotten import turn_key
from palaver.store.sessions.transcripts import Transcript, Transcripts
from palaver.store.workspaces import Workspace

log = logging.getLogger("palaver")

INDEX_SECONDS = 5.0
"""How long an answer waits until its turn can be found. The turn is on disk by then; indexing goes on."""
_indexing: set[asyncio.Task[None]] = set()


class Recorded(Request):
    role: Role
    """user, assistant, system or tool."""
    content: TurnText
    """Text of the turn. A part in <private>…</private> is not stored."""
    ts: Time | None = None
    """Time of the turn. Default: now."""
    id: Annotated[Id, NotBlank] | None = None
    """Your own id; a second turn with it is ignored."""
    project: Project | None = None
    """Path of the project; later turns inherit it."""


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
    return answer_of(RecordedTurn, turn)


@operation(v1_route("POST", "/api/v1/agents/{agent}/sessions/{session:any}/messages", status=201))
async def record_turn(workspace: Workspace, caller: Caller, request: RecordTurn) -> RecordedTurn:
    """Record a turn of a session. It is written to the transcript on disk first, then indexed for search."""
    owner = await recording_owner(workspace, caller, request.agent)
    return recorded_turn(await record(workspace, owner, request.session, request))


@operation(Tool("session.append", acts=True, toolset="sessions"))
async def record_own_turn(workspace: Workspace, caller: Caller, request: RecordOwnTurn) -> RecordedTurn:
    """Record a turn of your session, so that searches find it."""
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
    """Record a turn in its transcript only; it is indexed later. None if the agent must be looked up first."""
    transcripts = Transcripts(settings.data / "sessions" / workspace)
    owner = await asyncio.to_thread(owner_without_database, transcripts, request.agent)
    if owner is None:
        return None
    privacy_rules(settings).must_record(request.project)
    turn = _turn_of(owner, request.session, request)
    try:
        await asyncio.to_thread(transcripts.append, owner, request.session, [turn])
    except OSError as problem:
        raise not_written(problem) from problem
    return recorded_turn(turn)


async def record(workspace: Workspace, owner: Owner, session_id: str, request: Recorded) -> Turn:
    """Record a turn, unless a turn with its id is recorded."""
    await asyncio.to_thread(privacy_rules(workspace.settings).must_record, request.project)
    if request.id and workspace.forgotten.has(turn_key(session_id, request.id)):
        raise Refused("This turn was forgotten ('palaver forget'). It is not recorded again.")
    after = None
    if (turn_id := request.id) and workspace.settings.sessions_index:
        file = workspace.transcripts.of(owner, session_id).path.name
        try:
            known, after = await workspace.read(
                lambda read: (sessions.find_turn(read, owner, session_id, turn_id), sessions.mark(read, owner.id, file))
            )
        except Exception:  # the turn is then written twice; readers take the first
            known = None
        if known:
            return known
    turn = _turn_of(owner, session_id, request)
    await append(workspace, owner, session_id, [turn], after)
    return turn


def _turn_of(owner: Owner, session_id: str, request: Recorded) -> Turn:
    at, id = now(), request.id or new_id()
    ts = parse(request.ts) if request.ts else at
    project = request.project.strip() if request.project else None
    return Turn(id, session_id, owner.id, request.role, request.content, ts, at, project)


async def append(
    workspace: Workspace, owner: Owner, session_id: str, turns: list[Turn], after: int | None = None
) -> list[Turn]:
    """Write turns to the transcript, then to the index. The index may fail; it catches up later.

    Turns that the transcript has after the offset `after` are left out. Returns the turns that were written.
    """
    try:
        turns = await asyncio.to_thread(workspace.transcripts.append, owner, session_id, turns, after)
    except OSError as problem:
        raise not_written(problem) from problem
    if workspace.settings.sessions_index:
        indexing = asyncio.create_task(_index(workspace, workspace.transcripts.of(owner, session_id)))
        _indexing.add(indexing)
        indexing.add_done_callback(_indexing.discard)
        await asyncio.wait((indexing,), timeout=INDEX_SECONDS)
    return turns


async def _index(workspace: Workspace, transcript: Transcript) -> None:
    try:
        await catch_up(workspace, transcript)
    except Exception as problem:  # the turn is safe in the transcript
        log.warning("a turn was recorded but not indexed yet: %s", problem)


async def take_back(workspace: Workspace, owner: Owner, session_id: str, turn_ids: set[str]) -> None:
    """Remove turns that were undone in their own program: from the transcript, then from the index."""
    try:
        await asyncio.to_thread(workspace.transcripts.take_back, owner, session_id, turn_ids)
    except OSError as problem:
        raise not_written(problem) from problem
    if workspace.settings.sessions_index:
        try:
            await workspace.change(lambda change: sessions.take_back(change, owner, session_id, turn_ids))
        except Exception as problem:
            log.warning("turns were removed from a transcript but not from the index yet: %s", problem)


def not_written(problem: OSError) -> Unavailable:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable("The disk is full: nothing was recorded. Free some space and try again.")
    return Unavailable(f"The transcript cannot be written ({problem.strerror}): nothing was recorded.")
