"""Sessions of agents: their owner, their turns, and how far session files of other programs were read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from palaver.model.library import ToolFacts
from palaver.model.people import Agent


@dataclass(frozen=True, slots=True)
class Owner:
    """The agent that owns a session."""

    id: str
    slug: str
    name: str
    program: str = ""
    project: str = ""
    owner: str = ""
    """Whose agent it is, as in `Agent`."""

    @classmethod
    def of(cls, agent: Agent) -> Owner:
        return cls(agent.id, agent.slug, agent.name, agent.client or "", agent.project or "", agent.owner)


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
    """Its project; None if unknown, or if it is that of the session."""
    program: str | None = None
    """The client program it was said in; None if unknown, or if it is that of the session."""
    tool: ToolFacts | None = None
    """What is known of a tool call or its result, besides the text."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file was read, and how to recognise it after a rename."""

    path: str
    reader: str
    place: str
    """Device and inode. They stay the same if the file is renamed."""
    head_bytes: int
    head_hash: str
    """The hash of the first bytes. It detects another file with the same inode or name."""
    bytes: int
    reading: str


def session_path(path: str, session_id: str) -> str:
    """The path under which the mark of one session in a file is kept. A file may hold many sessions."""
    return f"{path}#{session_id}"
