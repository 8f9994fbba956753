"""Sessions of agents: their owner and their turns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Owner:
    """The agent that owns a session."""

    id: str
    slug: str
    name: str


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    session_id: str
    agent_id: str
    role: str
    content: str
    ts: datetime
    recorded_at: datetime
    project: str | None = None
    """The path of its project; None if unknown, or if it is that of the session."""
