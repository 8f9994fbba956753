"""Sharing: whose sessions an agent may read. The level is a setting of the workspace, so every server on it obeys."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple, cast

import orjson

from palaver.model import visibility
from palaver.model.people import Caller
from palaver.model.projects import EVERY_PROJECT, is_called, same_project
from palaver.model.visibility import SessionReach, Sharing
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader


def level_of(read: Reader) -> Sharing:
    """The level of this workspace: its own, else the setting of the server."""
    row = read.one("workspace_setting", name="sharing")
    return cast(Sharing, row["value"] if row else read.settings.sharing)


def set_level(change: Change, level: Sharing) -> None:
    change.run("set_workspace_setting", name="sharing", value=level)


def is_carried_over(read: Reader) -> bool:
    """Whether the sessions of 0.2 were moved to the agents of their projects."""
    return read.one("workspace_setting", name="carried_over") is not None


def set_carried_over(change: Change) -> None:
    change.run("set_workspace_setting", name="carried_over", value="yes")


def reach_of(read: Reader, caller: Caller) -> SessionReach:
    """Which sessions the caller may read."""
    agent = agents.find(read, caller.acting_agent) if caller.acting_agent else None
    if visibility.sees_everything(caller):
        return visibility.session_reach(caller, agent, "person", {})
    owned = {row["id"]: row["client"] for row in read.all("agents_of_owner", owner=visibility.owner_of(caller, agent))}
    return visibility.session_reach(caller, agent, level_of(read), owned)


class SessionGroup(NamedTuple):
    """The sessions of one agent in one project."""

    agent_id: str
    project: str | None
    sessions: int


def groups_of(read: Reader) -> list[SessionGroup]:
    return [SessionGroup(**row) for row in read.all("session_groups")]


def readable_groups(
    read: Reader, reach: SessionReach, agent_ids: Container[str] | None = None, project: str | None = None
) -> str | None:
    """The groups that a caller may read, of these agents and in one project if given, for a statement. None: all."""
    project = None if project == EVERY_PROJECT else project
    if reach.is_everything and agent_ids is None and project is None:
        return None
    return keys_of(
        one
        for one in groups_of(read)
        if reach.includes(one.agent_id, one.project)
        and (agent_ids is None or one.agent_id in agent_ids)
        and (project is None or same_project(one.project, project) or is_called(one.project or "", project))
    )


def keys_of(groups: Iterable[SessionGroup]) -> str:
    return orjson.dumps([f"{one.agent_id}/{one.project or ''}" for one in groups]).decode()
