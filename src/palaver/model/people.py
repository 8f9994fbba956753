"""Callers, agents, and access tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from palaver.model.search import SearchSessionKey

TokenScope = Literal["read", "write", "admin"]
Answers = Literal["full", "plain", "compact"]
"""The form of answers: all that is known, as REST gives it; the fields of the specifications; or few tokens."""
TokenKind = Literal["human", "agent"]
ALL_SCOPES: frozenset[TokenScope] = frozenset({"read", "write", "admin"})

PROGRAM_TITLES = {
    "claude-code": "Claude Code",
    "claude-ai": "Claude",
    "codex": "Codex",
    "cursor": "Cursor",
    "gemini-cli": "Gemini CLI",
    "opencode": "opencode",
    "copilot": "Copilot CLI",
    "visual-studio-code": "VS Code",
    "windsurf": "Windsurf",
    "zed": "Zed",
    "cline": "Cline",
}
"""Names of client programs for people, by their short names. Hooks, MCP and the recorder use the same short names."""

OTHER_NAMES = {"gemini": "gemini-cli", "github-copilot": "copilot", "copilot-cli": "copilot"}
"""Programs that call themselves differently in different places."""
HOOKED = frozenset({"claude-code", "codex", "gemini-cli", "cursor", "opencode"})
"""Programs whose hooks `palaver setup` sets up."""
_ENDINGS = re.compile(r"(-mcp)?(-client)?$")


def program_of(name: str) -> str:
    """The short name, the same for all versions: 'codex-mcp-client' is 'codex'."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
    short = (_ENDINGS.sub("", plain) or plain)[:60]
    return OTHER_NAMES.get(short, short)


def title_of(name: str, title: str | None) -> str:
    return (title or PROGRAM_TITLES.get(program_of(name)) or name).strip()[:100]


@dataclass(frozen=True, slots=True)
class Client:
    """The program of an MCP caller, from clientInfo and the URL it uses."""

    program: str = ""
    """A short name that is the same for every copy of the program, e.g. claude-code."""
    title: str = ""
    """The display name, e.g. Claude Code."""
    project: str = ""
    """The project it works on; '' if unknown."""
    is_stateless: bool = False
    """Its requests are not linked to each other (MCP 2026-07-28 over HTTP)."""


@dataclass(slots=True)
class Session:
    """The agent of one connection. It lasts as long as the connection."""

    agent_id: str | None = None
    slug: str | None = None
    """The agent named by ?agent=, PALAVER_AGENT or --agent. It is created when it first acts."""
    key: str | None = None
    """The key under which the connection is stored, to survive a restart; None if it is not stored."""
    is_shared: bool = False
    """Another server may have answered the last call, so its agent is read from the database for each call."""
    is_assumed: bool = False
    """The call did not name its agent: the only active agent of the client program was assumed."""
    registered: set[str] = field(default_factory=set)
    """The agents that this connection registered. It got their secrets, so it may write in their names."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an operation. It comes from the credential (or the open default), never from an argument."""

    kind: Literal["human", "agent"]
    name: str = "human"
    agent_id: str | None = None
    scopes: frozenset[TokenScope] = ALL_SCOPES
    is_authenticated: bool = False
    token_id: str | None = None
    session: Session = field(default_factory=Session)
    client: Client = field(default_factory=Client)
    search_session: SearchSessionKey | None = None
    """The search session of this client, if it has one."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Its preferences for absent arguments, from the URL or the initialize message."""
    answers: Answers = "full"
    webhook: str | None = None
    """The id of the incoming webhook that posts. It is no person of the workspace."""
    trace: str | None = None
    """The W3C trace context (traceparent) of the call."""

    @property
    def is_agent(self) -> bool:
        return self.kind == "agent"

    @property
    def counted_as(self) -> str:
        """The name under which limits count this caller: its token, else its agent, its session, or its own name."""
        return self.token_id or self.session.agent_id or self.session.key or f"{self.kind} {self.name}"

    @property
    def owner(self) -> str:
        """Whose agents this caller has: its own, those of the person with the token, or those of the machine's user."""
        if not self.is_authenticated:
            return ""
        return f"agent:{self.agent_id}" if self.agent_id else f"human:{self.name}"

    @property
    def acting_agent(self) -> str | None:
        """The agent this caller acts as: that of its token, else that of its connection."""
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
    """The project it works on, if its client named one."""
    owner: str = ""
    """Whose agent it is: '' on an open server, 'human:NAME' for agents of a person with a token."""

    @property
    def shown_name(self) -> str:
        return self.display_name or self.name

    def answers_to(self, name: str) -> bool:
        return name.removeprefix("@") in {self.id, self.slug, self.name, self.display_name}


@dataclass(frozen=True, slots=True)
class Token:
    """An access token as listed, without its secret."""

    id: str
    workspace: str
    kind: Literal["human", "agent"]
    name: str
    agent_id: str | None
    scopes: list[TokenScope]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
