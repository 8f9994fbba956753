"""OAuth: the programs that ask for access, and the applications that people have let in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from palaver.model.people import Token, TokenScope

EVERYTHING = "/"
"""The resource of an application that may use the whole server. Others may use the MCP endpoint only."""
MCP_RESOURCES = ("/mcp", "/sse")
SecretKind = Literal["code", "access", "refresh"]


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A program that may ask for access. Its name is what it says of itself."""

    id: str
    """A random id if it registered itself, else the address of its metadata document."""
    name: str
    redirect_uris: list[str]
    saved_at: datetime | None = None
    """When it registered, or when its metadata document was last read."""

    @property
    def has_document(self) -> bool:
        return self.id.startswith("https://")


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A request for access, as the consent page gets it."""

    client: OAuthClient
    redirect_uri: str
    scopes: list[TokenScope]
    resource: str
    code_challenge: str
    state: str | None


@dataclass(frozen=True, slots=True)
class Application:
    """A connected application: a program that a person let in with OAuth."""

    id: str
    name: str
    person: str
    """The person who let it in."""
    workspace: str
    agent: str
    """The slug of the agent it acts as."""
    agent_id: str
    scopes: list[TokenScope]
    resource: str
    """The part of the server it may use: /mcp, or / for everything."""
    client_id: str
    created_at: datetime
    expires_at: datetime
    """When it must ask the person again, unless it is used before."""
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class OAuthSecret:
    """A code, an access token or a refresh token that was presented."""

    application: Application
    scopes: list[TokenScope]
    expires_at: datetime
    is_used: bool
    redirect_uri: str
    code_challenge: str
    key: str
    """The hash under which it is stored."""

    @property
    def token(self) -> Token:
        """The token of an agent that an access token is. Its id stays the same when the access token is renewed."""
        one = self.application
        return Token(
            one.id, one.workspace, "agent", one.agent, one.agent_id, self.scopes, one.created_at, self.expires_at,
            one.last_used_at,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """A new access token and a new refresh token."""

    access: str
    refresh: str
    scopes: list[TokenScope]
    seconds: int
    """How long the access token is valid."""
