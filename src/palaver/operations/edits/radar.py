"""The radar: who edits which file now. The hooks of coding agents report each edit before it is made.

If somebody else has edited the file lately, or claims it, the edit is stopped once and the agent is told. The same edit
goes through when it is made again. Only a project can say that claims are refused for good.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from palaver.model.claims import Claim
from palaver.model.file_places import FilePlace, place_of
from palaver.model.people import Caller, Session
from palaver.model.project_file import OnClaim, read_project_file
from palaver.model.requests import Line, NotBlank, Project, Request
from palaver.model.times import now
from palaver.operations.catchup.briefing import age
from palaver.operations.catchup.hooks import HookReport, agent_of_session, caller_of
from palaver.operations.edits.claims import claims_on
from palaver.operations.edits.editing import LATELY, is_committed, where, who
from palaver.operations.operation import Route, operation
from palaver.operations.sessions.private import privacy_rules
from palaver.settings import Settings
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import file_edits, sharing
from palaver.store.sessions.file_edits import RecentEdit, session_key
from palaver.store.workspaces import Workspace
from palaver.text import fence, notable

AT_ONCE = timedelta(seconds=1)
"""Another edit so soon after a stopped one is of the same turn: the agent has not read why yet."""
MOST_FILES = 50
MOST_TOLD = 4

STOPPED = (
    "palaver stopped this edit once, so that nobody overwrites anybody. Nothing was changed. Read the file again, and "
    "make the edit again if it still fits: then it goes through. {ask}"
)
REFUSED = "palaver refused this edit: somebody else holds the file. Nothing was changed. Work on other files. {ask}"
ASK = 'Ask with msg_post: "@{name} …".'


class ReportedFile(Request):
    path: Annotated[Line, NotBlank]
    """The file, as the client names it; relative to `worktree` if that is given."""
    lines: Annotated[Line, Field(max_length=60)] = ""
    """The lines that the edit changes, such as 12-20."""
    project: Project | None = None
    """The project of the file. A hook tells it, and what follows, to a server on another machine."""
    worktree: Line = ""
    """Folder of the worktree."""
    branch: Line = ""
    """Branch of the worktree."""
    ignores_case: bool = False
    """Whether other letters in the path mean the same file."""
    is_committed: bool = False
    """Whether the file is as it was committed."""
    claims: OnClaim = "warn"
    """What the project says about claims of others."""


class EditReport(HookReport):
    edit: Annotated[Line, NotBlank]
    """A checksum of the edit."""
    files: Annotated[list[ReportedFile], Field(max_length=MOST_FILES)]
    """The files that the edit changes."""
    machine: Annotated[Line, Field(max_length=255)] | None = None
    """The machine of the files, if it is another one."""


@dataclass(frozen=True, slots=True)
class EditAnswer:
    """What the client shall do: let the edit go through, stop it this time, or refuse it. `text` is for the model."""

    decision: Literal["go", "stop", "refuse"]
    text: str


class Reported(NamedTuple):
    """A file about to be edited."""

    place: FilePlace
    machine: str
    lines: str
    claims: OnClaim
    is_committed: bool
    """Whether it is as it was committed. Then no edit of this copy needs to be told."""
    committed: frozenset[RecentEdit] = frozenset()
    """Edits of others that need not be told."""


class Concern(NamedTuple):
    """Why an edit should not simply go on."""

    about: str
    """The same text for the same reason. A session is told each reason once, or once in `again`."""
    text: str
    ask: str
    """How to ask the other one."""
    again: timedelta | None = None
    is_refused: bool = False


@operation(Route("POST", "/api/hooks/edit"))
async def report_edit(workspace: Workspace, caller: Caller, request: EditReport) -> EditAnswer:
    """Report an edit that a coding agent is about to make. Returns whether it may go on, and what the agent should know
    about others who work on the same files."""
    caller = caller_of(caller, request)
    is_here = workspace.settings.is_loopback and not request.machine
    files = await asyncio.to_thread(_files_of, workspace.settings, request, is_here)
    if not files:
        return EditAnswer("go", "")
    if is_here:
        known = await workspace.read(lambda read: [_edits_of(read, file) for file in files])
        files = await asyncio.to_thread(_without_committed, workspace.settings, files, known)
    return await workspace.change(lambda change: _Report(change, caller, request, files).decided())


def _files_of(settings: Settings, request: EditReport, is_here: bool) -> list[Reported]:
    """The files with their places, each once. Those of private projects are not reported."""
    folder = request.folder or request.project or ""
    rules = privacy_rules(settings)
    if rules.why(folder):
        return []
    found = {}
    for file in request.files:
        machine, rule = socket.gethostname(), file.claims
        place = place_of(file.path, folder) if is_here else None
        if place:
            rule = read_project_file(place.worktree).claims
        elif file.project and file.worktree and is_inside(file.path):
            machine = request.machine or machine
            place = FilePlace(file.project, file.worktree, file.branch, file.path, file.ignores_case)
        if place and not rules.why(str(place.file.parent)) and not rules.why(place.project):
            found[place] = Reported(place, machine, file.lines, rule, file.is_committed)
    return [found[place] for place in sorted(found, key=lambda one: (one.project, one.path))]


def is_inside(path: str) -> bool:
    """Whether a path that a hook tells stays in its worktree."""
    return not path.startswith("/") and ".." not in path.split("/")


def _edits_of(read: Reader, file: Reported) -> list[RecentEdit]:
    return file_edits.of_file(read, file.place, now() - LATELY)


def _without_committed(settings: Settings, files: list[Reported], known: list[list[RecentEdit]]) -> list[Reported]:
    return [
        file._replace(committed=frozenset(edit for edit in edits if is_committed(settings, edit)))
        for file, edits in zip(files, known, strict=True)
    ]


class _Report:
    """One report, within one change: of two edits at once, the second one sees the first."""

    def __init__(self, change: Change, caller: Caller, request: EditReport, files: list[Reported]) -> None:
        self._change, self._files, self._edit = change, files, request.edit
        for file in files:
            file_edits.lock_file(change, file.place.project, file.place.path)
        self._agent, connection = agent_of_session(change, caller, request, "edit")
        self._task, self._session = connection.task, session_key(request.session)
        self._caller = replace(caller, session=Session(agent_id=self._agent.id))
        self._reach = sharing.reach_of(change, self._caller)

    def decided(self) -> EditAnswer:
        concerns = [one for file in self._files if file.claims != "off" for one in self._concerns(file)]
        is_refused = any(one.is_refused for one in concerns)
        told = [one for one in concerns if one.is_refused or self._is_due(one)]
        if told:
            return EditAnswer("refuse" if is_refused else "stop", _text(told, is_refused))
        for file in self._files:
            self._note(file)
        return EditAnswer("go", "")

    def _concerns(self, file: Reported) -> Iterator[Concern]:
        for edit in _edits_of(self._change, file):
            is_other = edit.agent_id != self._agent.id and edit.session != self._session
            is_over = edit in file.committed or (file.is_committed and edit.is_in(file.place, file.machine))
            if is_other and not is_over and self._reach.includes(edit.agent_id, edit.project):
                yield self._about_edit(file, edit)
        place = file.place
        for claim in claims_on(
            self._change, self._caller, place.project, place.path, self._agent.id, ignores_case=place.ignores_case
        ):
            is_refused = file.claims == "refuse" and claim.kind == "exclusive"
            yield Concern(
                f"claim {claim.claim_id} {place.path}", _claimed(claim, place), _ask_for(claim), None, is_refused
            )

    def _about_edit(self, file: Reported, edit: RecentEdit) -> Concern:
        agent = agents.must_exist(self._change, edit.agent_id)
        is_here = edit.is_in(file.place, file.machine)
        machine = f" on the machine {edit.machine}" if edit.machine != file.machine else ""
        place = "this folder" if is_here else f"{where(edit)}{machine}"
        probably = "probably " if edit.is_probable else ""
        lines = f", {'lines' if '-' in edit.lines else 'line'} {edit.lines}" if edit.lines else ""
        task = f' Its task: "{edit.task}"' if edit.task else ""
        said = f"{who(agent)} {probably}edited it {age(edit.last_at)} in {place}{lines}, not committed."
        if not is_here:
            said += " A merge conflict is likely."
        again = LATELY if is_here else None
        about = f"{edit.session} {edit.machine}:{edit.worktree} {edit.path}"
        return Concern(about, f"- {file.place.path}: {said}{task}", ASK.format(name=agent.slug), again)

    def _is_due(self, concern: Concern) -> bool:
        """Whether the session must be told, and not only a moment ago for the same edit. It then counts as told."""
        before = file_edits.told(self._change, self._session, concern.about)
        if before and concern.again and before.told_at < now() - concern.again:
            before = None
        stopped = before.edits.split("\n") if before else []
        if before and (self._edit in stopped or before.told_at < now() - AT_ONCE):
            return False
        file_edits.set_told(self._change, self._session, concern.about, "\n".join([*stopped, self._edit]))
        return True

    def _note(self, file: Reported) -> None:
        place = file.place
        edit = RecentEdit(
            self._session, self._agent.id, file.machine, place.worktree, place.branch, place.project, place.path,
            file.lines, self._task, False, now(), now(),
        )  # fmt: skip
        file_edits.put(self._change, edit, LATELY)


def _text(told: list[Concern], is_refused: bool) -> str:
    ask = dict.fromkeys(one.ask for one in told[:MOST_TOLD])
    own = (REFUSED if is_refused else STOPPED).format(ask=" ".join(ask))
    more = [f"- and {len(told) - MOST_TOLD} more"] if len(told) > MOST_TOLD else []
    return f"{own}\n{fence.fenced(chr(10).join([*(one.text for one in told[:MOST_TOLD]), *more]))}"


def _claimed(claim: Claim, place: FilePlace) -> str:
    why = f": {notable.one_line(claim.because, 120)}" if claim.because else ""
    held = f"{claim.holder} {'holds' if claim.kind == 'exclusive' else 'shares'} {claim.pattern}"
    return f"- {place.path}: {held} until {claim.expires_at:%H:%M} UTC{why} (claim {claim.claim_id})"


def _ask_for(claim: Claim) -> str:
    return ASK.format(name=claim.holder) if claim.agent_id else f"Ask {claim.holder}."
