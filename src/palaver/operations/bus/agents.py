"""Agents: register, resume, heartbeat, list, update, rename, unregister, remove."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from palaver.errors import Conflict
from palaver.model import visibility
from palaver.model.admin.audit import signature
from palaver.model.answers import answer_of
from palaver.model.events import agent_offline, agent_online
from palaver.model.people import Agent, Caller, Client, program_of
from palaver.model.requests import Id, Line, Names, NotBlank, Records, Request, Text, Trimmed
from palaver.model.sessions import Owner
from palaver.model.times import now
from palaver.operations import identity
from palaver.operations.operation import Command, Route, Tool, only, operation
from palaver.operations.sessions.sessions import delete_recorded
from palaver.store.bus import agents, names
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sessions
from palaver.store.workspaces import Workspace

UNKNOWN_CLIENT = Client()
Name = Annotated[Line, Field(max_length=200), Trimmed]


class AgentDescription(Request):
    """The description an agent gives of itself."""

    ide: Name | None = None
    """Your program, e.g. Cursor."""
    model: Name | None = None
    """Your model, e.g. claude-opus-4."""
    display_name: Name | None = None
    """A name for people to see."""
    description: Text | None = None
    """What you do."""
    capabilities: Names | None = None
    """Short tags, e.g. code, review, security."""
    skills: Records | None = None
    """Structured skills, each with at least id and name."""


class RegisterAgent(AgentDescription):
    slug: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,59}$")] | None = None
    """Short unique name. Default: made from the display name."""


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


def registration_of(agent: Agent, token: str | None) -> Registered:
    return answer_of(Registered, agent, token=token)


def register_new(
    change: Change,
    about: AgentDescription,
    slug: str | None = None,
    *,
    client: Client = UNKNOWN_CLIENT,
    is_person: bool = False,
    owner: str = "",
) -> tuple[Agent, str]:
    """Register a new agent. Its name is 'Cursor (GPT-4)', from its program and model, 'Cursor in exporter' or its slug.
    A person may also give it the name of a program."""
    ide, model = about.ide or client.title, about.model or ""
    programs = None if is_person else (client.program, program_of(ide))
    if about.display_name:
        names.must_be_free(change, about.display_name, programs=programs)
    if slug:
        names.must_be_free(change, slug, "-", programs=programs)
    name = f"{ide} ({model})" if ide and model else ide or model or "Agent"
    if client.program and client.project and not about.display_name:
        slug = slug or identity.slug_of(client)
        name = name if model else identity.name_of(client)
    new = agents.NewAgent(
        slug if slug and not about.ide and not about.model else name,
        slug or "",
        about.display_name or None,
        about.description or "",
        ide,
        model,
        about.capabilities or [],
        about.skills or [],
        client=client.program,
        project=client.project,
        owner=owner,
    )
    agent, token = agents.register(change, new)
    change.tell(agent_online(agent))
    return agent, token


@operation(
    Tool("agent_register"),
    Route("POST", "/api/agents/register"),
    Route("POST", "/api/agents", status=201),
    Command("agent create", takes=("slug",)),
)
def register_agent(change: Change, caller: Caller, request: RegisterAgent) -> Registered:
    """Register as an agent. Keep the returned agent_id and token: with both you can reconnect as the same agent."""
    known = agents.named(change, request.slug) if request.slug and not caller.is_agent else None
    if known and known.slug == request.slug:  # people get the existing agent, but not its secret
        return registration_of(known, None)
    is_person = not caller.is_agent
    agent, token = register_new(
        change, request, request.slug, client=caller.client, is_person=is_person, owner=caller.owner
    )
    caller.session.registered.add(agent.id)
    return registration_of(agent, token)


class AgentCredentials(Request):
    agent_id: Id | None = None
    """Your agent id. Default: the agent you are connected as."""
    token: Id | None = None
    """The token that was returned with the id."""


@operation(Tool("agent_resume"), Route("POST", "/api/agents/resume"))
def resume_agent(change: Change, caller: Caller, request: AgentCredentials) -> Agent:
    """Reconnect as an agent that was registered before. It keeps its id and name."""
    agent = identity.prove_agent(change, caller, request.agent_id, request.token)
    if agents.touch(change, agent, "resumed"):
        change.tell(agent_online(agent))
    identity.become(change, caller, agent)
    return agents.must_exist(change, agent.id)


@dataclass(frozen=True, slots=True)
class Ok:
    ok: bool


@operation(Tool("agent_heartbeat"), Route("POST", "/api/agents/heartbeat"))
def heartbeat(change: Change, caller: Caller, request: AgentCredentials) -> Ok:
    """Report that you are still online. An agent counts as offline a minute after its last activity."""
    agent = identity.prove_agent(change, caller, request.agent_id, request.token)
    if agents.touch(change, agent, "heartbeat", agent.waiting_in):
        change.tell(agent_online(agents.must_exist(change, agent.id)))
    return Ok(True)


@dataclass(frozen=True, slots=True)
class Agents:
    agents: list[Agent]
    hint: str | None = None


class ListAgents(Request):
    include_inactive: bool = False
    """Also list agents that were not active for a long time."""


@operation(
    Tool("agent_list"),
    Route("GET", "/api/agents", show=only(Agents, "agents")),
    Command(
        "agents", columns=("slug", "name", "project", "is_online", "last_activity", "last_heartbeat"), rows="agents"
    ),
)
def list_agents(read: Reader, caller: Caller, request: ListAgents) -> Agents:
    """List the agents: who is online, what they can do, which thread they wait in."""
    everyone = agents.everyone(read)
    since = now() - timedelta(seconds=read.settings.agent_ttl)
    shown = [
        agent for agent in everyone if request.include_inactive or agent.is_online or agent.last_heartbeat >= since
    ]
    left_out = len(everyone) - len(shown)
    hint = f"{left_out} inactive agents are not listed. Pass include_inactive to list them." if left_out else None
    return Agents(shown, hint)


class OneAgent(Request):
    agent_id: Id
    """Id, slug or name of the agent."""


@operation(Route("GET", "/api/agents/{agent_id}"), Command("agent show", takes=("agent_id",)))
def get_agent(read: Reader, caller: Caller, request: OneAgent) -> Agent:
    """Get one agent by id, slug or name."""
    return agents.named(read, request.agent_id) or agents.must_exist(read, request.agent_id)


class UpdateAgent(AgentCredentials):
    name: Annotated[Name, NotBlank] | None = None
    """A new name. Your slug is made from it, and your old names still mean you."""
    display_name: Name | None = None
    """A name for people to see."""
    description: Text | None = None
    """What you do."""
    capabilities: Names | None = None
    """Replaces your tags."""
    skills: Records | None = None
    """Replaces your skills."""


@operation(Tool("agent_update"), Route("PUT", "/api/agents/{agent_id}"))
def update_agent(change: Change, caller: Caller, request: UpdateAgent) -> Agent:
    """Update your name, description, tags or skills. Fields you leave out do not change."""
    agent = identity.prove_agent(change, caller, request.agent_id, request.token)
    if request.name:
        agent = agents.rename(change, agent, request.name, agents.slug_of(request.name))
    if request.display_name not in (None, agent.display_name):
        agents.rename(change, agent, request.display_name or None)
    given = request.model_dump(include={"description", "capabilities", "skills"}, exclude_none=True)
    return agents.update(change, replace(agent, **given))


class RenameAgent(AgentCredentials):
    name: Annotated[Name, NotBlank]
    """The new name. The slug is made from it."""


@operation(
    Route("PUT", "/api/agents/{agent_id}/name"),
    Command("agent rename", takes=("agent_id", "name"), columns=("slug", "display_name")),
)
def rename_agent(change: Change, caller: Caller, request: RenameAgent) -> Agent:
    """Rename an agent: its slug and its display name. Its old names still mean it."""
    if caller.is_agent or request.token:
        agent = identity.prove_agent(change, caller, request.agent_id, request.token)
    else:
        agent = agents.named(change, request.agent_id or "") or agents.must_exist(change, request.agent_id or "")
        visibility.must_own_agent(caller, agent)
    slug = agents.slug_of(request.name)
    return agents.rename(change, agent, request.name, slug, is_person=not caller.is_agent)


@operation(Tool("agent_unregister"), Route("POST", "/api/agents/unregister"))
def unregister_agent(change: Change, caller: Caller, request: AgentCredentials) -> Ok:
    """Leave the bus. Your messages stay, and you can reconnect with agent_resume."""
    agent = identity.prove_agent(change, caller, request.agent_id, request.token)
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


@operation(Route("DELETE", "/api/agents/{agent_id}"), Command("agent rm", takes=("agent_id",)), audited="deletion")
async def remove_agent(workspace: Workspace, caller: Caller, request: RemoveAgent) -> AgentRemoved:
    """Permanently remove an agent: its registration, its secrets and its tokens. Its messages stay."""
    agent = await workspace.read(
        lambda read: agents.named(read, request.agent_id) or agents.must_exist(read, request.agent_id)
    )
    owner = Owner.of(agent)
    found = await workspace.read(lambda read: sessions.filed(read, agent.id))
    if found and not request.with_sessions:
        raise Conflict(f"'{agent.name}' has {len(found)} recorded sessions. Pass with_sessions to delete them too.")
    for one in found:
        await delete_recorded(workspace, owner, one.session_id)
    await asyncio.to_thread(workspace.transcripts.forget_owner, owner)
    if keyring := workspace.keyring:
        for token in await keyring.tokens():
            if token.agent_id == agent.id:
                await keyring.revoke(token.id, signature(caller))
        for application in await keyring.applications():
            if application.agent_id == agent.id:
                await keyring.revoke_application(application.id, None, signature(caller))

    def remove(change: Change) -> None:
        agents.remove(change, agent)
        change.tell(agent_offline(agent))

    await workspace.change(remove)
    return AgentRemoved(True, agent.id, agent.name, len(found))
