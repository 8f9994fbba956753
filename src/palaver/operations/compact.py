"""Compact answers for agents: every field once, no empty ones, times to the second.

A model pays for each token it reads. `shorten` turns an answer with messages, or a list of threads or agents, into its
compact form; other answers stay as they are. REST, and `?answers=full` over MCP, give the full objects.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from palaver.model.messages import Message, Reaction, Thread
from palaver.model.people import Agent
from palaver.model.times import iso
from palaver.operations.bus.agents import Agents
from palaver.operations.bus.connect import Connected
from palaver.operations.bus.messages import Edited, Messages, fit
from palaver.operations.bus.threads import Threads
from palaver.operations.bus.waiting import Waited

ERROR_TOKENS = 4_000
"""About how many tokens of messages an error carries."""


@dataclass(frozen=True, slots=True)
class CompactReaction:
    reaction: str
    agent_id: str | None = None
    agent_name: str | None = None


@dataclass(frozen=True, slots=True)
class CompactMessage:
    id: str
    seq: int
    author: str
    created_at: datetime
    content: str
    role: str | None = None
    priority: str | None = None
    mentions: list[str] | None = None
    reply_to_msg_id: str | None = None
    metadata: dict[str, Any] | None = None
    edited_at: datetime | None = None
    edit_version: int | None = None
    reactions: list[CompactReaction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CompactOneMessage(CompactMessage):
    thread_id: str = ""


@dataclass(frozen=True, slots=True)
class CompactEdited(CompactOneMessage):
    version: int = 0
    edited_by: str | None = None
    no_change: bool = False


@dataclass(frozen=True, slots=True)
class CompactMessages:
    thread_id: str
    messages: list[CompactMessage]
    current_seq: int
    has_more: bool
    reply_token: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class CompactWaited:
    messages: list[CompactMessage]
    current_seq: int
    timed_out: bool
    reply_token: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class CompactAgent:
    agent_id: str
    name: str
    slug: str
    is_online: bool | None = None
    last_heartbeat: datetime | None = None
    token: str | None = None
    display_name: str | None = None
    description: str | None = None
    capabilities: list[str] | None = None
    skills: list[dict[str, Any]] | None = None
    waiting_in: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class CompactAgents:
    agents: list[CompactAgent]
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class CompactThread:
    thread_id: str
    topic: str
    status: str
    created: bool | None = None
    current_seq: int | None = None
    message_count: int | None = None
    updated_at: datetime | None = None
    system_prompt: str | None = None
    template_id: str | None = None
    summary: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CompactThreads:
    threads: list[CompactThread]
    total: int
    has_more: bool
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class CompactConnected:
    agent: CompactAgent
    thread: CompactThread
    messages: list[CompactMessage]
    current_seq: int
    truncated: bool
    reply_token: str
    next: str | None = None
    hint: str | None = None


# One function for each answer


def _reaction(one: Reaction) -> CompactReaction:
    return CompactReaction(one.reaction, one.agent_id, one.agent_name)


def _message_fields(message: Message) -> dict[str, Any]:
    was_edited = message.edit_version > 0
    return {
        "id": message.id,
        "seq": message.seq,
        "author": message.author_name if message.author == message.author_id else message.author,
        "created_at": message.created_at,
        "content": message.content,
        "role": message.role if message.role != "user" else None,
        "priority": message.priority if message.priority != "normal" else None,
        "mentions": message.mentions or None,
        "reply_to_msg_id": message.reply_to_msg_id,
        "metadata": message.metadata,
        "edited_at": message.edited_at if was_edited else None,
        "edit_version": message.edit_version if was_edited else None,
        "reactions": [_reaction(one) for one in message.reactions],
    }


def _in_list(message: Message) -> CompactMessage:
    return CompactMessage(**_message_fields(message))


def _one_message(message: Message) -> CompactOneMessage:
    return CompactOneMessage(**_message_fields(message), thread_id=message.thread_id)


def _edited(edited: Edited) -> CompactEdited:
    return CompactEdited(
        **_message_fields(edited),
        thread_id=edited.thread_id,
        version=edited.version,
        edited_by=edited.edited_by,
        no_change=edited.no_change,
    )


def _messages(answer: Messages) -> CompactMessages:
    return CompactMessages(
        answer.thread_id,
        [_in_list(message) for message in answer.messages],
        answer.current_seq,
        answer.has_more,
        answer.reply_token,
        answer.hint,
    )


def _waited(answer: Waited) -> CompactWaited:
    found = [_in_list(message) for message in answer.messages]
    return CompactWaited(found, answer.current_seq, answer.timed_out, answer.reply_token, answer.hint)


def _agent(agent: Agent) -> CompactAgent:
    return CompactAgent(
        agent_id=agent.id,
        name=agent.name,
        slug=agent.slug,
        is_online=agent.is_online,
        last_heartbeat=agent.last_heartbeat,
        display_name=agent.display_name if agent.display_name != agent.name else None,
        description=agent.description or None,
        capabilities=agent.capabilities or None,
        skills=agent.skills or None,
        waiting_in=agent.waiting_in,
        project=agent.project,
    )


def _agents(answer: Agents) -> CompactAgents:
    return CompactAgents([_agent(agent) for agent in answer.agents], answer.hint)


def _thread(thread: Thread) -> CompactThread:
    return CompactThread(
        thread_id=thread.id,
        topic=thread.topic,
        status=thread.status,
        current_seq=thread.current_seq,
        message_count=thread.message_count,
        updated_at=thread.updated_at,
        system_prompt=thread.system_prompt,
        template_id=thread.template_id,
        summary=thread.summary,
        metadata=thread.metadata,
    )


def _threads(answer: Threads) -> CompactThreads:
    return CompactThreads(
        [_thread(thread) for thread in answer.threads], answer.total, answer.has_more, answer.next_cursor
    )


def _connected(answer: Connected) -> CompactConnected:
    agent, thread = answer.agent, answer.thread
    return CompactConnected(
        agent=CompactAgent(agent.agent_id, agent.name, agent.slug, token=agent.token, display_name=agent.display_name),
        thread=CompactThread(
            thread.thread_id,
            thread.topic,
            thread.status,
            created=thread.created,
            system_prompt=thread.system_prompt,
            metadata=thread.metadata,
        ),
        messages=[_in_list(message) for message in answer.messages],
        current_seq=answer.current_seq,
        truncated=answer.truncated,
        reply_token=answer.reply_token,
        next=answer.next,
        hint=answer.hint,
    )


_FORMS: dict[type, Callable[[Any], Any]] = {
    Message: _one_message,
    Edited: _edited,
    Messages: _messages,
    Waited: _waited,
    Agents: _agents,
    Threads: _threads,
    Connected: _connected,
}


def shorten(answer: Any) -> Any:
    """The compact form of an answer as plain JSON, or the answer itself if it has none."""
    form = _FORMS.get(type(answer))
    return _plain(form(answer)) if form else answer


def shorten_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The same for what an error carries: its messages become compact, the newest within a budget."""
    short: dict[str, Any] = {}
    for name, value in facts.items():
        if not _is_messages(value):
            short[name] = value
            continue
        shown = fit(value, ERROR_TOKENS, newest=True)
        short[name] = [_plain(_in_list(message)) for message in shown]
        if len(shown) < len(value):
            short["hint"] = f"Earlier messages: call msg_list with before_seq={shown[0].seq}."
    return short


def form_of(answer_type: Any) -> Any:
    """The type of the compact form, for output schemas."""
    form = _FORMS.get(answer_type)
    return typing.get_type_hints(form)["return"] if form else answer_type


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Message) for one in value)


def _plain(value: Any) -> Any:
    """Data classes as dicts without the fields that are None."""
    if isinstance(value, datetime):
        return iso(value.replace(microsecond=0))
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not dataclasses.is_dataclass(value):
        return value
    named = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
    return {name: _plain(found) for name, found in named if found is not None}
