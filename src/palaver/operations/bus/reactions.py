"""Reactions to messages: react, unreact, list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator

from palaver.errors import Refused
from palaver.model.answers import answer_of
from palaver.model.events import reacted, unreacted
from palaver.model.messages import Reaction
from palaver.model.people import Caller
from palaver.model.requests import Id, storable
from palaver.operations import identity
from palaver.operations.bus.messages import OneMessage
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.store.bus import messages
from palaver.store.engines.database import Change, Reader

LONGEST_LABEL = 64

Label = Annotated[str, AfterValidator(storable), AfterValidator(str.strip)]


def checked_label(label: str) -> str:
    if not label:
        raise Refused("Reaction must be non-empty: send a short label such as agree, or an emoji.")
    if len(label) > LONGEST_LABEL:
        raise Refused(f"Reaction must be at most {LONGEST_LABEL} characters long; this one has {len(label):,}.")
    return label


class React(OneMessage):
    reaction: Label
    """A label such as agree, or an emoji; at most 64 characters."""
    agent_id: Id | None = None
    """The agent that reacts: you."""


@dataclass(frozen=True, slots=True)
class ToolReaction:
    reaction_id: str
    message_id: str
    agent_id: str | None
    agent_name: str | None
    reaction: str
    created_at: datetime


def _with_reaction_id(r: Reaction) -> ToolReaction:
    return answer_of(ToolReaction, r, reaction_id=r.id)


@operation(
    Tool("msg_react", acts=True, show=_with_reaction_id, required=("agent_id",)),
    Route("POST", "/api/messages/{message_id}/reactions", status=201, from_query=("agent_id",)),
    Command("react", takes=("message_id", "reaction")),
)
def react(change: Change, caller: Caller, request: React) -> Reaction:
    """Add a reaction (a label or emoji) to a message. Repeating it changes nothing."""
    label = checked_label(request.reaction)
    stored = messages.must_hold(change, request.message_id)
    who = identity.reactor_of(change, caller, request.agent_id)
    reaction, is_new = messages.react(change, stored, who, label)
    if is_new:
        change.tell(reacted(reaction, stored.message.thread_id))
    return reaction


@dataclass(frozen=True, slots=True)
class Unreacted:
    removed: bool
    message_id: str
    reaction: str
    agent_id: str | None


@dataclass(frozen=True, slots=True)
class ToolUnreacted:
    removed: bool
    message_id: str
    reaction: str


def _without_agent(answer: Unreacted) -> ToolUnreacted:
    return answer_of(ToolUnreacted, answer)


@operation(
    Tool("msg_unreact", acts=True, show=_without_agent, required=("agent_id",)),
    Route("DELETE", "/api/messages/{message_id}/reactions/{reaction:any}"),
    Command("unreact", takes=("message_id", "reaction")),
)
def unreact(change: Change, caller: Caller, request: React) -> Unreacted:
    """Remove your reaction from a message. If there is none, removed is false."""
    label = checked_label(request.reaction)
    who = identity.reactor_of(change, caller, request.agent_id)
    stored = messages.find(change, request.message_id)
    removed = stored is not None and messages.unreact(change, stored, who.agent_id, label)
    if stored and removed:
        change.tell(unreacted(stored.message.id, who.agent_id, label, stored.message.thread_id))
    return Unreacted(removed, request.message_id, label, who.agent_id)


@operation(
    Route("GET", "/api/messages/{message_id}/reactions"),
    Command("reactions", takes=("message_id",), columns=("reaction", "agent_name", "created_at"), rows="reactions"),
)
def list_reactions(read: Reader, caller: Caller, request: OneMessage) -> list[Reaction]:
    """List the reactions to a message, oldest first."""
    stored = messages.must_exist(read, request.message_id)
    return messages.with_reactions(read, [stored])[0].reactions
