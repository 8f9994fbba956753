"""Tokens of one's own workspace, and what was done in it: for those who look after it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from palaver.errors import Forbidden, Invalid, NotFound, Refused, Unavailable
from palaver.model.audit import Deed, signature
from palaver.model.people import Caller, Token, TokenScope
from palaver.model.requests import Ask, Id, Line, clamp
from palaver.model.times import now, parse
from palaver.operations.operation import Route, operation
from palaver.store.admin.keyring import Keyring
from palaver.store.bus import agents
from palaver.store.engines.database import Change
from palaver.store.workspaces import Workspace

LONGEST = timedelta(days=36500)


class Nothing(Ask):
    """There is nothing to say."""


def _keyring(here: Workspace) -> Keyring:
    if here.keyring is None:
        raise Unavailable("This workspace stands alone: it has no tokens.")
    return here.keyring


def must_be_a_person(caller: Caller) -> None:
    if caller.is_agent:
        raise Forbidden("Tokens are managed by people, not by agents.")


@operation(Route("GET", "/api/tokens"), needs="admin")
async def list_tokens(here: Workspace, caller: Caller, ask: Nothing) -> list[Token]:
    """The tokens of your workspace: for whom, how far they reach, when they were used. Never their secrets."""
    must_be_a_person(caller)
    return await _keyring(here).tokens()


def _some_name(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise ValueError("must be a name that can be printed")
    return name.strip()


class CreateToken(Ask):
    kind: Literal["human", "agent"] = "human"
    """Whom it is for: a person or an agent."""
    name: Annotated[Line, AfterValidator(_some_name)]
    """The person's name, or the agent's slug; an agent that is new comes to be."""
    scopes: list[TokenScope] = Field(default=["read", "write"])
    """How far it reaches: read, write, admin."""
    expires_at: Id | None = None
    """When it runs out, as a time (ISO 8601). Never, if this and `days` are left out."""
    days: Annotated[int, clamp(1, 36500)] | None = None
    """After how many days it runs out."""
    workspace: Id | None = None
    """Your own workspace, if anything: no other can be named."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """The one time the secret is shown."""

    secret: str
    token: Token


@operation(Route("POST", "/api/tokens", status=201), needs="admin")
async def create_token(here: Workspace, caller: Caller, ask: CreateToken) -> NewToken:
    """Make a token for your workspace. Its secret is in the answer, this once; only a hash of it is kept."""
    must_be_a_person(caller)
    if ask.workspace not in (None, here.name):
        raise NotFound("workspace", ask.workspace or "")
    if not ask.scopes:
        raise Invalid("scopes: choose from read, write and admin.")
    known: tuple[TokenScope, ...] = ("read", "write", "admin")
    agent_id, name = None, ask.name
    if ask.kind == "agent":
        agent_id, name = await here.change(lambda change: known_agent(change, ask.name))
    token, secret = await _keyring(here).create(
        ask.kind, name, agent_id, [s for s in known if s in ask.scopes], _span(ask), signature(caller)
    )
    return NewToken(secret, token)


def _span(ask: CreateToken) -> timedelta | None:
    if ask.expires_at is None:
        return timedelta(days=ask.days) if ask.days else None
    try:
        until: datetime = parse(ask.expires_at, end_of_day=True)
    except (ValueError, OverflowError):
        raise Invalid("expires_at: must be a time like 2030-01-31T12:00:00Z, or a date.") from None
    left = until - now()
    if left <= timedelta(0):
        raise Refused("expires_at: is in the past. Choose a later time, or leave it out.")
    return min(left, LONGEST)


def known_agent(change: Change, name: str) -> tuple[str, str]:
    """The agent's id and slug; it comes to be if it is new."""
    agent = agents.named(change, name)
    if agent is None:
        agent, _ = agents.register(change, name=name, slug=agents.slug_of(name), is_online=False)
    return agent.id, agent.slug


class RevokeToken(Ask):
    token_id: Id
    """The token's id, as listed."""


@dataclass(frozen=True, slots=True)
class Revoked:
    revoked: str


@operation(Route("DELETE", "/api/tokens/{token_id}"), needs="admin")
async def revoke_token(here: Workspace, caller: Caller, ask: RevokeToken) -> Revoked:
    """End a token of your workspace at once. Whoever is in with it is shown out: streams and connections close."""
    must_be_a_person(caller)
    return Revoked((await _keyring(here).revoke(ask.token_id, signature(caller))).id)


@operation(Route("GET", "/api/workspaces"), needs="admin")
async def list_workspaces(here: Workspace, caller: Caller, ask: Nothing) -> list[str]:
    """The workspaces you look after: your token's own. New ones are made where the data is, at the terminal."""
    return [here.name]


class ListDeeds(Ask):
    kind: Id | None = None
    """Only these: login, logout, token, workspace, denied, export, deletion or upkeep."""
    limit: Annotated[int, clamp(1, 1000)] = 100
    """At most so many."""


@operation(Route("GET", "/api/audit"), needs="admin")
async def list_deeds(here: Workspace, caller: Caller, ask: ListDeeds) -> list[Deed]:
    """Your workspace's audit log, newest first: logins, token changes, denials, exports, deletions. No message text."""
    return await _keyring(here).deeds(ask.kind, ask.limit)
