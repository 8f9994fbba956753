"""Identity: which agent a caller is, and under which name it writes.

With a token, only the token decides. On an open server the caller is the first of these agents:

1. the one it names with agent_id and token, or with a reply_token;
2. the one named by the address (?agent=), PALAVER_AGENT or --agent;
3. the one this connection became by bus_connect;
4. on a loopback server, the only agent of the same client program and project that a hook announced in the last hour;
   for stateless clients also one that no hook announced.

An agent belongs to an owner, works in a program and on a project, and is called by both: `claude-code-exporter`,
"Claude Code in exporter". A second client at work there at the same time is another instance,
`claude-code-exporter-2`. With the token of an agent, every program is that agent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from palaver.errors import UNKNOWN_AGENT, Forbidden, Refused, Unauthorized
from palaver.model import visibility
from palaver.model.messages import Message
from palaver.model.people import Agent, Caller, Client, title_of
from palaver.model.projects import project_name
from palaver.model.times import now
from palaver.store.bus import agents, names
from palaver.store.bus.agents import NewAgent
from palaver.store.bus.agents import connection_key as connection_key
from palaver.store.bus.agents import end_connection as end_connection
from palaver.store.bus.agents import pause_connection as pause_connection
from palaver.store.bus.agents import process_key as process_key
from palaver.store.bus.messages import Reactor
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sessions
from palaver.store.sessions.outlines import SUBAGENT

ACTIVE = timedelta(hours=1)
"""A client counts as running for this long after its last activity."""


def active_since() -> datetime:
    return now() - ACTIVE


@dataclass(frozen=True, slots=True)
class Credentials:
    """The arguments of a tool call that name its agent."""

    agent_id: str | None = None
    token: str | None = None
    reply_token: str | None = None


DECIDES_ITSELF = frozenset({"connect", "register_agent", "resume_agent"})
"""Operations that decide by their own rules which agent the caller becomes."""


def resolve(read: Reader, caller: Caller, said: Credentials, *, may_assume: bool = True) -> Caller:
    """The caller with the agent it acts as in this call."""
    if caller.is_authenticated:
        must_be_itself(read, caller, said)
        return _in_its_project(read, caller)
    if said.agent_id and said.token:
        return _acting_as(caller, agents.must_prove(read, said.agent_id, said.token).id)
    if said.reply_token and (agent_id := agents.agent_of_reply(read, said.reply_token)):
        return _acting_as(caller, agent_id)
    session = caller.session
    if session.slug:
        named = agents.named(read, session.slug)
        session.agent_id = named.id if named else None
    elif session.key and (session.agent_id is None or session.is_shared):
        session.agent_id = agents.connected_as(read, session.key) or session.agent_id
    is_known = session.agent_id or session.slug
    client = caller.client
    if is_known or not (may_assume and client.program and read.settings.is_loopback):
        return caller
    find = agents.active_of_client if client.is_stateless else agents.announced_by_hook
    found = find(read, "", client.program, client.project, active_since())
    return _acting_as(caller, found[0].id, is_assumed=True) if len(found) == 1 else caller


def is_settled(caller: Caller) -> bool:
    """Whether this process knows for certain which agent a caller is, and where it works."""
    if caller.is_authenticated:
        return caller.agent_id is None or (bool(caller.client.project) and not os.path.isabs(caller.client.project))
    session = caller.session
    return session.agent_id is not None and not session.slug and not session.is_shared


def _in_its_project(read: Reader, caller: Caller) -> Caller:
    """A caller with the token of an agent, which works in many projects. Its hooks tell in which one it is now. A
    folder on another machine says nothing by itself."""
    client = caller.client
    if caller.agent_id is None or is_settled(caller) or (client.project and read.settings.is_loopback):
        return caller
    since = now() - timedelta(days=1)
    project = agents.reported_project(read, caller.agent_id, client.program, client.project, since)
    return replace(caller, client=replace(client, project=project))


def _acting_as(caller: Caller, agent_id: str, *, is_assumed: bool = False) -> Caller:
    return replace(caller, session=replace(caller.session, agent_id=agent_id, slug=None, is_assumed=is_assumed))


def must_be_itself(read: Reader, caller: Caller, said: Credentials) -> None:
    """A caller with a token cannot act as another agent."""
    own = agent_of(read, caller)
    named = said.agent_id if said.token else None  # agent_id alone is an argument of some tools: they check it
    if named and not (own and own.answers_to(named)):
        raise Forbidden(f"You are '{caller.name}' and cannot act as another agent. Leave agent_id and token out.")


def become(change: Change, caller: Caller, agent: Agent) -> None:
    """Bind this connection to the agent, also after a restart of the server."""
    caller.session.agent_id = agent.id
    if caller.session.key and not caller.is_authenticated:
        agents.bind_connection(change, caller.session.key, agent)


def must_be_agent(change: Change, caller: Caller) -> Agent:
    """The agent the caller is. An agent that is only named in the client's settings is created."""
    own = agent_of(change, caller)
    if own is None and caller.session.slug:
        slug, client = caller.session.slug, caller.client
        own = agents.named(change, slug)
        if own is None:
            names.must_be_free(change, slug, "-")
            own, _ = agents.register(change, NewAgent(slug, client=client.program, project=client.project))
        caller.session.agent_id = own.id
    if own is None:
        raise unknown_agent()
    return own


def unknown_agent() -> Refused:
    return Refused(UNKNOWN_AGENT)


@dataclass(frozen=True, slots=True)
class Author:
    label: str
    agent: Agent | None
    name: str

    @property
    def agent_id(self) -> str | None:
        return self.agent.id if self.agent else None


def agent_of(read: Reader, caller: Caller) -> Agent | None:
    """The agent the caller acts as; None if it is a person or unknown."""
    return agents.find(read, caller.acting_agent) if caller.acting_agent else None


def author_of(change: Change, caller: Caller, given: str | None) -> Author:
    """The author of a message that the caller posts."""
    own = agent_of(change, caller)
    must_be_named = caller.session.slug or (given is None and caller.client.is_stateless)
    if own is None and must_be_named and not caller.is_authenticated:
        own = must_be_agent(change, caller)
    if own and (given is None or _is(change, own, given)):
        return Author(given if given and own.answers_to(given) else own.shown_name, own, own.shown_name)
    named = agents.named(change, given) if given else None
    if caller.is_authenticated:
        if caller.is_agent or (named and given != caller.name):
            raise Forbidden(f"You are '{caller.name}' and cannot write as '{given}'. Leave author out.")
        return Author(caller.name, None, caller.name)
    if caller.is_agent and given:
        _must_be_own(change, caller, own, given, named)
    if named:
        return Author(given or named.shown_name, named, named.shown_name)
    label = given or caller.name
    return Author(label, None, label)


def _is(read: Reader, own: Agent, name: str) -> bool:
    """Whether the agent has or had this name."""
    if own.answers_to(name):
        return True
    named = agents.named(read, name)
    return named is not None and named.id == own.id


def _must_be_own(read: Reader, caller: Caller, own: Agent | None, given: str, named: Agent | None) -> None:
    """Refuse an agent without a token that writes under a name that is not its own. An agent that the server does not
    know may use a name that nobody has."""
    if own and not caller.session.is_assumed:
        raise Forbidden(
            f"You are '{own.shown_name}' and cannot write as '{given}'. Leave author out. To act as another agent of "
            "yours, pass its agent_id and token."
        )
    client = caller.client
    if named:
        # A client that keeps no session names its agent by the id that it got.
        is_its_program = client.is_stateless and given == named.id and client.program == named.client
        is_free = named.id in caller.session.registered or is_its_program
    else:
        is_free = not names.holder_of(read, given) and not names.is_reserved(given, client.program)
    if not is_free:
        raise Forbidden(
            f"'{given}' is the name of another agent, a person or a program. Call bus_connect and leave author out. "
            "If you are this agent, pass the agent_id and token that bus_connect returned."
        )


def must_be_author(read: Reader, caller: Caller, message: Message) -> Agent | None:
    """The agent that the caller acts as, if the caller may change this message."""
    own = agent_of(read, caller)
    visibility.must_be_author(caller, own, message)
    if caller.is_agent and own is None:
        author = agents.find(read, message.author_id) if message.author_id else None
        _must_be_own(read, caller, None, message.author_id or message.author, author)
    return own


def reactor_of(read: Reader, caller: Caller, agent_id: str | None) -> Reactor:
    """The author of a reaction. Without tokens the given id is used unchanged, and may be absent."""
    own, agent_id = agent_of(read, caller), (agent_id or "").strip() or None
    if caller.is_authenticated:
        if own and (not agent_id or _is(read, own, agent_id)):
            return Reactor(own.id, own.shown_name)
        person = f"human:{caller.name}"
        if own or agent_id not in (None, person, caller.name):
            raise Forbidden(f"You are '{caller.name}' and cannot react as '{agent_id}'. Leave agent_id out.")
        return Reactor(person, caller.name)
    if not agent_id:
        return Reactor(own.id, own.shown_name) if own else Reactor(None, None)
    named = agents.named(read, agent_id)
    if caller.is_agent and not (own and _is(read, own, agent_id)) and not (named and named.id == agent_id and not own):
        # Spec 2: the id alone names the agent of a client that did not connect.
        _must_be_own(read, caller, own, agent_id, named)
    given = agent_id.removeprefix("human:") if agent_id.startswith("human:") else None
    return Reactor(agent_id, named.shown_name if named else given)


def prove_agent(read: Reader, caller: Caller, agent_id: str | None, token: str | None) -> Agent:
    """The agent with this id. The caller proves to be it by its token, its session, or the agent's secret."""
    own = agent_of(read, caller)
    if own and (not agent_id or _is(read, own, agent_id)) and not token:
        return own
    if caller.is_authenticated and caller.is_agent and agent_id and agent_id != caller.agent_id:
        raise Forbidden(f"You are '{caller.name}' and cannot act as another agent.")
    if not agent_id or not token:
        raise missing_token()
    return agents.must_prove(read, agent_id, token)


def missing_token() -> Unauthorized:
    return Unauthorized("agent_id needs its token: pass both, as agent_register or bus_connect returned them.")


# Which agent a client program is: for hooks, MCP, the recorder and all other doors


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
        since = active_since()
        candidates = agents.free_of_client(read, caller.owner, client.program, client.project, since)
    else:
        candidates = agents.of_client(read, caller.owner, client.program, client.project)
    return next(filter(fits, candidates), None)


def _agent_of_session(read: Reader, owner: str, program: str, session_id: str) -> Agent | None:
    """The agent that a session has already: the one its hooks reported, else the one it is recorded for. A subagent has
    the agent of its main session."""
    session_id = session_id.partition(SUBAGENT)[0] or session_id
    hook = agents.hook_connection(read, session_id)
    reported = agents.find(read, hook.agent_id) if hook else None
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
