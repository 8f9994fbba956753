"""Visibility: all rules for masking and ownership. They depend on the caller, never on the door it uses.

People see everything in their workspace. Agents do not read human-only messages. Which sessions they read is a setting
of the workspace: see `SessionReach`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from palaver.errors import Forbidden
from palaver.model.claims import Claim
from palaver.model.messages import Edit, Message
from palaver.model.people import Agent, Caller
from palaver.model.projects import same_project
from palaver.model.search import FoundPassage

HIDDEN = "[human-only content hidden]"
"""The text that agents read in place of human-only content."""

FOR_PEOPLE = {"visibility": "human_only"}
"""The metadata of a message that agents do not read."""


def is_human_only(metadata: Mapping[str, Any] | None) -> bool:
    """Whether a message with this metadata is for people only."""
    if not metadata:
        return False
    visibility, audience = (str(metadata.get(name)).strip().casefold() for name in ("visibility", "audience"))
    return visibility == "human_only" or audience == "human" or metadata.get("human_only") is True


def sees_everything(caller: Caller) -> bool:
    """Whether nothing in the workspace is hidden from the caller, and totals may count all of it."""
    return not caller.is_agent


def is_person(caller: Caller) -> bool:
    """Whether no agent speaks, not even one that is named in the call."""
    return not (caller.is_agent or caller.acting_agent or caller.session.slug)


def sees_question(caller: Caller, asked_by: str | None) -> bool:
    """People see all questions, agents their own."""
    return sees_everything(caller) or asked_by == (caller.acting_agent or "")


# Messages


def hides(caller: Caller, metadata: Mapping[str, Any] | None) -> bool:
    """Whether the content of a message with this metadata is hidden from the caller."""
    return caller.is_agent and is_human_only(metadata)


def is_hidden(caller: Caller, at: FoundPassage) -> bool:
    """Whether a passage is a message whose content is hidden from the caller."""
    return at.source == "bus" and hides(caller, at.marks.get("metadata"))


def finds_hidden(caller: Caller, *, needs_token: bool) -> bool:
    """Whether the bus search shows hidden messages as masked hits. A masked hit tells that a word was said: on an open
    server agents may know that, elsewhere they may not."""
    return sees_everything(caller) or not (caller.is_authenticated or needs_token)


def mask_text(caller: Caller, metadata: Mapping[str, Any] | None, text: str) -> str:
    return HIDDEN if hides(caller, metadata) else text


def mask_message(caller: Caller, message: Message) -> Message:
    """The message as the caller may read it."""
    if not hides(caller, message.metadata):
        return message
    return replace(message, content=HIDDEN, metadata=_mask_metadata(message.metadata), mentions=[])


def mask_messages(caller: Caller, messages: list[Message]) -> list[Message]:
    return [mask_message(caller, message) for message in messages]


def mask_edits(caller: Caller, message: Message, edits: list[Edit]) -> list[Edit]:
    """The earlier versions of a message as the caller may read them."""
    return [replace(edit, old_content=mask_text(caller, message.metadata, edit.old_content)) for edit in edits]


def mask_payload(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload of an event as agents may read it."""
    if not is_human_only(payload.get("metadata")):
        return payload
    masks: dict[str, Any] = {"content": HIDDEN, "old_content": HIDDEN, "mentions": []}
    masked = {key: masks.get(key, value) for key, value in payload.items()}
    return {**masked, "metadata": _mask_metadata(payload["metadata"])}


def _mask_metadata(metadata: dict[str, Any] | None) -> dict[str, Any]:
    return {key: metadata[key] for key in ("visibility", "audience") if metadata and key in metadata}


def must_be_author(caller: Caller, agent: Agent | None, message: Message) -> None:
    """Only the author may change a message; so may admins, and all people on an open server. `agent` is the agent the
    caller acts as."""
    if agent:
        is_allowed = message.author_id == agent.id
    elif caller.is_authenticated:
        is_author = message.author_id is None and caller.name in (message.author_name, message.author)
        is_allowed = not caller.is_agent and (is_author or "admin" in caller.scopes)
    else:
        is_allowed = True
    if not is_allowed:
        raise Forbidden("Only the author can change this message. Reply or react to it instead.")


def must_not_be_system(caller: Caller, role: str, priority: str) -> None:
    if caller.is_agent and "system" in (role, priority):
        raise Forbidden("Agents cannot post with role or priority 'system'. Leave it out, or use urgent.")


# Threads


def creator_of(caller: Caller) -> str | None:
    """The caller, as stored with a thread it creates. None for an unknown agent."""
    if not caller.is_agent:
        return f"human:{caller.name}"
    return f"agent:{caller.acting_agent}" if caller.acting_agent else None


def must_be_creator(caller: Caller, created_by: str | None) -> None:
    """A thread holds messages of many authors, so only its creator or an admin may delete it. On an open server nobody
    is an admin by a token: agents delete what they created, or what no known caller did."""
    is_admin = "admin" in caller.scopes and (caller.is_authenticated or not caller.acting_agent or created_by is None)
    if not is_admin and (created_by is None or created_by != creator_of(caller)):
        raise Forbidden("Only the creator or an admin can delete this thread. Archive it instead.")


def must_take_part(caller: Caller, created_by: str | None, *, has_posted: bool) -> None:
    """Only people, its creator, and agents that posted in a thread may change it. On an open server a caller that is
    no known agent counts as a person."""
    is_agent = caller.is_agent and (caller.is_authenticated or caller.acting_agent)
    if is_agent and not has_posted and (created_by is None or created_by != creator_of(caller)):
        raise Forbidden("Only its creator, people, and agents that posted in this thread can change it. Post first.")


# Agents


def must_own_agent(caller: Caller, agent: Agent) -> None:
    """A person may rename their own agents. Admins may rename all, and so may all people on an open server."""
    is_owner = not caller.is_authenticated or agent.owner == f"human:{caller.name}"
    if caller.is_agent or not (is_owner or "admin" in caller.scopes):
        raise Forbidden("Only the agent itself, its owner or an admin can rename it.")


# Sessions

Sharing = Literal["agent", "person", "project"]
"""Whose sessions an agent reads besides its own: no others, those of its owner's agents in its project, or everybody's
in its project."""


@dataclass(frozen=True, slots=True)
class SessionReach:
    """The sessions that a caller may read: those of its `own` agents in every project, and those of `others` in its
    project. The project of a session decides, because one agent may work in many."""

    is_everything: bool = False
    project: str = ""
    """The project that the caller works on; '' if unknown."""
    own: frozenset[str] = frozenset()
    """The caller's agent and the other instances of its program: same owner, same program."""
    others: frozenset[str] | None = frozenset()
    """Agents. None: everybody."""

    def includes(self, agent_id: str | None, project: str | None) -> bool:
        """Whether the caller may read the sessions of this agent in this project."""
        if self.is_everything or agent_id in self.own:
            return True
        return (self.others is None or agent_id in self.others) and same_project(project, self.project)

    def may_see_claim(self, claim: Claim, claimed_by: str, owner: str) -> bool:
        """Whether the caller may see a claim on files: that of an agent like its sessions, that of a person in the
        caller's project. `claimed_by` is whose claim it is, `owner` whose agent the caller is."""
        if self.is_everything or claim.agent_id:
            return self.includes(claim.agent_id, claim.project)
        return same_project(claim.project, self.project) and (self.others is None or claimed_by == owner)

    def may_open(self, at: FoundPassage) -> bool:
        return at.source != "sessions" or self.includes(at.agent_id, at.facts.get("project"))


def session_reach(caller: Caller, agent: Agent | None, level: Sharing, owned: Mapping[str, str]) -> SessionReach:
    """What a caller that acts as this agent may read. `owned` has the agents of its owner with their programs."""
    project = caller.client.project or (agent.project if agent else None) or ""
    if sees_everything(caller):
        return SessionReach(is_everything=True, project=project)
    program = (agent.client if agent else None) or caller.client.program
    own = {id for id, other in owned.items() if program and other == program}
    others = None if level == "project" else frozenset(owned if level == "person" else ())
    acting = {caller.acting_agent} if caller.acting_agent else set()
    return SessionReach(project=project, own=frozenset(own | acting), others=others)


def owner_of(caller: Caller, agent: Agent | None) -> str:
    """Whose agent the caller is: the person of its token, itself with a token of its own, else the machine's user."""
    return caller.owner or (agent.owner if agent else "")


def is_bound(caller: Caller) -> bool:
    """Whether the token binds the caller to one agent. Without tokens a call may name any agent."""
    return caller.is_authenticated and caller.is_agent


def must_reach_sessions_of(caller: Caller, agent_id: str | None) -> None:
    """An agent with a token records and deletes only its own sessions."""
    if is_bound(caller) and agent_id != caller.agent_id:
        raise Forbidden("An agent can access only its own sessions.")


# Claims on files


def is_own_claim(caller: Caller, claim: Claim) -> bool:
    if caller.acting_agent:
        return claim.agent_id == caller.acting_agent
    return claim.agent_id is None and not caller.is_agent and claim.holder == caller.name


# Tokens


def must_be_person(caller: Caller) -> None:
    if caller.is_agent:
        raise Forbidden("Agents cannot do this. Use the token of a person.")
