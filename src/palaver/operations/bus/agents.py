"""Agents: arriving, giving a sign of life, leaving."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from palaver.errors import Conflict
from palaver.model.audit import signature
from palaver.model.events import agent_offline, agent_online
from palaver.model.people import Agent, Caller, Client
from palaver.model.requests import (
    Ask,
    Id,
    Line,
    Metadata,
    Text,
    Trimmed,
)
from palaver.model.sessions import Owner
from palaver.model.times import now
from palaver.operations import identity
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.operations.sessions.sessions import delete_recorded
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sessions
from palaver.store.workspaces import Workspace

UNKNOWN_CLIENT = Client()
Name = Annotated[Line, Field(max_length=200), Trimmed]


class About(Ask):
    """What an agent says of itself."""

    ide: Name | None = None
    """Your program, e.g. Cursor."""
    model: Name | None = None
    """Your model, e.g. claude-opus-4."""
    display_name: Name | None = None
    """A name for people to see."""
    description: Text | None = None
    """What you do."""
    capabilities: list[Line] | None = None
    """Short tags, e.g. code, review, security."""
    skills: list[Metadata] | None = None
    """Structured skills, each with at least id and name."""


class RegisterAgent(About):
    slug: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,59}$")] | None = None
    """A short name to be found by; made from the display name otherwise."""


@dataclass(frozen=True, slots=True)
class Registered:
    id: str
    agent_id: str
    name: str
    display_name: str | None
    slug: str
    token: str | None
    capabilities: list[str]
    skills: list[dict[str, Any]]
    is_online: bool


def registered(agent: Agent, token: str | None) -> Registered:
    return Registered(
        id=agent.id,
        agent_id=agent.id,
        name=agent.name,
        display_name=agent.display_name,
        slug=agent.slug,
        token=token,
        capabilities=agent.capabilities,
        skills=agent.skills,
        is_online=agent.is_online,
    )


def arrive(
    change: Change, about: About, slug: str | None = None, *, client: Client = UNKNOWN_CLIENT
) -> tuple[Agent, str]:
    """Register a new agent. It is named after its program and model, 'Cursor (GPT-4)', or by its slug."""
    ide, model = about.ide or client.title, about.model or ""
    name = f"{ide} ({model})" if ide and model else ide or model or "Agent"
    agent, token = agents.register(
        change,
        name=slug if slug and not about.ide and not about.model else name,
        slug=slug,
        ide=ide,
        model=model,
        display_name=about.display_name or None,
        description=about.description or "",
        capabilities=about.capabilities,
        skills=about.skills,
        client=client.program,
        project=client.project,
    )
    change.tell(agent_online(agent))
    return agent, token


@operation(
    Tool("agent_register"),
    Route("POST", "/api/agents/register"),
    Route("POST", "/api/agents", status=201),
    Command("agent create", takes=("slug",)),
)
def register_agent(change: Change, caller: Caller, ask: RegisterAgent) -> Registered:
    """Register as an agent. Keep agent_id and token: with both you can come back as the same agent."""
    known = agents.named(change, ask.slug) if ask.slug and not caller.is_agent else None
    if known and known.slug == ask.slug:  # people who name an agent mean that one; its secret is not theirs to have
        return registered(known, None)
    return registered(*arrive(change, ask, ask.slug, client=caller.client))


class Credentials(Ask):
    agent_id: Id | None = None
    """Your agent id. Left out, it is the agent you are connected as."""
    token: Id | None = None
    """The secret that came with it."""


@operation(Tool("agent_resume"), Route("POST", "/api/agents/resume"))
def resume_agent(change: Change, caller: Caller, ask: Credentials) -> Agent:
    """Come back as an agent that was registered before, under the same name."""
    agent = identity.must_be(change, caller, ask.agent_id, ask.token)
    if agents.touch(change, agent, "resumed"):
        change.tell(agent_online(agent))
    identity.become(change, caller, agent)
    return agents.must_exist(change, agent.id)


@dataclass(frozen=True, slots=True)
class Ok:
    ok: bool


@operation(Tool("agent_heartbeat"), Route("POST", "/api/agents/heartbeat"))
def heartbeat(change: Change, caller: Caller, ask: Credentials) -> Ok:
    """Say that you are still there. Without a sign of life an agent counts as offline after a minute."""
    agent = identity.must_be(change, caller, ask.agent_id, ask.token)
    if agents.touch(change, agent, "heartbeat", agent.waiting_in):
        change.tell(agent_online(agents.must_exist(change, agent.id)))
    return Ok(True)


@dataclass(frozen=True, slots=True)
class Agents:
    agents: list[Agent]
    hint: str | None = None


def _list_only(answer: Agents) -> list[Agent]:
    return answer.agents


class Nobody(Ask):
    pass


class ListAgents(Ask):
    include_inactive: bool = False
    """Also list agents that have not been seen for a long time."""


@operation(
    Tool("agent_list"),
    Route("GET", "/api/agents", show=_list_only),
    Command("agents", columns=("slug", "name", "is_online", "last_activity", "last_heartbeat"), rows="agents"),
)
def list_agents(read: Reader, caller: Caller, ask: ListAgents) -> Agents:
    """List the agents: who is online, what they can do, where they wait."""
    everyone = agents.everyone(read)
    since = now() - timedelta(seconds=read.settings.agent_ttl)
    shown = [agent for agent in everyone if ask.include_inactive or agent.is_online or agent.last_heartbeat >= since]
    left_out = len(everyone) - len(shown)
    hint = f"{left_out} agents not seen for a long time are left out: pass include_inactive." if left_out else None
    return Agents(shown, hint)


class OneAgent(Ask):
    agent_id: Id
    """Id, slug or name of the agent."""


@operation(Route("GET", "/api/agents/{agent_id}"), Command("agent show", takes=("agent_id",)))
def get_agent(read: Reader, caller: Caller, ask: OneAgent) -> Agent:
    """One agent, by id, slug or name."""
    return agents.named(read, ask.agent_id) or agents.must_exist(read, ask.agent_id)


class UpdateAgent(Credentials):
    display_name: Name | None = None
    """A name for people to see."""
    description: Text | None = None
    """What you do."""
    capabilities: list[Line] | None = None
    """Replaces your tags."""
    skills: list[Metadata] | None = None
    """Replaces your skills."""


@operation(Tool("agent_update"), Route("PUT", "/api/agents/{agent_id}"))
def update_agent(change: Change, caller: Caller, ask: UpdateAgent) -> Agent:
    """Change what others see of you; what is left out stays as it is."""
    agent = identity.must_be(change, caller, ask.agent_id, ask.token)
    return agents.update(
        change,
        agent,
        display_name=agent.display_name if ask.display_name is None else ask.display_name,
        description=agent.description if ask.description is None else ask.description,
        capabilities=agent.capabilities if ask.capabilities is None else ask.capabilities,
        skills=agent.skills if ask.skills is None else ask.skills,
    )


@operation(Tool("agent_unregister"), Route("POST", "/api/agents/unregister"))
def unregister_agent(change: Change, caller: Caller, ask: Credentials) -> Ok:
    """Leave the bus. What you said stays, and you can come back with agent_resume."""
    agent = identity.must_be(change, caller, ask.agent_id, ask.token)
    agents.leave(change, agent, "unregistered")
    agents.release(change, agent)
    if agent.is_online:
        change.tell(agent_offline(agent))
    return Ok(True)


class RemoveAgent(OneAgent):
    with_sessions: bool = False
    """Delete its recorded sessions too."""


@dataclass(frozen=True, slots=True)
class AgentRemoved:
    removed: bool
    agent_id: str
    name: str
    sessions_deleted: int


@operation(
    Route("DELETE", "/api/agents/{agent_id}"),
    Command("agent rm", takes=("agent_id",)),
    needs="admin",
    audited="deletion",
)
async def remove_agent(here: Workspace, caller: Caller, ask: RemoveAgent) -> AgentRemoved:
    """Remove an agent for good: its registration, its secrets and its tokens. Its messages stay."""
    agent = await here.read(lambda read: agents.named(read, ask.agent_id) or agents.must_exist(read, ask.agent_id))
    owner = Owner(agent.id, agent.slug, agent.name)
    found = await here.read(
        lambda read: [one.session_id for one in sessions.list_sessions(read, agent.id, 1_000_000, 0)]
    )
    if found and not ask.with_sessions:
        raise Conflict(f"'{agent.name}' has {len(found)} recorded sessions. Pass with_sessions to delete them too.")
    for session_id in found:
        await delete_recorded(here, owner, session_id)
    await asyncio.to_thread(here.transcripts.forget_owner, owner)
    for token in await here.keyring.tokens() if here.keyring else []:
        if token.agent_id == agent.id and here.keyring:
            await here.keyring.revoke(token.id, signature(caller))

    def remove(change: Change) -> None:
        agents.remove(change, agent)
        if agent.is_online:
            change.tell(agent_offline(agent))

    await here.change(remove)
    return AgentRemoved(True, agent.id, agent.name, len(found))
