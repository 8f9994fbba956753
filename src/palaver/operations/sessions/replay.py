"""Replay a session or an imported conversation: its steps in pages, with numbers, branches and subagents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from palaver.errors import Refused, must_be_found
from palaver.model.answers import OmitsDefaults, answer_of
from palaver.model.library import Branch
from palaver.model.people import Caller, program_of
from palaver.model.requests import Id, Request, clamp
from palaver.model.sessions import Owner
from palaver.operations.operation import Route, operation
from palaver.operations.sessions.owners import must_be_indexed, readable_owner, v1_route
from palaver.operations.sessions.sessions import OneSession
from palaver.operations.sessions.steps import (
    Kind,
    Places,
    State,
    Step,
    Totals,
    call_text,
    places_in,
    steps_of,
    totals_of,
)
from palaver.store.engines.database import Reader
from palaver.store.library.archive import branches_of
from palaver.store.sessions import outlines, sessions, sharing
from palaver.store.sessions.outlines import OutlineTurn, RelatedSession, StoredSession
from palaver.store.workspaces import Workspace

LONGEST_MESSAGE = 20_000
LONGEST_OUTPUT = 3_000
"""Longer texts are cut, unless the whole step is asked for."""


UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


class StepsRequest(Request):
    after: Annotated[int, clamp(0, 2**31)] = 0
    """Number of steps to skip."""
    limit: Annotated[int, clamp(1, 500)] = 100
    """Maximum number of steps, up to 500."""
    at: Id | None = None
    """Id of a turn. The page with its step is given, instead of the one after `after`."""
    branch: Annotated[int, clamp(0, 2**31)] = 0
    """Number of the branch to read. 0 is the one that counts."""
    outline: bool = False
    """Whether to give totals, places to jump to, branches and subagents too."""
    whole: bool = False
    """Whether to give long texts whole. Then `limit` is 1."""


class SessionStepsRequest(OneSession, StepsRequest):
    pass


class ConversationStepsRequest(StepsRequest):
    conversation_id: Id
    """Id of the conversation."""


@dataclass(frozen=True)
class ShownStep(OmitsDefaults):
    """One step. `length` is the number of characters of the whole text, if it is cut."""

    omit_if_default = (
        "text", "length", "ts", "seconds", "tool", "brief", "arguments", "path", "diff", "state", "is_error",
        "is_edit", "result_id",
    )  # fmt: skip

    number: int
    id: str
    kind: Kind
    text: str = ""
    """What was said, or the output of the tool."""
    length: int | None = None
    ts: datetime | None = None
    seconds: float | None = None
    tool: str | None = None
    brief: str | None = None
    arguments: str | None = None
    path: str | None = None
    diff: str | None = None
    state: State | None = None
    is_error: bool = False
    is_edit: bool = False
    result_id: str | None = None


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """Turns that were edited or answered again. They follow step `after` of the branch `beside`."""

    number: int
    beside: int
    after: int
    steps: int
    title: str
    ts: datetime | None


@dataclass(frozen=True, slots=True)
class Subagent:
    """A session that this one started, at the step `at` if that is known."""

    id: str
    title: str
    ts: datetime | None
    at: int | None


@dataclass(frozen=True, slots=True)
class Resume:
    """A command for a terminal, or an address for a browser."""

    program: str
    command: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    totals: Totals
    places: Places
    branches: list[BranchInfo]
    subagents: list[Subagent]
    parent: RelatedSession | None
    resume: Resume | None


@dataclass(frozen=True)
class Steps(OmitsDefaults):
    """A page of steps. `found` is the number of the step with the turn that was asked for."""

    omit_if_default = ("found", "outline", "project")

    title: str
    total: int
    after: int
    steps: list[ShownStep]
    project: str | None = None
    found: int | None = None
    outline: Outline | None = None


@operation(v1_route("GET", "/api/v1/agents/{agent}/sessions/{session:any}/steps"))
async def list_session_steps(workspace: Workspace, caller: Caller, request: SessionStepsRequest) -> Steps:
    """List the steps of a session: questions, answers, and tool calls with their results."""
    owner = await workspace.read(lambda read: _owner(read, caller, request))
    branches: tuple[Branch, ...] = ()
    if request.outline or request.branch:
        transcript = workspace.transcripts.of(owner, request.session)
        branches = await asyncio.to_thread(workspace.transcripts.rewound, transcript, request.session)

    def show(read: Reader) -> Steps:
        stored = outlines.session(read, owner, request.session)
        found = must_be_found(stored, "session", request.session, "List sessions to see which exist.")
        reach = sharing.reach_of(read, caller)
        below = outlines.sessions_below(read, owner, request.session) if request.outline else []
        below = [one for one in below if reach.includes(owner.id, sessions.project_of(read, owner.id, one.id))]
        above = outlines.session(read, owner, found.parent) if found.parent and request.outline else None
        above = above if above and reach.includes(owner.id, above.project) else None
        steps = workspace.outlines.get(read, found.document_id, steps_of)
        resume = resume_of(found.program or owner.program or owner.slug, request.session)
        return _page(read, request, _Replayed(found, steps, branches, below, above, resume))

    return await workspace.read(show)


def _owner(read: Reader, caller: Caller, request: OneSession) -> Owner:
    must_be_indexed(read)
    return readable_owner(read, caller, request.agent, request.session)


@operation(Route("GET", "/api/archive/{conversation_id:any}/steps"))
async def list_conversation_steps(workspace: Workspace, caller: Caller, request: ConversationStepsRequest) -> Steps:
    """List the steps of an imported conversation: questions, answers, and tool calls with their results."""
    return await workspace.read(lambda read: _conversation_steps(workspace, read, request))


def _conversation_steps(workspace: Workspace, read: Reader, request: ConversationStepsRequest) -> Steps:
    id = request.conversation_id
    found = must_be_found(outlines.conversation(read, id), "conversation", id, "List the archive to see what is there.")
    needs_more = request.outline or request.branch
    branches = branches_of(read, found.document_id) if needs_more else ()
    below = outlines.conversations_below(read, id) if request.outline else []
    above = outlines.conversation(read, found.parent) if found.parent and request.outline else None
    origin, _, own_id = id.partition(":")
    steps = workspace.outlines.get(read, found.document_id, steps_of)
    return _page(read, request, _Replayed(found, steps, branches, below, above, resume_of(origin, own_id)))


@dataclass(frozen=True, slots=True)
class _Replayed:
    """A session to show: its steps, what was taken back or answered again, and the sessions around it."""

    session: StoredSession
    steps: list[Step]
    branches: Sequence[Branch]
    below: list[RelatedSession]
    above: StoredSession | None
    resume: Resume | None


def _page(read: Reader, request: StepsRequest, replayed: _Replayed) -> Steps:
    session, branches = replayed.session, replayed.branches
    steps = main = replayed.steps
    if request.branch:
        if request.branch > len(branches):
            raise Refused(f"branch: there are {len(branches)} branches.")
        steps = _steps_of_branch(branches[request.branch - 1])
    limit = 1 if request.whole else request.limit
    _, found = _places_of(steps, 0).get(request.at, (0, None)) if request.at else (0, None)
    after = (found - 1) // limit * limit if found else request.after
    page = steps[after : after + limit]
    if request.branch:
        texts = dict(enumerate((said.text for said in branches[request.branch - 1].messages), 1))
    else:
        wanted = {turn.position for step in page for turn in (step.turn, step.result) if turn}
        texts = outlines.texts(read, session.document_id, wanted)
    open_from = len(steps)  # calls at the end without a result: nothing was said after them
    while not request.branch and open_from and steps[open_from - 1].kind == "call" and not steps[open_from - 1].result:
        open_from -= 1
    shown = [
        _shown(number, step, texts, is_whole=request.whole, is_open=number > open_from)
        for number, step in enumerate(page, after + 1)
    ]
    outline = None
    if request.outline:
        places = places_in(main)
        above, subagents = replayed.above, _subagents(main, replayed.below)
        parent = RelatedSession(session.parent, above.title, above.created_at) if session.parent and above else None
        around = _branches(main, branches), subagents, parent, replayed.resume
        outline = Outline(totals_of(main, places), places, *around)
    title = session.title
    if not title or title.startswith("[tool "):  # a session may begin with a tool call
        asked = next((step.turn.start for step in main if step.kind == "question"), "")
        title = next((line.strip() for line in asked.splitlines() if line.strip()), "")[:120] or title
    return Steps(title, len(steps), after, shown, session.project, found, outline)


def _shown(number: int, step: Step, texts: dict[int, str], *, is_whole: bool, is_open: bool) -> ShownStep:
    turn, result = step.turn, step.result
    if step.kind == "call":
        call = call_text(texts.get(turn.position, turn.start))
        output = texts.get(result.position, "") if result else ""
        text, length = _cut(output, LONGEST_OUTPUT, is_whole)
        state = "open" if is_open else step.state
        about = {"brief": call.brief, "arguments": call.arguments, "path": call.path, "diff": call.diff, "state": state}
        about |= {"result_id": result.id if result else None}
        return answer_of(ShownStep, step, number=number, id=turn.id, text=text, length=length, ts=turn.ts, **about)
    longest = LONGEST_OUTPUT if step.kind == "output" else LONGEST_MESSAGE
    text, length = _cut(texts.get(turn.position, turn.start), longest, is_whole)
    return ShownStep(number, turn.id, step.kind, text, length, turn.ts, is_error=step.is_error)


def _cut(text: str, longest: int, is_whole: bool) -> tuple[str, int | None]:
    return (text, None) if is_whole or len(text) <= longest else (text[:longest], len(text))


def _steps_of_branch(branch: Branch) -> list[Step]:
    return steps_of(
        OutlineTurn(number, said.id, said.role, said.text[:300], len(said.text), said.ts, said.tool)
        for number, said in enumerate(branch.messages, 1)
    )


def _branches(main: Sequence[Step], branches: Sequence[Branch]) -> list[BranchInfo]:
    places = _places_of(main, 0)
    found: list[BranchInfo] = []
    for number, branch in enumerate(branches, 1):
        steps = _steps_of_branch(branch)
        beside, after = places.get(branch.after or "", (0, 0))
        first = branch.messages[0]
        title = " ".join(first.text[:300].split())[:120]
        found.append(BranchInfo(number, beside, after, len(steps), title, first.ts))
        places |= {id: place for id, place in _places_of(steps, number).items() if id not in places}
    return found


def _places_of(steps: Sequence[Step], branch: int) -> dict[str, tuple[int, int]]:
    numbered = enumerate(steps, 1)
    return {turn.id: (branch, number) for number, step in numbered for turn in (step.turn, step.result) if turn}


def _subagents(main: Sequence[Step], below: list[RelatedSession]) -> list[Subagent]:
    """Each subagent at the latest call of a subagent that began before it and has none yet."""
    calls = {number: step.turn.ts for number, step in enumerate(main, 1) if step.is_subagent}
    found = []
    for one in below:
        began = one.created_at
        fitting = (number for number, ts in calls.items() if ts is None or began is None or ts <= began)
        at = next(fitting, None)  # both are in order, so the first free call is the one
        calls.pop(at or 0, None)
        found.append(Subagent(one.id, one.title, began, at))
    return found


# How to go on with a session in the program it comes from

_PROGRAMS: dict[str, tuple[str, re.Pattern[str], str]] = {
    "claude-code": ("Claude Code", re.compile(UUID), "claude --resume {id}"),
    "codex": ("Codex", re.compile(UUID), "codex resume {id}"),
    "gemini-cli": ("Gemini CLI", re.compile(UUID), "gemini --resume {id}"),
    "opencode": ("opencode", re.compile(r"ses_[0-9A-Za-z]{10,40}"), "opencode -s {id}"),
    "copilot": ("GitHub Copilot CLI", re.compile(UUID), "copilot --resume={id}"),
    "chatgpt": ("ChatGPT", re.compile(UUID), "https://chatgpt.com/c/{id}"),
    "canonical-db": ("ChatGPT", re.compile(UUID), "https://chatgpt.com/c/{id}"),
    "claude-ai": ("Claude", re.compile(UUID), "https://claude.ai/chat/{id}"),
}
"""By importer or agent: the name of the program, the form of its ids, and the command or address."""


def resume_of(program: str, id: str) -> Resume | None:
    """How to resume a session; None if the program cannot, or if its id has another form (as subagents have)."""
    program = program_of(program)
    known = _PROGRAMS.get(program)
    if program == "codex":
        id = id.partition("_")[0]  # a session may go on in a second file, whose id is longer
    if known is None or not known[1].fullmatch(id):
        return None
    name, _, form = known
    text = form.format(id=id)
    return Resume(name, url=text) if text.startswith("https://") else Resume(name, command=text)
