"""Carry over what palaver 0.2 filed by path and by program: sessions go to the agents of their projects.

0.2 recorded all sessions of a program for one agent, `claude-code`, and named projects by their folders. Moving them
can be stopped at any time and goes on at the next start. It is done once. Folders that became repositories are looked
for at each start.
"""

from __future__ import annotations

import asyncio
import logging
import os
from functools import partial

from palaver.model.people import PROGRAM_TITLES, Caller, Client, program_of, title_of
from palaver.model.projects import project_of, same_project
from palaver.model.sessions import Owner
from palaver.operations.identity import agent_for
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader
from palaver.store.library import archive, documents
from palaver.store.sessions import sessions, sharing
from palaver.store.sessions.sessions import FiledSession
from palaver.store.workspaces import Workspace

RECORDED_NAMES = frozenset({*PROGRAM_TITLES, "gemini"})
"""The agents that 0.2 recorded for."""
MACHINE_USER = Caller(kind="human", name="human")

log = logging.getLogger("palaver")


async def carry_over(here: Workspace) -> int:
    """Move sessions to the agents of their projects. Returns how many were moved."""
    if not here.settings.sessions_index:
        return 0
    async with here.carrying_over:
        known = await here.read(_projects) if here.settings.is_loopback else set()
        renamed = await asyncio.to_thread(_renamed, known)
        is_first = not await here.read(sharing.is_carried_over)
        waiting = await here.read(partial(_waiting, renamed=renamed, is_first=is_first))
        if waiting or renamed:
            await here.change(partial(_correct_agents, renamed=renamed))
        for number, filed in enumerate(waiting, 1):
            await _move(here, filed, renamed.get(filed.project, filed.project))
            if number % 100 == 0:
                log.warning("%d of %d sessions were moved to the agents of their projects", number, len(waiting))
        for old, new in renamed.items():
            while await here.change(partial(archive.rename_project, old=old, new=new, limit=10)):
                pass
        if is_first:
            await here.change(sharing.set_carried_over)
    if waiting:
        log.warning("sessions of earlier versions that were moved to the agents of their projects: %d", len(waiting))
    return len(waiting)


def _projects(read: Reader) -> set[str]:
    found = {row for source in ("sessions", "archive") for row in documents.projects(read, source)}
    return found | {agent.project for agent in agents.everyone(read) if agent.project}


def _renamed(projects: set[str]) -> dict[str, str]:
    """The projects that have another name now than their folder."""
    return {old: new for old in projects if os.path.isabs(old) and (new := project_of(old)) != old}


def _waiting(read: Reader, renamed: dict[str, str], *, is_first: bool) -> list[FiledSession]:
    """The sessions with the old name of a project, and those of 0.2 that are not with the agent of their project."""
    found = [one for one in sessions.filed(read) if one.project in renamed] if renamed else []
    seen = {(one.agent_id, one.session_id) for one in found}
    for agent in agents.everyone(read) if is_first else ():
        if agent.slug in RECORDED_NAMES and not agent.owner:
            old = (one for one in sessions.filed(read, agent.id) if one.project and not one.program)
            elsewhere = (one for one in old if not same_project(one.project, agent.project))
            found += [one for one in elsewhere if (one.agent_id, one.session_id) not in seen]
    return found


def _correct_agents(change: Change, renamed: dict[str, str]) -> None:
    """Agents get the new names of their projects, and those that were only recorded get their program."""
    for agent in agents.everyone(change):
        is_recorded = agent.slug in RECORDED_NAMES and not agent.owner
        program = agent.client or (program_of(agent.slug) if is_recorded else "")
        project = renamed.get(agent.project or "", agent.project or "")
        if (program, project) != (agent.client or "", agent.project or ""):
            agents.set_client(change, agent, program, project)


async def _move(here: Workspace, filed: FiledSession, project: str) -> None:
    def decide(change: Change) -> tuple[Owner, Owner] | None:
        agent = agents.find(change, filed.agent_id)
        if agent is None:
            return None
        if agent.slug not in RECORDED_NAMES or agent.owner or filed.program or not agent.client:
            return Owner.of(agent), Owner.of(agent)
        client = Client(agent.client, title_of(agent.client, None), project)
        return Owner.of(agent), Owner.of(agent_for(change, MACHINE_USER, client, "", is_at_work=False))

    decided = await here.change(decide)
    if decided is None:
        return
    owner, target = decided
    size = await asyncio.to_thread(here.transcripts.move, owner, target, filed.session_id, project)
    file = here.transcripts.path(target, filed.session_id).name  # it depends on the session alone
    refile = partial(sessions.refile, owner=owner, target=target, session_id=filed.session_id, project=project)
    await here.change(partial(refile, file=file, size=size))
