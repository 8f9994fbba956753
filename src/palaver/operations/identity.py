"""In whose name something is done. Where tokens are required the credential decides, and nobody acts for another."""

from __future__ import annotations

from dataclasses import dataclass

from palaver.errors import Forbidden, Unauthorized
from palaver.model.people import Agent, Caller
from palaver.model.talk import Message
from palaver.store import agents
from palaver.store.database import Reader


@dataclass(frozen=True, slots=True)
class Author:
    label: str
    agent: Agent | None
    name: str

    @property
    def agent_id(self) -> str | None:
        return self.agent.id if self.agent else None


def me(read: Reader, caller: Caller) -> Agent | None:
    """The agent the caller is, if it is one."""
    return agents.find(read, caller.acting_agent) if caller.acting_agent else None


def known_as(read: Reader, slug: str) -> Agent | None:
    """The agent a client says it is, where nothing else tells."""
    return agents.named(read, slug)


def author_of(read: Reader, caller: Caller, given: str | None) -> Author:
    """Under which name the caller writes."""
    own = me(read, caller)
    if own and (given is None or own.answers_to(given)):
        return Author(given or own.shown_name, own, own.shown_name)
    named = agents.named(read, given) if given else None
    if caller.is_authenticated:
        if caller.is_agent or named:
            raise Forbidden(f"You are '{caller.name}' and cannot write as '{given}'. Leave author out.")
        return Author(caller.name, None, caller.name)
    if named:
        return Author(given or named.shown_name, named, named.shown_name)
    label = given or caller.name
    return Author(label, None, label)


def given_to(read: Reader, caller: Caller, reply_token: str | None) -> str | None:
    """The agent a reply_token was given to, for clients that have neither a session nor a credential of their own."""
    agent_id, dot, _ = (reply_token or "").partition(".")
    if not dot or caller.is_authenticated or caller.acting_agent or not agents.find(read, agent_id):
        return None
    return agent_id


@dataclass(frozen=True, slots=True)
class Reacting:
    agent_id: str | None
    name: str | None


def reacting_as(read: Reader, caller: Caller, agent_id: str | None) -> Reacting:
    """Who puts the label on. Without tokens the given id is taken as it is, and none is fine too."""
    own, agent_id = me(read, caller), (agent_id or "").strip() or None
    if caller.is_authenticated:
        if own and (not agent_id or own.answers_to(agent_id)):
            return Reacting(own.id, own.shown_name)
        person = f"human:{caller.name}"
        if own or agent_id not in (None, person, caller.name):
            raise Forbidden(f"You are '{caller.name}' and cannot react as '{agent_id}'. Leave agent_id out.")
        return Reacting(person, caller.name)
    if not agent_id:
        return Reacting(own.id, own.shown_name) if own else Reacting(None, None)
    named = agents.named(read, agent_id)
    given = agent_id.removeprefix("human:") if agent_id.startswith("human:") else None
    return Reacting(agent_id, named.shown_name if named else given)


def must_own(read: Reader, caller: Caller, message: Message) -> None:
    """Only who wrote a message may change it. People in charge (and everybody on an open, local bus) may too."""
    own = me(read, caller)
    if own:
        allowed = message.author_id == own.id
    elif caller.is_authenticated:
        is_mine = message.author_id is None and caller.name in (message.author_name, message.author)
        allowed = (is_mine and not caller.is_agent) or (not caller.is_agent and "admin" in caller.scopes)
    else:
        allowed = True
    if not allowed:
        raise Forbidden("Only its author can change this message. Reply to it, or react, instead.")


def must_be(read: Reader, caller: Caller, agent_id: str | None, token: str | None) -> Agent:
    """The agent of this id, if the caller can prove to be it: by its credential, its session, or the agent's secret."""
    own = me(read, caller)
    if own and (not agent_id or own.answers_to(agent_id)) and not token:
        return own
    if caller.is_authenticated and caller.is_agent and agent_id and agent_id != caller.agent_id:
        raise Forbidden(f"You are '{caller.name}' and cannot act as another agent.")
    if not agent_id or not token:
        raise unproven()
    return agents.must_prove(read, agent_id, token)


def unproven() -> Unauthorized:
    return Unauthorized("agent_id needs its token: pass both, as agent_register or bus_connect returned them.")
