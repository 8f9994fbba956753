"""Authentication: turn a token into a `Requester`, the caller and workspace of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from palaver.app import DEFAULT, App
from palaver.errors import Unauthorized
from palaver.model.admin.oauth import EVERYTHING
from palaver.model.people import Caller, Session, Token
from palaver.operations.admin.oauth import ACCESS_PREFIX
from palaver.settings import Settings
from palaver.store.workspaces import Workspace

INVALID_TOKEN = "This token is not valid: it is unknown, revoked or expired."


@dataclass(frozen=True, slots=True)
class Requester:
    workspace: Workspace
    caller: Caller
    token_id: str | None = None
    login: str | None = None
    """The key of the console login or of the OAuth access token that the request came with."""

    @property
    def keys(self) -> list[str]:
        """The token and login whose end also ends this request."""
        return [key for key in (self.token_id, self.login) if key]


@dataclass(frozen=True, slots=True)
class StdioClient:
    """A client of MCP on stdio. Its process id tells later whether it still runs."""

    requester: Requester
    settings: Settings
    pid: int
    project: str
    is_channel: bool = False
    """It is Claude Code, and messages shall wake it (doors/mcp/channel.py)."""


async def authenticate(
    app: App, secret: str | None, default: Literal["human", "agent"], *, needs_token: bool | None = None
) -> Requester:
    """The requester with this secret. Without one, a server that needs no token gives the default workspace.

    `needs_token` replaces that setting of the server.
    """
    if secret is None:
        if app.settings.needs_token if needs_token is None else needs_token:
            raise Unauthorized()
        return Requester(await app.open(DEFAULT), Caller(kind=default, name=default))
    if secret.startswith(ACCESS_PREFIX):
        return await _application(app, secret, is_mcp=default == "agent")
    token = await app.access.find_token(secret)
    if token is None:
        raise Unauthorized(INVALID_TOKEN)
    return await requester_with_token(app, token)


async def _application(app: App, secret: str, *, is_mcp: bool) -> Requester:
    """The connected application with this access token."""
    found = await app.oauth.find_access_token(secret) if app.settings.has_oauth else None
    if found is None:
        raise Unauthorized(INVALID_TOKEN)
    if found.application.resource != EVERYTHING and not is_mcp:
        raise Unauthorized("This token is for the MCP endpoint only. Ask for the resource of the whole server.")
    return await requester_with_token(app, found.token, found.key)


async def requester_with_token(app: App, token: Token, login: str | None = None) -> Requester:
    caller = Caller(
        kind=token.kind,
        name=token.name,
        agent_id=token.agent_id,
        scopes=frozenset(token.scopes),
        is_authenticated=True,
        token_id=token.id,
        session=Session(agent_id=token.agent_id),
    )
    return Requester(await app.open(token.workspace), caller, token.id, login)


def bearer_token(header: str | None) -> str | None:
    """The token in an Authorization header. Any scheme but Bearer is refused."""
    if header is None:
        return None
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthorized("Send the token as 'Authorization: Bearer plv_…'.")
    return secret.strip()
