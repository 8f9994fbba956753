"""Workspaces, the people in them, tokens and the audit log: managed where the data is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Literal, TypeVar

import click

from palaver.app import DEFAULT, House
from palaver.doors.cli import output, target
from palaver.doors.cli.connection import open_house
from palaver.errors import NotFound, Refused
from palaver.model.audit import KINDS
from palaver.model.events import encode
from palaver.model.people import ALL_SCOPES, Token, TokenScope

T = TypeVar("T")

LONGEST = timedelta(days=36500)
SHOWN = ("format", "json", *target.ON_THE_DATA)


def inside(work: Callable[[House], Awaitable[T]]) -> T:
    where = target.here(click.get_current_context())
    if where.server:
        raise Refused("Workspaces and tokens are managed where the data is: leave --url and PALAVER_URL out.")

    async def run() -> T:
        async with open_house(where.settings()) as house:
            return await work(house)

    return asyncio.run(run())


def _show(answer: Any, *columns: str) -> None:
    where = target.here(click.get_current_context())
    output.show(json.loads(encode(answer)), where.format, columns=columns, rows="rows")


@target.takes(*SHOWN)
@click.command("create", no_args_is_help=True)
@click.argument("name")
@click.pass_obj
def create_workspace(where: target.Where, name: str) -> None:
    """Make a workspace: a world of its own, which no other can look into."""
    name = target.workspace_name(name)
    inside(lambda house: house.create_workspace(name))
    if where.format == "table":
        output.note(f"Made the workspace '{name}'. Let somebody in: palaver token create --workspace {name}")
    _show([{"name": name}], "name")


@target.takes(*SHOWN)
@click.command("list")
def list_workspaces() -> None:
    """The workspaces there are."""
    _show([{"name": name} for name in inside(lambda house: house.workspaces())], "name")


@target.takes(*SHOWN)
@click.command("delete", no_args_is_help=True)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete_workspace(name: str, yes: bool) -> None:
    """Delete a workspace for good: everything in it, its tokens and its logins.

    Whoever is in it is shown out. Backups made earlier still hold it.
    """
    name = target.workspace_name(name)
    if not yes:
        click.confirm(f"Everything in the workspace '{name}' will be gone. Go on?", abort=True, err=True)
    count = inside(lambda house: house.delete_workspace(name))
    output.note(f"Deleted the workspace '{name}' and {count} token{'' if count == 1 else 's'}.")


class Span(click.ParamType[timedelta]):
    """How long: a number and s, m, h, d or w."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        found = re.fullmatch(r"(\d{1,6})([smhdw])", str(value).strip())
        if found is None or int(found[1]) == 0:
            self.fail(f"'{value}' is no span of time. Say 30d, 12h, 45m or 4w.", param, ctx)
        unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[found[2]]
        span = timedelta(**{unit: int(found[1])})
        if span > LONGEST:
            self.fail("that is more than a hundred years; leave it out for a token that never runs out.", param, ctx)
        return span


@target.takes("workspace", *SHOWN)
@click.command("create")
@click.option("--agent", metavar="SLUG", help="The agent it is for; a new one comes to be.")
@click.option("--human", metavar="NAME", help="The person it is for. [default: human]")
@click.option("--scope", multiple=True, help="read, write, admin, separated by commas. [default: read,write]")
@click.option("--expires", type=Span(), help="When it runs out, e.g. 30d or 12h. [default: never]")
@click.pass_obj
def create_token(
    where: target.Where, agent: str | None, human: str | None, scope: tuple[str, ...], expires: timedelta | None
) -> None:
    """Make a token and print it, alone, on standard output.

    It is shown this once; only a hash is kept. It belongs to one workspace, and there to one person or agent.
    """
    if agent is not None and human is not None:
        raise Refused("A token is for a person or for an agent: give --human or --agent, not both.")
    kind: Literal["human", "agent"] = "human" if agent is None else "agent"
    name = (human if agent is None else agent) or "human"
    _make(where, kind, name, _scopes(scope), expires)


def _make(
    where: target.Where,
    kind: Literal["human", "agent"],
    name: str,
    scopes: list[TokenScope],
    expires: timedelta | None,
) -> None:
    workspace = where.workspace or DEFAULT
    token, secret = inside(lambda house: house.create_token(workspace, kind, name, scopes, expires))
    if where.format != "table":
        output.show({"token": secret} | json.loads(encode(token)), where.format)
        return
    until = f" until {token.expires_at:%Y-%m-%d %H:%M} UTC" if token.expires_at else ""
    output.note(
        f"Token {token.id} lets {kind} '{token.name}' {', '.join(scopes)} in workspace '{workspace}'{until}. "
        "It is shown this once."
    )
    output.say(secret)


def _scopes(given: tuple[str, ...]) -> list[TokenScope]:
    names = {name.strip() for text in given or ("read,write",) for name in text.split(",") if name.strip()}
    if not names or names - ALL_SCOPES:
        raise Refused(f"'{','.join(given)}' is no scope. Choose from read, write and admin.")
    known: tuple[TokenScope, ...] = ("read", "write", "admin")
    return [scope for scope in known if scope in names]


@target.takes("workspace", *SHOWN)
@click.command("list")
@click.pass_obj
def list_tokens(where: target.Where) -> None:
    """The tokens there are: for whom, how far they reach, when they were used. Never their secrets."""
    found = inside(lambda house: house.tokens())
    columns = ("id", "workspace", "kind", "name", "scopes", "created_at", "expires_at", "last_used_at")
    _show([token for token in found if where.workspace in (None, token.workspace)], *columns)


@target.takes(*SHOWN)
@click.command("revoke", no_args_is_help=True)
@click.argument("id")
def revoke_token(id: str) -> None:
    """End a token at once: what carries it is refused, and streams and connections made with it close.

    ID is as 'palaver token list' shows it, or the token itself.
    """
    output.note(f"Revoked the token {inside(lambda house: house.revoke_token(id))}.")


# People


@target.takes("workspace", *SHOWN)
@click.command("add", no_args_is_help=True)
@click.argument("name")
@click.option("--scope", multiple=True, help="read, write, admin, separated by commas. [default: read,write]")
@click.option("--expires", type=Span(), help="When the token runs out, e.g. 30d or 12h. [default: never]")
@click.pass_obj
def add_user(where: target.Where, name: str, scope: tuple[str, ...], expires: timedelta | None) -> None:
    """Let a person into a workspace: makes a token and prints it, alone, on standard output.

    A person may have several tokens, one for each place they work from.
    """
    if not name.strip():
        raise Refused("Say who it is: a name.")
    _make(where, "human", name.strip(), _scopes(scope), expires)


@target.takes("workspace", *SHOWN)
@click.command("list")
@click.pass_obj
def list_users(where: target.Where) -> None:
    """Who can come in: people and agents, with their workspace, how far they reach and when they last did."""
    found = inside(lambda house: house.tokens())
    people: dict[tuple[str, str, str], list[Token]] = {}
    for token in found:
        if where.workspace in (None, token.workspace):
            people.setdefault((token.workspace, token.kind, token.name), []).append(token)
    rows = [
        {
            "name": name,
            "kind": kind,
            "workspace": workspace,
            "scopes": [scope for scope in ("read", "write", "admin") if any(scope in t.scopes for t in theirs)],
            "tokens": len(theirs),
            "last_used_at": max((t.last_used_at for t in theirs if t.last_used_at), default=None),
        }
        for (workspace, kind, name), theirs in sorted(people.items())
    ]
    _show(rows, "name", "kind", "workspace", "scopes", "tokens", "last_used_at")


@target.takes("workspace", *SHOWN)
@click.command("remove", no_args_is_help=True)
@click.argument("name")
@click.option("--agent", is_flag=True, help="The name is an agent's.")
@click.pass_obj
def remove_user(where: target.Where, name: str, agent: bool) -> None:
    """End every token of a person (or an agent) in a workspace. What they wrote stays."""
    workspace, kind = where.workspace or DEFAULT, "agent" if agent else "human"

    async def work(house: House) -> int:
        theirs = [t for t in await house.tokens() if (t.workspace, t.kind, t.name) == (workspace, kind, name)]
        if not theirs:
            raise NotFound("user", name, f"'palaver user list --workspace {workspace}' shows who there is.")
        for token in theirs:
            await house.revoke_token(token.id)
        return len(theirs)

    count = inside(work)
    output.note(f"Ended {count} token{'s' if count > 1 else ''} of {kind} '{name}' in workspace '{workspace}'.")


# The audit log


@target.takes("workspace", *SHOWN)
@click.command()
@click.option("--kind", type=click.Choice(KINDS), help="Only entries of this kind.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@click.option("--verify", is_flag=True, help="Check the chain of hashes instead, and print the newest one.")
@click.pass_obj
def audit(where: target.Where, kind: str | None, limit: int, verify: bool) -> int:
    """Who did what: logins, token changes, denials, exports, deletions; newest first. No message text is in it.

    Each entry's hash covers the one before, so a changed or missing entry is found by --verify. Keep the hash it
    prints somewhere else, and nobody can rewrite the log unnoticed, not even who can write to the data.
    """
    if not verify:
        found = inside(lambda house: house.deeds(where.workspace, kind, limit))
        _show(found, "id", "at", "workspace", "kind", "who", "what", "facts")
        return 0

    async def work(house: House) -> tuple[list[str], list[Any]]:
        return await house.check(), await house.deeds(limit=1)

    problems, newest = inside(work)
    for problem in problems:
        output.note(f"✗ {problem}")
    if not problems:
        last = {"id": newest[0].id, "hash": newest[0].hash} if newest else {"id": 0, "hash": ""}
        output.show({"is_whole": True} | last, where.format)
    return 1 if problems else 0
