"""What the operations on sessions share: whose sessions a caller may use, and whether they are indexed."""

from __future__ import annotations

import asyncio
from functools import partial

from palaver.errors import NotFound, Unavailable
from palaver.model import visibility
from palaver.model.people import Caller
from palaver.model.sessions import Owner
from palaver.operations.operation import Route
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace

NOT_AVAILABLE = "Conversation search is not available"

# On these routes an invalid field is a 400, and errors have an `error` field.
v1_route = partial(Route, invalid=400, complaint=("error", "detail"))


def owner_of(read: Reader, caller: Caller, name: str) -> Owner:
    """The agent with this id or slug. An agent with a token can only name itself."""
    agent = agents.named(read, name)
    visibility.must_reach_sessions_of(caller, agent.id if agent else None)
    if agent is None:
        raise NotFound("agent", name, "List agents to see the known ones.")
    return Owner(agent.id, agent.slug, agent.name)


def owner_or_new(change: Change, caller: Caller, name: str) -> Owner:
    """The agent with this id or slug. An unknown one is registered: it is new with its first recorded turn."""
    if agents.named(change, name) is None and not visibility.is_bound(caller):
        agents.register(change, name=name, slug=agents.slug_of(name), is_online=False)
    return owner_of(change, caller, name)


async def recording_owner(workspace: Workspace, caller: Caller, name: str) -> Owner:
    """The agent to record for. If the database does not answer, the transcripts know the agents: recording goes on."""
    try:
        try:
            return await workspace.read(lambda read: owner_of(read, caller, name))
        except NotFound:
            return await workspace.change(lambda change: owner_or_new(change, caller, name))
    except Unavailable:
        owner = await asyncio.to_thread(workspace.transcripts.owner, name)
        if owner is None:
            raise
        visibility.must_reach_sessions_of(caller, owner.id)
        return owner


def must_be_indexed(workspace: Reader) -> None:
    if not workspace.settings.sessions_index:
        raise Unavailable(f"{NOT_AVAILABLE}: the index is off (PALAVER_SESSIONS_INDEX).")
