"""Workspaces and tokens: managed where the data is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Literal, TypeVar

import click

from palaver.doors import cli_where, printing
from palaver.doors.client import open_house
from palaver.errors import Refused
from palaver.house import DEFAULT, House
from palaver.model.events import encode
from palaver.model.people import ALL_SCOPES, Scope

T = TypeVar("T")

LONGEST = timedelta(days=36500)
SHOWN = ("format", "json", *cli_where.ON_THE_DATA)


def _inside(work: Callable[[House], Awaitable[T]]) -> T:
    where = cli_where.here(click.get_current_context())
    if where.server:
        raise Refused("Workspaces and tokens are managed where the data is: leave --url and PALAVER_URL out.")

    async def run() -> T:
        async with open_house(where.settings()) as house:
            return await work(house)

    return asyncio.run(run())


def _show(answer: Any, *columns: str) -> None:
    where = cli_where.here(click.get_current_context())
    printing.show(json.loads(encode(answer)), where.format, columns=columns, rows="rows")


@cli_where.takes(*SHOWN)
@click.command("create", no_args_is_help=True)
@click.argument("name")
@click.pass_obj
def create_workspace(where: cli_where.Where, name: str) -> None:
    """Make a workspace: a world of its own, which no other can look into."""
    _inside(lambda house: house.create_workspace(name))
    if where.format == "table":
        printing.note(f"Made the workspace '{name}'. Let somebody in: palaver token create --workspace {name}")
    _show([{"name": name}], "name")


@cli_where.takes(*SHOWN)
@click.command("list")
def list_workspaces() -> None:
    """The workspaces there are."""
    _show([{"name": name} for name in _inside(lambda house: house.workspaces())], "name")


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


@cli_where.takes("workspace", *SHOWN)
@click.command("create")
@click.option("--agent", metavar="SLUG", help="The agent it is for; a new one comes to be.")
@click.option("--human", metavar="NAME", help="The person it is for. [default: human]")
@click.option("--scope", multiple=True, help="read, write, admin, separated by commas. [default: read,write]")
@click.option("--expires", type=Span(), help="When it runs out, e.g. 30d or 12h. [default: never]")
@click.pass_obj
def create_token(
    where: cli_where.Where, agent: str | None, human: str | None, scope: tuple[str, ...], expires: timedelta | None
) -> None:
    """Make a token and print it, alone, on standard output.

    It is shown this once; only a hash is kept. It belongs to one workspace, and there to one person or agent.
    """
    if agent is not None and human is not None:
        raise Refused("A token is for a person or for an agent: give --human or --agent, not both.")
    kind: Literal["human", "agent"] = "human" if agent is None else "agent"
    name = (human if agent is None else agent) or "human"
    workspace, scopes = where.workspace or DEFAULT, _scopes(scope)
    token, secret = _inside(lambda house: house.create_token(workspace, kind, name, scopes, expires))
    if where.format != "table":
        printing.show({"token": secret} | json.loads(encode(token)), where.format)
        return
    until = f" until {token.expires_at:%Y-%m-%d %H:%M} UTC" if token.expires_at else ""
    printing.note(
        f"Token {token.id} lets {kind} '{token.name}' {', '.join(scopes)} in workspace '{workspace}'{until}. "
        "It is shown this once."
    )
    printing.say(secret)


def _scopes(given: tuple[str, ...]) -> list[Scope]:
    names = {name.strip() for text in given or ("read,write",) for name in text.split(",") if name.strip()}
    if not names or names - ALL_SCOPES:
        raise Refused(f"'{','.join(given)}' is no scope. Choose from read, write and admin.")
    known: tuple[Scope, ...] = ("read", "write", "admin")
    return [scope for scope in known if scope in names]


@cli_where.takes("workspace", *SHOWN)
@click.command("list")
@click.pass_obj
def list_tokens(where: cli_where.Where) -> None:
    """The tokens there are: for whom, how far they reach, when they were used. Never their secrets."""
    found = _inside(lambda house: house.tokens())
    columns = ("id", "workspace", "kind", "name", "scopes", "created_at", "expires_at", "last_used_at")
    _show([token for token in found if where.workspace in (None, token.workspace)], *columns)


@cli_where.takes(*SHOWN)
@click.command("revoke", no_args_is_help=True)
@click.argument("id")
def revoke_token(id: str) -> None:
    """End a token at once: the next request that carries it is refused."""
    _inside(lambda house: house.revoke_token(id))
    printing.note(f"Revoked the token {id}.")
