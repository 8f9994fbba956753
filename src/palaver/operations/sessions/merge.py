"""Merge turns from a session file of another program into a session: each turn once, however often it is sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from palaver.model.answers import answer_of
from palaver.model.library import tool_facts
from palaver.model.messages import Role
from palaver.model.people import Caller, program_of
from palaver.model.requests import Id, Line, NotBlank, Project, Request, Time
from palaver.model.sessions import Owner, Turn
from palaver.model.times import now, parse
from palaver.operations.operation import operation
from palaver.operations.sessions.owners import recording_owner, v1_route
from palaver.operations.sessions.private import TurnText, kept_in
from palaver.operations.sessions.recording import append, take_back
from palaver.store.engines.database import Reader
from palaver.store.sessions import sessions
from palaver.store.workspaces import Workspace

MOST_TURNS = 1_000
MOST_REMOVED = 10_000


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
    deleted_at = (await asyncio.to_thread(workspace.transcripts.tombstones, owner)).get(request.session)
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
