"""An agent's sessions: what it and its people said, turn by turn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose sessions they are."""

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
    """The path of the project it belongs to; None where it is not known, or is that of the session."""
