"""Who edits which files now, as the radar knows it: for briefings, the console and programs."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from palaver import child_process
from palaver.model.answers import OmitsDefaults, answer_of
from palaver.model.file_places import FilePlace, place_of
from palaver.model.people import Agent, Caller, title_of
from palaver.model.privacy import PrivacyRules
from palaver.model.projects import EVERY_PROJECT, is_called, same_project
from palaver.model.requests import Project, Request
from palaver.model.sessions import Owner, Turn
from palaver.model.times import now
from palaver.operations.operation import Route, operation
from palaver.operations.sessions.private import privacy_rules
from palaver.operations.sessions.steps import CALL, call_text
from palaver.operations.sessions.steps import file_edits as changed_files
from palaver.settings import Settings
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import file_edits, sharing
from palaver.store.sessions.file_edits import RecentEdit
from palaver.store.workspaces import Workspace

LATELY = timedelta(minutes=15)
"""So long others are told of an edit that is not committed."""
CLOCK_STEP = 2.0
"""Some disks know the time of a change only to two seconds."""
MOST_LISTED = 50
MOST_IN_WORDS = 5


class ListEdits(Request):
    project: Project | None = None
    """Folder or name of the project. Default: all of them."""


@dataclass(frozen=True)
class EditedNow(OmitsDefaults):
    """A file that an agent edits. `text` says it in words; `lines` are those of the last edit. `is_probable`: it was
    read in the session's file, no hook has told it."""

    omit_if_default = ("branch", "lines", "task", "is_probable")

    agent_id: str
    agent: str
    project: str
    path: str
    machine: str
    worktree: str
    first_at: datetime
    last_at: datetime
    text: str
    branch: str = ""
    lines: str = ""
    task: str = ""
    is_probable: bool = False


@dataclass(frozen=True, slots=True)
class EditsNow:
    edits: list[EditedNow]


@operation(Route("GET", "/api/edits"))
async def list_edits(workspace: Workspace, caller: Caller, request: ListEdits) -> EditsNow:
    """List which files agents edit now: the edits of the last 15 minutes that are not committed."""
    found = await workspace.read(lambda read: edits_of(read, caller, request.project))
    open_ones = await asyncio.to_thread(lambda: [one for one in found if not is_committed(workspace.settings, one[1])])
    return EditsNow([
        answer_of(EditedNow, edit, agent=agent.slug, text=in_words(agent, edit)) for agent, edit in open_ones
    ])  # fmt: skip


def edits_of(read: Reader, caller: Caller, project: str | None) -> list[tuple[Agent, RecentEdit]]:
    """The latest edits that the caller may see, with their agents; of one project if it is given."""
    reach = sharing.reach_of(read, caller)
    found = []
    for edit in file_edits.lately(read, now() - LATELY):
        is_wanted = (
            project in (None, EVERY_PROJECT)
            or same_project(edit.project, project)
            or is_called(edit.project, project or "")
        )
        agent = agents.find(read, edit.agent_id) if is_wanted and reach.includes(edit.agent_id, edit.project) else None
        if agent:
            found.append((agent, edit))
    return found[:MOST_LISTED]


def lines_for(read: Reader, caller: Caller, project: str) -> list[str]:
    """What other agents edit in a project now, in words."""
    others = [one for one in edits_of(read, caller, project) if one[0].id != caller.acting_agent]
    return [in_words(agent, edit) for agent, edit in others[:MOST_IN_WORDS] if not is_committed(read.settings, edit)]


def is_committed(settings: Settings, edit: RecentEdit) -> bool:
    """Whether nothing is left of an edit: the file was not written since, or is as it was committed, or is not there.
    Unknown on another machine, and without git. A server that others can reach looks at no files."""
    if not settings.is_loopback or edit.machine != socket.gethostname():
        return False
    try:
        is_written = os.path.getmtime(os.path.join(edit.worktree, edit.path)) > edit.first_at.timestamp() - CLOCK_STEP
    except OSError:
        is_written = True
    return not is_written or child_process.is_committed(edit.worktree, edit.path, edit.last_at)


# Programs without hooks


async def note_recorded(workspace: Workspace, owner: Owner, session_id: str, turns: list[Turn]) -> None:
    """Note the edits in new turns of a session whose program has no hooks for edits: they were made a moment ago."""
    late = [turn for turn in turns if turn.role == "tool" and turn.ts > now() - LATELY]
    failed = {turn.tool.call for turn in late if turn.tool and turn.tool.is_error}
    calls = [turn for turn in late if CALL.match(turn.content) and not (turn.tool and turn.tool.call in failed)]
    if not (calls and workspace.settings.is_loopback):
        return
    rules = privacy_rules(workspace.settings)
    places = await asyncio.to_thread(lambda: [(turn.ts, place) for turn in calls for place in _places_in(turn, rules)])

    def note(change: Change) -> None:
        if file_edits.has_hooks(change, session_id) or not agents.find(change, owner.id):
            return
        for ts, place in places:
            edit = RecentEdit(
                file_edits.session_key(session_id), owner.id, socket.gethostname(), place.worktree, place.branch,
                place.project, place.path, "", "", True, min(ts, now()), min(ts, now()),
            )  # fmt: skip
            file_edits.put(change, edit, LATELY)

    if places:
        await workspace.change(note)


def _places_in(turn: Turn, rules: PrivacyRules) -> Iterator[FilePlace]:
    folder = turn.project or ""
    for edited in changed_files(call_text(turn.content)):
        if edited.path and os.path.isabs(os.path.join(folder, edited.path)):
            place = place_of(edited.path, folder or "/")
            if place and not rules.why(str(place.file.parent)):
                yield place


def who(agent: Agent) -> str:
    """codex-work (Codex)"""
    title = title_of(agent.client, None) if agent.client else ""
    return f"{agent.slug} ({title})" if title else agent.slug


def where(edit: RecentEdit) -> str:
    """the worktree feature-x (branch feature/x)"""
    name = edit.worktree.replace("\\", "/").rpartition("/")[2]
    return f"the worktree {name}" + (f" (branch {edit.branch})" if edit.branch and edit.branch != name else "")


def in_words(agent: Agent, edit: RecentEdit) -> str:
    """codex-work (Codex) is editing src/export.py in the worktree feature-x since 10:12 UTC (for: bump the version)"""
    probably = "probably " if edit.is_probable else ""
    task = f" (for: {edit.task})" if edit.task else ""
    return f"{who(agent)} is {probably}editing {edit.path} in {where(edit)} since {edit.first_at:%H:%M} UTC{task}"
