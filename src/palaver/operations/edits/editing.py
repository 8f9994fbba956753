"""Who edits which files now, as the radar knows it: for briefings, the console and programs."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from datetime import datetime, timedelta

from palaver import child_process
from palaver.model.answers import OmitsDefaults, answer_of
from palaver.model.people import Agent, Caller, title_of
from palaver.model.projects import EVERY_PROJECT, is_called, same_project
from palaver.model.requests import Project, Request
from palaver.model.times import now
from palaver.operations.operation import Route, operation
from palaver.store.bus import agents
from palaver.store.engines.database import Reader
from palaver.store.sessions import file_edits, sharing
from palaver.store.sessions.file_edits import RecentEdit
from palaver.store.workspaces import Workspace

LATELY = timedelta(minutes=15)
"""So long others are told of an edit that is not committed."""
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
    open_ones = await asyncio.to_thread(lambda: [one for one in found if not is_committed(one[1])])
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
    return [in_words(agent, edit) for agent, edit in others[:MOST_IN_WORDS] if not is_committed(edit)]


def is_committed(edit: RecentEdit) -> bool:
    """Whether the file is as it was committed, or is not there. Unknown on another machine, and without git."""
    return edit.machine == socket.gethostname() and child_process.is_committed(edit.worktree, edit.path)


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
