"""Data of the bus: threads, messages, reactions, receipts, questions, edits, templates."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

TRACEPARENT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""The W3C trace context of what caused a message: it is in its metadata and goes on to webhooks."""

Status = Literal["discuss", "implement", "review", "done", "closed", "archived"]
Role = Literal["user", "assistant", "system", "tool"]
ReceiptState = Literal["stored", "delivered", "read", "reacted", "declined", "answered", "not_reached"]
QuestionState = Literal["open", "answered", "expired"]
Priority = Literal["low", "normal", "high", "urgent", "system"]


@dataclass(frozen=True, slots=True)
class Thread:
    id: str
    thread_id: str
    topic: str
    status: Status
    system_prompt: str | None
    template_id: str | None
    summary: str | None
    metadata: dict[str, Any] | None
    created_at: datetime
    updated_at: datetime
    current_seq: int
    message_count: int


@dataclass(frozen=True, slots=True)
class Reaction:
    id: str
    message_id: str
    agent_id: str | None
    agent_name: str | None
    reaction: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    message_id: str
    thread_id: str
    seq: int
    author: str
    author_id: str | None
    author_name: str
    role: Role
    content: str
    created_at: datetime
    priority: Priority = "normal"
    mentions: list[str] = field(default_factory=list)
    reply_to_msg_id: str | None = None
    metadata: dict[str, Any] | None = None
    edited_at: datetime | None = None
    edit_version: int = 0
    reactions: list[Reaction] = field(default_factory=list)

    def is_for(self, names: set[str]) -> bool:
        """Whether it mentions one of these names, or hands over to it."""
        wanted = {name.removeprefix("@") for name in self.mentions}
        if self.metadata and isinstance(self.metadata.get("handoff_target"), str):
            wanted.add(self.metadata["handoff_target"])
        return not names.isdisjoint(wanted)


@dataclass(frozen=True, slots=True)
class Receipt:
    """How far a message got to one agent that it names."""

    name: str
    agent_id: str | None
    state: ReceiptState
    way: str | None = None
    """How it reached the agent: wake, prompt, stop or briefing by its hooks, spawn when a program was started with it,
    or mcp when it read the thread."""
    turn: int | None = None
    """The turn of the session that read it."""
    at: datetime | None = None
    reaction: str | None = None
    answer_id: str | None = None
    reason: str | None = None
    """Why it was not reached, or what it waits for."""


@dataclass(frozen=True, slots=True)
class Edit:
    version: int
    old_content: str
    edited_by: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Template:
    id: str
    name: str
    description: str | None
    system_prompt: str | None
    default_metadata: dict[str, Any] | None
    is_builtin: bool
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """What somebody answered to the same question before."""

    question_id: str
    answer: str
    answered_by: str
    answered_at: datetime


@dataclass(frozen=True, slots=True)
class InboxQuestion:
    """A question to people. Its id is that of its message. If it expired, `answer` is no. `permission` has the program,
    the tool, the exact command and the folder of a permission request."""

    question_id: str
    thread_id: str
    topic: str
    agent_id: str | None
    asked_by: str
    text: str
    choices: list[str]
    permission: dict[str, str] | None
    asked_at: datetime
    expires_at: datetime
    state: QuestionState
    answer: str | None
    choice: str | None
    answered_by: str | None
    answered_at: datetime | None
    answer_id: str | None
    earlier: list[EarlierAnswer] = field(default_factory=list)
