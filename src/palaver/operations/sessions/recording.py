"""Record turns of sessions, single ones and those of the session files of other programs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from palaver.errors import PalaverError, Refused, Unavailable
from palaver.model.answers import OmitsDefaults, answer_of
from palaver.model.ids import new_id
from palaver.model.library import tool_facts
from palaver.model.messages import Role
from palaver.model.people import Caller, program_of
from palaver.model.requests import Id, Line, NotBlank, Project, Request, Time
from palaver.model.sessions import Owner, Turn
from palaver.model.times import now, parse
from palaver.operations import identity
from palaver.operations.edits.editing import note_recorded
from palaver.operations.operation import Tool, operation
from palaver.operations.sessions.owners import owner_without_database, recording_owner, v1_route
from palaver.operations.sessions.private import TurnText, kept_in, privacy_rules
from palaver.operations.sessions.session_index import catch_up
from palaver.settings import Settings
from palaver.store.engines.database import Reader
from palaver.store.sessions import sessions
from palaver.store.sessions.forgotten import turn_key
from palaver.store.sessions.transcripts import Transcript, Transcripts
from palaver.store.workspaces import Workspace

log = logging.getLogger("palaver")

MOST_TURNS = 1_000
MOST_REMOVED = 10_000
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
    with writing_transcripts():
        await asyncio.to_thread(transcripts.append, owner, request.session, [turn])
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
    with writing_transcripts():
        turns = await asyncio.to_thread(workspace.transcripts.append, owner, session_id, turns, after)
    if workspace.settings.sessions_index:
        indexing = asyncio.create_task(_index(workspace, workspace.transcripts.of(owner, session_id)))
        _indexing.add(indexing)
        indexing.add_done_callback(_indexing.discard)
        await asyncio.wait((indexing,), timeout=INDEX_SECONDS)
    await note_recorded(workspace, owner, session_id, turns)
    return turns


async def _index(workspace: Workspace, transcript: Transcript) -> None:
    try:
        await catch_up(workspace, transcript)
    except Exception as problem:  # the turn is safe in the transcript
        log.warning("a turn was recorded but not indexed yet: %s", problem)


async def take_back(workspace: Workspace, owner: Owner, session_id: str, turn_ids: set[str]) -> None:
    """Remove turns that were undone in their own program: from the transcript, then from the index."""
    with writing_transcripts():
        await asyncio.to_thread(workspace.transcripts.take_back, owner, session_id, turn_ids)
    if workspace.settings.sessions_index:
        try:
            await workspace.change(lambda change: sessions.take_back(change, owner, session_id, turn_ids))
        except Exception as problem:
            log.warning("turns were removed from a transcript but not from the index yet: %s", problem)


@contextlib.contextmanager
def writing_transcripts() -> Iterator[None]:
    """Say what to do when the disk refuses to write."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            text = "The disk is full: nothing was recorded. Free some space and try again."
        else:
            text = f"The transcript cannot be written ({problem.strerror}): nothing was recorded."
        raise Unavailable(text) from problem


# Merging turns from a session file of another program: each turn once, however often it is sent


class ToolRequest(Request):
    call: Id | None = None
    """The id that a call and its result have in common."""
    is_error: bool = False
    """The tool failed."""
    ms: Annotated[int, Field(ge=0, lt=2**53)] | None = None
    """How long the tool ran, in milliseconds."""


class MergedTurn(Request):
    id: Annotated[Id, NotBlank]
    """Id of the turn. It is the same each time the turn is sent."""
    role: Role
    """user, assistant, system or tool."""
    content: TurnText
    """Text of the turn. A part in <private>…</private> is not stored."""
    ts: Time
    """Time of the turn."""
    project: Project | None = None
    """Path of the project; later turns inherit it."""
    tool: ToolRequest | None = None
    """For a tool call or its result: what is known besides the text."""


class MergeTurns(Request):
    agent: Annotated[Id, NotBlank]
    """Id or slug of the agent. An unknown agent is created."""
    session: Annotated[Id, NotBlank]
    """Id of the session."""
    turns: Annotated[list[MergedTurn], Field(max_length=MOST_TURNS)]
    """Turns in order, at most 1,000."""
    removed: Annotated[list[Id], Field(max_length=MOST_REMOVED)] = Field(default_factory=list)
    """Ids of turns that were undone in their program."""
    replace: bool = False
    """Whether a turn replaces a recorded one that has its id and another text."""
    program: Annotated[Line, Field(max_length=60), NotBlank] | None = None
    """Short name of the client program, e.g. claude-code. Then the session is its agent's in the project of the turns,
    and the agent in the path does not count."""


@dataclass(frozen=True, slots=True)
class MergedTurns:
    """The numbers of turns that were added, replaced and removed."""

    added: int
    changed: int
    removed: int


@operation(v1_route("PUT", "/api/v1/agents/{agent}/sessions/{session:any}/messages"))
async def merge_turns(workspace: Workspace, caller: Caller, request: MergeTurns) -> MergedTurns:
    """Merge turns into a session. A turn whose id is recorded is not added again, so a request can be repeated.

    Turns from before the deletion of the session are left out, and so are forgotten turns and private projects.
    """
    project = next((one.project for one in request.turns if one.project), None)
    owner = await recording_owner(workspace, caller, request.agent, request.program, project, request.session)
    at, program = now(), program_of(request.program) if request.program else None
    turns = [
        answer_of(
            Turn,
            one,
            session_id=request.session,
            agent_id=owner.id,
            ts=parse(one.ts),
            recorded_at=at,
            project=one.project.strip() if one.project else None,
            program=program,
            tool=tool_facts(one.tool.model_dump()) if one.tool else None,
        )
        for one in request.turns
    ]
    deleted_at = (await asyncio.to_thread(workspace.transcripts.tombstones, owner)).sessions.get(request.session)
    wanted: dict[str, Turn] = {}
    for turn in await asyncio.to_thread(kept_in, workspace, turns):
        if deleted_at is None or turn.ts > deleted_at:
            wanted.setdefault(turn.id, turn)  # of equal ids the first counts
    ids = {*wanted, *request.removed}
    recorded, after = await _recorded(workspace, owner, request.session, ids, with_texts=request.replace)
    changed = {id for id, turn in wanted.items() if request.replace and recorded.get(id) not in (None, turn.content)}
    undone = {id for id in request.removed if id in recorded and id not in wanted}
    if undone or changed:
        await take_back(workspace, owner, request.session, undone | changed)
    new = [turn for id, turn in wanted.items() if id in changed or id not in recorded]
    written = await append(workspace, owner, request.session, new, after) if new else []
    replaced = sum(turn.id in changed for turn in written)
    return MergedTurns(len(written) - replaced, replaced, len(undone))


async def _recorded(
    workspace: Workspace, owner: Owner, session_id: str, ids: set[str], *, with_texts: bool
) -> tuple[dict[str, str], int]:
    """The recorded turns with these ids, with their texts if wanted, and how far the transcript was looked through."""
    transcript = workspace.transcripts.of(owner, session_id)

    def look(read: Reader) -> tuple[dict[str, str], int]:
        after = sessions.mark(read, owner.id, transcript.path.name)
        if with_texts:
            found = {id: sessions.find_turn(read, owner, session_id, id) for id in ids}
            return {id: turn.content for id, turn in found.items() if turn}, after
        return dict.fromkeys(sessions.known_turns(read, owner, session_id, ids), ""), after

    def read_on(start: int) -> dict[str, str]:
        lines = workspace.transcripts.lines(transcript, start)
        return {line.turn.id: line.turn.content for line in lines if line.turn and line.turn.id in ids}

    recorded: dict[str, str] = {}
    after = 0
    if workspace.settings.sessions_index:
        recorded, after = await workspace.read(look)
    size = transcript.size
    if size != after:
        after = after if after <= size else 0  # the file was cut short
        recorded |= {id: text for id, text in (await asyncio.to_thread(read_on, after)).items() if id not in recorded}
    return recorded, after
