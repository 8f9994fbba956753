"""Administration of a workspace over HTTP: its tokens, the applications that people let in, and its audit log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal
from uuid import uuid4

from pydantic import AfterValidator, Field

from palaver.errors import Invalid, NotFound, Refused, Unavailable
from palaver.model import visibility
from palaver.model.admin.audit import Deed, signature
from palaver.model.admin.oauth import Application
from palaver.model.people import Caller, Token, TokenKind, TokenScope
from palaver.model.requests import Id, Line, NoArguments, Request, clamp
from palaver.model.times import now, parse
from palaver.operations.operation import Route, operation
from palaver.store.admin.keyring import Keyring
from palaver.store.bus import agents, names
from palaver.store.engines.database import Change
from palaver.store.workspaces import Workspace

LONGEST = timedelta(days=36500)
SCOPES: tuple[TokenScope, ...] = ("read", "write", "admin")


def keyring_of(workspace: Workspace) -> Keyring:
    if workspace.keyring is None:
        raise Unavailable("This workspace has no tokens: it was opened without its server.")
    return workspace.keyring


@operation(Route("GET", "/api/tokens"))
async def list_tokens(workspace: Workspace, caller: Caller, request: NoArguments) -> list[Token]:
    """List the tokens of your workspace with their owners, scopes and last use. Secrets are never shown."""
    return await keyring_of(workspace).tokens()


def _some_name(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise ValueError("must not be empty and must have only printable characters")
    return name.strip()


class CreateToken(Request):
    kind: Literal["human", "agent"] = "human"
    """human or agent."""
    name: Annotated[Line, AfterValidator(_some_name)]
    """Name of the person, or slug of the agent. An unknown agent is created."""
    scopes: Annotated[list[TokenScope], Field(max_length=10)] = Field(default=["read", "write"])
    """Permissions of the token: read, write, admin."""
    expires_at: Id | None = None
    """Expiry time (ISO 8601). Without this and `days` the token does not expire."""
    days: Annotated[int, clamp(1, 36500)] | None = None
    """Number of days until the token expires."""
    workspace: Id | None = None
    """Your own workspace. No other workspace is allowed."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token with its secret, which is shown only here."""

    secret: str
    token: Token


@operation(Route("POST", "/api/tokens", status=201))
async def create_token(workspace: Workspace, caller: Caller, request: CreateToken) -> NewToken:
    """Create a token for your workspace. The secret is shown only in this answer; the server stores its hash."""
    if request.workspace not in (None, workspace.name):
        raise NotFound("workspace", request.workspace or "")
    if not request.scopes:
        raise Invalid("scopes: choose from read, write and admin.")
    scopes = [scope for scope in SCOPES if scope in request.scopes]
    token, secret = await issue(workspace, request.kind, request.name, scopes, _span(request), signature(caller))
    return NewToken(secret, token)


async def issue(
    here: Workspace, kind: TokenKind, name: str, scopes: list[TokenScope], expires_in: timedelta | None, by: str
) -> tuple[Token, str]:
    """Create a token for a person or an agent, and return it with its secret. An unknown agent is registered."""

    def take_name(change: Change) -> tuple[str | None, str]:
        if kind == "human":  # no agent may be called like a person
            names.must_be_free(change, name, by=names.PEOPLE + name)
            names.take_for_people(change, [name])
            return None, name
        agent = agents.named(change, name)
        if agent is None:
            names.must_be_free(change, name)
            agent, _ = agents.register(change, agents.NewAgent(name, is_online=False))
        return agent.id, agent.slug

    agent_id, taken = await here.change(take_name)
    at = now()
    until = at + expires_in if expires_in else None
    token = Token(str(uuid4())[:8], here.name, kind, taken, agent_id, scopes, at, until, None)
    return token, await keyring_of(here).create(token, by)


def _span(request: CreateToken) -> timedelta | None:
    if request.expires_at is None:
        return timedelta(days=request.days) if request.days else None
    try:
        until: datetime = parse(request.expires_at, end_of_day=True)
    except (ValueError, OverflowError):
        raise Invalid("expires_at: must be a time like 2030-01-31T12:00:00Z, or a date.") from None
    left = until - now()
    if left <= timedelta(0):
        raise Refused("expires_at: is in the past. Choose a later time, or leave it out.")
    return min(left, LONGEST)


class RevokeToken(Request):
    token_id: Id
    """Id of the token, as listed."""


@dataclass(frozen=True, slots=True)
class Revoked:
    revoked: str


@operation(Route("DELETE", "/api/tokens/{token_id}"))
async def revoke_token(workspace: Workspace, caller: Caller, request: RevokeToken) -> Revoked:
    """Revoke a token of your workspace at once. Streams and connections that use it are closed."""
    return Revoked((await keyring_of(workspace).revoke(request.token_id, signature(caller))).id)


@operation(Route("GET", "/api/applications"))
async def list_applications(workspace: Workspace, caller: Caller, request: NoArguments) -> list[Application]:
    """List the applications that you let in with OAuth. Admins see those of everybody in the workspace."""
    visibility.must_be_person(caller)
    person = _only_of(caller)
    return [one for one in await keyring_of(workspace).applications() if person in (None, one.person)]


class RevokeApplication(Request):
    application_id: Id
    """Id of the application, as listed."""


@dataclass(frozen=True, slots=True)
class RevokedApplication:
    revoked: str


@operation(Route("DELETE", "/api/applications/{application_id}"))
async def revoke_application(workspace: Workspace, caller: Caller, request: RevokeApplication) -> RevokedApplication:
    """Revoke an application that you let in: its tokens and connections end at once. Admins can revoke all."""
    visibility.must_be_person(caller)
    keyring = keyring_of(workspace)
    revoked = await keyring.revoke_application(request.application_id, _only_of(caller), signature(caller))
    return RevokedApplication(revoked.id)


def _only_of(caller: Caller) -> str | None:
    """The person whose applications the caller manages; None for those of everybody."""
    return None if "admin" in caller.scopes else caller.name


@operation(Route("GET", "/api/workspaces"))
async def list_workspaces(workspace: Workspace, caller: Caller, request: NoArguments) -> list[str]:
    """List the workspaces you administer: the one of your token. Use the command line to create workspaces."""
    return [workspace.name]


class ListDeeds(Request):
    kind: Id | None = None
    """Only this kind: login, logout, token, workspace, denied, export, deletion or upkeep."""
    limit: Annotated[int, clamp(1, 1000)] = 100
    """Maximum number of entries."""


@operation(Route("GET", "/api/audit"))
async def list_deeds(workspace: Workspace, caller: Caller, request: ListDeeds) -> list[Deed]:
    """List the audit log of your workspace, newest first: logins, token changes, denials, exports, deletions. That of
    the default workspace also has failed logins and other requests of unknown callers."""
    keyring = keyring_of(workspace)
    return await keyring.deeds(request.kind, request.limit, with_unknown_callers=workspace.is_default)
