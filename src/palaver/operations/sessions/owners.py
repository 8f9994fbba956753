"""What the operations on sessions share: whose sessions a caller may use, and whether they are indexed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from palaver.errors import Forbidden, NotFound, Unavailable, must_be_found
from palaver.model import visibility
from palaver.model.ids import age_of, new_id
from palaver.model.people import Agent, Caller, Client, program_of, title_of
from palaver.model.sessions import Owner
from palaver.operations.identity import agent_for, find_agent
from palaver.operations.operation import Route
from palaver.store.bus import agents, names
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sessions, sharing
from palaver.store.sessions.transcripts import Transcripts
from palaver.store.workspaces import Workspace

NOT_AVAILABLE = "Conversation search is not available"
KNOWN_AGENTS = "List agents to see the known ones."

# On these routes an invalid field is a 400, and errors have an `error` field.
v1_route = partial(Route, invalid=400, complaint=("error", "detail"))


def owners_called(read: Reader, caller: Caller, name: str) -> list[Owner]:
    """The agent with this id, slug or name, or all agents of a program. An agent with a token can only name itself."""
    found = agents.called(read, name)
    if caller.agent_id not in [agent.id for agent in found]:
        visibility.must_reach_sessions_of(caller, None)
    if not found:
        raise NotFound("agent", name, KNOWN_AGENTS)
    return list(map(Owner.of, found))


def owner_of(read: Reader, caller: Caller, name: str, session_id: str | None = None) -> Owner:
    """The agent with this id or slug, to record sessions; with a session, to delete it, also by the program's name.

    An agent with a token can only name itself.
    """
    agent = agents.named(read, name) if session_id is None else _agent_with(read, name, session_id)
    visibility.must_reach_sessions_of(caller, agent.id if agent else None)
    return Owner.of(must_be_found(agent, "agent", name, KNOWN_AGENTS))


def readable_owner(read: Reader, caller: Caller, name: str, session_id: str) -> Owner:
    """The agent with this id or slug, or one of the program, to read one of its sessions. A session out of reach is
    like one that is not there."""
    reach, agent = sharing.reach_of(read, caller), _agent_with(read, name, session_id)
    project = sessions.project_of(read, agent.id, session_id) if agent else None
    if not reach.includes(agent.id if agent else None, project):
        raise Forbidden("There is no such session that you may read. List sessions to see which you can read.")
    return Owner.of(must_be_found(agent, "agent", name, KNOWN_AGENTS))


def _agent_with(read: Reader, name: str, session_id: str) -> Agent | None:
    """Of the agents that are called so, the one with this session, else the first."""
    found = {agent.id: agent for agent in agents.called(read, name)}
    recorded = sessions.recorded_by(read, session_id, list(found)) if len(found) > 1 else None
    return found[recorded] if recorded else next(iter(found.values()), None)


def owner_or_new(change: Change, caller: Caller, name: str, recorded: Owner | None = None) -> Owner:
    """The agent with this id or slug. An unknown one is registered: it is new with its first recorded turn.

    `recorded`: the agent that the transcripts know under this name, from turns that came without the database.
    """
    if agents.named(change, name) is None and not visibility.is_bound(caller):
        if recorded:
            agents.restore(change, recorded)
        elif names.free(change, name, "-") == name:
            agents.register(change, agents.NewAgent(name, is_online=False))
        elif agents.named(change, name) is None:  # else another server has just registered it
            names.must_be_free(change, name, "-")
    return owner_of(change, caller, name)


async def recording_owner(
    workspace: Workspace,
    caller: Caller,
    name: str,
    program: str | None = None,
    project: str | None = None,
    session_id: str = "",
) -> Owner:
    """The agent to record for. With a program, it is its agent in the project; else the one with this name.

    If the database does not answer, recording for a name goes on with what is known of the agents.
    """
    if program:
        client = Client(program_of(program), title_of(program, None), project or "")
        known = await workspace.read(lambda read: find_agent(read, caller, client, session_id, is_at_work=False))
        if known is None:
            known = await workspace.change(
                lambda change: agent_for(change, caller, client, session_id, is_at_work=False)
            )
        return Owner.of(known)
    try:
        try:
            return await workspace.read(lambda read: owner_of(read, caller, name))
        except NotFound:
            recorded = await asyncio.to_thread(workspace.transcripts.owner, name)
            return await workspace.change(lambda change: owner_or_new(change, caller, name, recorded))
    except Unavailable:
        owner = await asyncio.to_thread(owner_without_database, workspace.transcripts, name, workspace.known_agents)
        if owner is None:
            raise
        visibility.must_reach_sessions_of(caller, owner.id)
        await asyncio.to_thread(workspace.transcripts.write_owner, owner)
        return owner


def owner_without_database(transcripts: Transcripts, name: str, known: Iterable[Agent] = ()) -> Owner | None:
    """The agent with this name: one of `known`, else one that has transcripts, else a new one.

    None if the name may belong to an agent that neither of them knows: one agent must not become two. So only a slug
    makes a new agent. If the database has an agent with this slug, it is the same one.
    """
    if agent := agents.best_named(known, name):
        return Owner.of(agent)
    slug = name.removeprefix("@")
    is_slug = agents.slug_of(slug) == slug and age_of(slug) is None
    return transcripts.owner(name) or (Owner(new_id(), slug, slug) if is_slug else None)


def must_be_indexed(read: Reader) -> None:
    if not read.settings.sessions_index:
        raise Unavailable(f"{NOT_AVAILABLE}: the index is off (PALAVER_SESSIONS_INDEX).")
