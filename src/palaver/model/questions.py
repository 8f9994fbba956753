"""Questions of agents to people."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

QuestionState = Literal["open", "answered", "expired"]
DEFAULT_ANSWER = "no"
"""What counts if nobody answers in time."""


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
