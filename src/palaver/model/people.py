"""Who is calling, and the agents that are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from palaver.model.search import SearchSession

TokenScope = Literal["read", "write", "admin"]
ALL_SCOPES: frozenset[TokenScope] = frozenset({"read", "write", "admin"})


@dataclass(frozen=True, slots=True)
class Client:
    """The program an MCP caller runs in, as it says in clientInfo and in the address it uses."""

    program: str = ""
    """A short name that is the same for every copy of the program, e.g. claude-code."""
    title: str = ""
    """The name for people to see, e.g. Claude Code."""
    project: str = ""
    """The project it works on; '' if it did not say."""
    is_stateless: bool = False
    """Nothing links one request of it to the next (MCP 2026-07-28 over HTTP)."""


@dataclass(slots=True)
class Session:
    """Which agent one connection has become. It lasts as long as the connection does."""

    agent_id: str | None = None
    slug: str | None = None
    """The agent named by ?agent=, PALAVER_AGENT or --agent. It comes to be when it first does something."""
    key: str | None = None
    """The name this connection is stored under, so that it outlives the server; None where there is none."""
    is_assumed: bool = False
    """Nothing in the call said who it is: the only active agent of the client program was taken."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The one who asks. It comes from the credential (or the open default), never from an argument."""

    kind: Literal["human", "agent"]
    name: str = "human"
    agent_id: str | None = None
    scopes: frozenset[TokenScope] = ALL_SCOPES
    is_authenticated: bool = False
    token_id: str | None = None
    session: Session = field(default_factory=Session)
    client: Client = field(default_factory=Client)
    recall: SearchSession | None = None
    """What this client's session of searching has seen, where it has one."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What it prefers where an argument does not say: from the address it connected to, or its first message."""

    @property
    def is_agent(self) -> bool:
        return self.kind == "agent"

    @property
    def acting_agent(self) -> str | None:
        """The agent this caller speaks for: its token's, else the one it became by connecting."""
        return self.agent_id or self.session.agent_id


@dataclass(frozen=True, slots=True)
class Agent:
    id: str
    agent_id: str
    slug: str
    name: str
    display_name: str | None
    description: str
    ide: str
    model: str
    capabilities: list[str]
    skills: list[dict[str, Any]]
    is_online: bool
    registered_at: datetime
    last_heartbeat: datetime
    last_activity: str | None
    last_activity_time: datetime | None
    waiting_in: str | None
    client: str | None = None
    """The client program it was last seen in, e.g. claude-code."""
    project: str | None = None
    """The project it works on, where its client said so."""

    @property
    def shown_name(self) -> str:
        return self.display_name or self.name

    def answers_to(self, name: str) -> bool:
        return name.removeprefix("@") in {self.id, self.slug, self.name, self.display_name}


@dataclass(frozen=True, slots=True)
class Token:
    """A credential as listed: never the secret itself."""

    id: str
    workspace: str
    kind: Literal["human", "agent"]
    name: str
    agent_id: str | None
    scopes: list[TokenScope]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
