"""Events for listeners (SSE, MCP, WebSocket). Ids follow the order of commits, without gaps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import orjson

from palaver.model.claims import Claim
from palaver.model.messages import InboxQuestion, Message, Reaction, Receipt, Thread
from palaver.model.people import Agent
from palaver.model.visibility import FOR_PEOPLE, mask_payload

ChangeType = Literal[
    "msg.new",
    "msg.edit",
    "msg.delete",
    "msg.react",
    "msg.unreact",
    "thread.new",
    "thread.state",
    "thread.deleted",
    "agent.online",
    "agent.offline",
    "agent.session",
    "msg.receipt",
    "question.new",
    "question.answered",
    "question.expired",
    "claim.new",
    "claim.ended",
]
EventType = Literal[ChangeType, "reset", "webhook.test"]


def encode(value: Any) -> bytes:
    """JSON for clients: times in UTC with Z."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS)


@dataclass(frozen=True)
class Event:
    type: EventType
    thread_id: str | None
    payload: bytes
    message_id: str | None = None
    id: int = 0

    def numbered(self, id: int) -> Event:
        return replace(self, id=id)

    @cached_property
    def payload_for_agents(self) -> bytes:
        """The payload without human-only content. It is encoded once for all listeners."""
        payload = orjson.loads(self.payload)
        if self.type.startswith("question."):  # an agent asks for its own questions by their ids
            payload["metadata"] = FOR_PEOPLE
        masked = mask_payload(payload)
        return self.payload if masked is payload else encode(masked)

    @property
    def is_from_webhook(self) -> bool:
        """Whether it is about a message that an incoming webhook posted."""
        return b'"webhook"' in self.payload and "webhook" in (orjson.loads(self.payload).get("metadata") or {})

    def payload_for(self, agent: bool) -> bytes:
        return self.payload_for_agents if agent else self.payload

    @cached_property
    def _frames(self) -> dict[bool, bytes]:
        return {}

    def frame(self, agent: bool) -> bytes:
        """The event as a frame of an SSE stream."""
        if agent not in self._frames:
            data = self.payload_for(agent)
            self._frames[agent] = b"id: %d\nevent: %b\ndata: %b\n\n" % (self.id, self.type.encode(), data)
        return self._frames[agent]


def message_new(message: Message) -> Event:
    return Event("msg.new", message.thread_id, encode(message), message.id)


def message_edited(message: Message, edited_by: str) -> Event:
    names = ("message_id", "thread_id", "seq", "content", "edited_at", "edit_version", "metadata")
    return Event("msg.edit", message.thread_id, _payload(message, *names, edited_by=edited_by), message.id)


def message_deleted(message: Message) -> Event:
    return Event("msg.delete", message.thread_id, _payload(message, "message_id", "thread_id", "seq"))


def reacted(reaction: Reaction, thread_id: str) -> Event:
    names = ("message_id", "agent_id", "agent_name", "reaction")
    return Event("msg.react", thread_id, _payload(reaction, *names, reaction_id=reaction.id, thread_id=thread_id))


def unreacted(message_id: str, agent_id: str | None, reaction: str, thread_id: str) -> Event:
    payload = {"message_id": message_id, "agent_id": agent_id, "reaction": reaction, "thread_id": thread_id}
    return Event("msg.unreact", thread_id, encode(payload))


def thread_new(thread: Thread) -> Event:
    return Event("thread.new", thread.id, _payload(thread, "thread_id", "topic", "status", "created_at"))


def thread_changed(thread: Thread) -> Event:
    return Event("thread.state", thread.id, _payload(thread, "thread_id", "topic", "status", "summary"))


def thread_deleted(thread: Thread) -> Event:
    return Event("thread.deleted", thread.id, _payload(thread, "thread_id", "topic"))


def agent_online(agent: Agent) -> Event:
    return Event("agent.online", None, _payload(agent, "agent_id", "name", "display_name", thread_id=None))


def agent_offline(agent: Agent) -> Event:
    return replace(agent_online(agent), type="agent.offline")


def agent_session(agent: Agent) -> Event:
    """A session of the agent that waits for messages is idle now, waits in another call, or has ended."""
    return replace(agent_online(agent), type="agent.session")


def message_receipts(message_id: str, thread_id: str, receipts: list[Receipt]) -> Event:
    """How far a message got to some of the agents that it names."""
    payload = {"message_id": message_id, "thread_id": thread_id, "receipts": receipts}
    return Event("msg.receipt", thread_id, encode(payload), message_id)


def question_changed(type: EventType, question: InboxQuestion, metadata: dict[str, Any]) -> Event:
    """The text is in `content` and the rest in `metadata`, so that both are masked and deleted with the message."""
    names = ("question_id", "thread_id", "agent_id", "asked_by", "state", "choice", "answer_id", "answered_by")
    others = {"message_id": question.question_id, "expires_at": question.expires_at, "content": question.text}
    payload = _payload(question, *names, **others, metadata=metadata)
    return Event(type, question.thread_id, payload, question.question_id)


def claim_changed(type: EventType, claim: Claim) -> Event:
    """Who may see a claim lists the claims: its files and project are not in the event."""
    return Event(type, None, _payload(claim, "claim_id", "agent_id", thread_id=None))


def _payload(source: object, *names: str, **others: Any) -> bytes:
    return encode({name: getattr(source, name) for name in names} | others)


def reset(id: int) -> Event:
    """For a listener that is too far behind: it must read the lists again, then continue from this id."""
    return Event("reset", None, encode({"thread_id": None, "reason": "too far behind", "last_event_id": id}), id=id)
