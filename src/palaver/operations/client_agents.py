"""Which agent a client program is: one function for hooks, MCP, the recorder and all other doors.

An agent belongs to an owner, works in a program and on a project. It is called by both: `claude-code-exporter`,
"Claude Code in exporter". A second client at work there at the same time is another instance,
`claude-code-exporter-2`. With the token of an agent, every program is that agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from palaver.model.people import Agent, Caller, Client, title_of
from palaver.model.projects import project_name
from palaver.operations import identity
from palaver.store.bus import agents
from palaver.store.bus.agents import NewAgent
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sessions
from palaver.store.sessions.outlines import SUBAGENT


def agent_for(change: Change, caller: Caller, client: Client, session_id: str, *, is_at_work: bool) -> Agent:
    """The agent of a session of this client. It is registered if it is new.

    `is_at_work`: the client runs now, so it needs an agent that no other client uses. Otherwise the session was only
    recorded, and is the project's first agent's.
    """
    found = find_agent(change, caller, client, session_id, is_at_work=is_at_work)
    if found:
        return found
    new = NewAgent(name_of(client), slug_of(client), ide=client.title, is_online=is_at_work, owner=caller.owner)
    return agents.register(change, replace(new, client=client.program, project=client.project))[0]


def find_agent(
    read: Reader,
    caller: Caller,
    client: Client,
    session_id: str | None = None,
    *,
    is_at_work: bool,
    fits: Callable[[Agent], bool] = lambda agent: True,
) -> Agent | None:
    """The agent of this client, if it has one. `fits` says whether an agent without a session can be it."""
    if caller.agent_id:
        return agents.must_exist(read, caller.agent_id)
    if session_id and (known := _agent_of_session(read, caller.owner, client.program, session_id)):
        return known
    if is_at_work:
        since = identity.active_since()
        candidates = agents.free_of_client(read, caller.owner, client.program, client.project, since)
    else:
        candidates = agents.of_client(read, caller.owner, client.program, client.project)
    return next(filter(fits, candidates), None)


def _agent_of_session(read: Reader, owner: str, program: str, session_id: str) -> Agent | None:
    """The agent that a session has already: the one its hooks reported, else the one it is recorded for. A subagent has
    the agent of its main session."""
    session_id = session_id.partition(SUBAGENT)[0] or session_id
    hook = agents.hook_connection(read, session_id)
    reported = agents.find(read, hook[1]) if hook else None
    if reported and (reported.owner, reported.client) == (owner, program):
        return reported
    family = {agent.id: agent for agent in agents.of_client(read, owner, program)}
    recorded = sessions.recorded_by(read, session_id, list(family))
    return family[recorded] if recorded else None


def slug_of(client: Client) -> str:
    """The short name of a client's first agent: program and project."""
    return agents.slug_of(f"{client.program}-{project_name(client.project)}" if client.project else client.program)


def name_of(client: Client) -> str:
    title = client.title or title_of(client.program, None)
    return f"{title} in {project_name(client.project)}" if client.project else title
