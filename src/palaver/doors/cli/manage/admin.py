"""Administration commands on local data: workspaces, users, tokens, audit log, backup, restore, purge and demo."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import click

from palaver.app import DEFAULT, App
from palaver.doors.cli import options, output
from palaver.doors.cli.connection import open_app, open_workspace, refuse_server
from palaver.doors.cli.durations import Duration
from palaver.errors import NotFound, PalaverError, Refused
from palaver.model.admin.audit import KINDS
from palaver.model.events import encode
from palaver.model.people import ALL_SCOPES, Token, TokenKind
from palaver.operations.admin import backup as backups
from palaver.operations.admin import demo as demo_data
from palaver.operations.admin.purge import purge as purge_workspace
from palaver.operations.admin.tokens import SCOPES

T = TypeVar("T")

OUTPUT_AND_DATA = ("format", "json", *options.DATA)


def run_with_app(target: options.Target, work: Callable[[App], Awaitable[T]]) -> T:
    """Open the local data, do the work and close it again."""
    refuse_server(target)

    async def run() -> T:
        async with open_app(target.settings()) as app:
            return await work(app)

    return asyncio.run(run())


def _show(target: options.Target, answer: Any, *columns: str) -> None:
    output.show(json.loads(encode(answer)), target.format, columns=columns, rows="rows")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


# Workspaces


@options.command("create", *OUTPUT_AND_DATA, no_args_is_help=True)
@click.argument("name")
def create_workspace(target: options.Target, name: str) -> None:
    """Create a workspace. No other workspace can see its data."""
    name = options.workspace_name(name)
    run_with_app(target, lambda app: app.create_workspace(name))
    if target.format == "table":
        output.note(f"Created the workspace '{name}'. Give access to it: palaver token create --workspace {name}")
    _show(target, [{"name": name}], "name")


@options.command("list", *OUTPUT_AND_DATA)
def list_workspaces(target: options.Target) -> None:
    """List the workspaces."""
    _show(target, [{"name": name} for name in run_with_app(target, lambda app: app.workspaces())], "name")


@options.command("upgrade", *options.DATA)
@click.option("--jobs", type=click.IntRange(1, 16), default=4, show_default=True, help="Workspaces at the same time.")
def upgrade_workspaces(target: options.Target, jobs: int) -> None:
    """Bring the databases of all workspaces up to date after an upgrade of palaver.

    A server does this for each workspace when it is first used. With many workspaces, this command saves them the wait.
    If it is interrupted, run it again: it continues with the others.
    """

    async def work(app: App) -> tuple[int, int]:
        names, done = await app.workspaces(), 0

        def report(name: str, problem: str | None) -> None:
            nonlocal done
            done += 1
            if problem:
                output.note(f"{name}: {problem}")
            elif done % 100 == 0:
                output.note(f"{done:,} of {_count(len(names), 'workspace')}")

        return len(names), await app.upgrade_workspaces(jobs, report)

    count, problems = run_with_app(target, work)
    if problems:
        raise PalaverError(f"{problems:,} of {_count(count, 'workspace')} could not be upgraded. Run this again.")
    output.note(f"{_count(count, 'workspace')} up to date.")


@options.command("delete", *OUTPUT_AND_DATA, no_args_is_help=True)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_workspace(target: options.Target, name: str, yes: bool) -> None:
    """Permanently delete a workspace with its data, tokens and logins.

    Its connections are closed. Earlier backups still contain it.
    """
    name = options.workspace_name(name)
    if not yes:
        click.confirm(f"Delete everything in the workspace '{name}'?", abort=True, err=True)
    count = run_with_app(target, lambda app: app.delete_workspace(name))
    output.note(f"Deleted the workspace '{name}' and {_count(count, 'token')}.")


# Tokens


def _create_token(
    target: options.Target, kind: TokenKind, name: str, scope: tuple[str, ...], expires: timedelta | None
) -> None:
    workspace = target.workspace or DEFAULT
    names = {name.strip() for text in scope or ("read,write",) for name in text.split(",") if name.strip()}
    if not names or names - ALL_SCOPES:
        raise Refused(f"'{','.join(scope)}' is not a scope. Choose from read, write and admin.")
    scopes = [one for one in SCOPES if one in names]
    token, secret = run_with_app(target, lambda app: app.access.create_token(workspace, kind, name, scopes, expires))
    if target.format != "table":
        output.show({"token": secret} | json.loads(encode(token)), target.format)
        return
    until = f" until {token.expires_at:%Y-%m-%d %H:%M} UTC" if token.expires_at else ""
    output.note(
        f"Token {token.id} lets {kind} '{token.name}' {', '.join(scopes)} in workspace '{workspace}'{until}. "
        "It is shown only once."
    )
    output.say(secret)


scope_option = click.option("--scope", multiple=True, help="read, write, admin, comma-separated. [default: read,write]")
expires_option = click.option("--expires", type=Duration(), help="Lifetime, e.g. 30d or 12h. [default: unlimited]")


@options.command("create", "workspace", *OUTPUT_AND_DATA)
@click.option("--agent", metavar="SLUG", help="Agent that will use the token. An unknown agent is registered.")
@click.option("--human", metavar="NAME", help="Person who will use the token. [default: human]")
@scope_option
@expires_option
def create_token(
    target: options.Target, agent: str | None, human: str | None, scope: tuple[str, ...], expires: timedelta | None
) -> None:
    """Create a token for a person or an agent, and print it.

    Only the token goes to standard output. It is shown only once; the server keeps a hash of it. It belongs to one
    workspace, and there to one person or agent.
    """
    if agent is not None and human is not None:
        raise Refused("A token is for a person or for an agent. Give --human or --agent, not both.")
    kind: TokenKind = "human" if agent is None else "agent"
    _create_token(target, kind, agent or human or "human", scope, expires)


@options.command("list", "workspace", *OUTPUT_AND_DATA)
def list_tokens(target: options.Target) -> None:
    """List the tokens: owner, scopes and last use. Secrets are never shown."""
    found = run_with_app(target, lambda app: app.access.tokens())
    columns = ("id", "workspace", "kind", "name", "scopes", "created_at", "expires_at", "last_used_at")
    _show(target, [token for token in found if target.workspace in (None, token.workspace)], *columns)


@options.command("revoke", *OUTPUT_AND_DATA, no_args_is_help=True)
@click.argument("id")
def revoke_token(target: options.Target, id: str) -> None:
    """Revoke a token. Its requests are refused and its connections are closed at once.

    ID is the id from 'palaver token list', or the token itself.
    """
    output.note(f"Revoked the token {run_with_app(target, lambda app: app.access.revoke_token(id))}.")


# Connected applications


@options.command("list", "workspace", *OUTPUT_AND_DATA)
def list_applications(target: options.Target) -> None:
    """List the applications that people let in with OAuth: who, scopes and last use."""
    found = run_with_app(target, lambda app: app.oauth.applications())
    columns = ("id", "workspace", "person", "name", "agent", "scopes", "created_at", "last_used_at")
    _show(target, [one for one in found if target.workspace in (None, one.workspace)], *columns)


@options.command("revoke", *OUTPUT_AND_DATA, no_args_is_help=True)
@click.argument("id")
def revoke_application(target: options.Target, id: str) -> None:
    """Revoke an application. Its requests are refused and its connections are closed at once.

    ID is the id from 'palaver application list'. The person can let the application in again.
    """
    application = run_with_app(target, lambda app: app.oauth.revoke(id))
    output.note(f"Revoked the application {application.id}: {application.name} of {application.person}.")


# Users


@options.command("add", "workspace", *OUTPUT_AND_DATA, no_args_is_help=True)
@click.argument("name")
@scope_option
@expires_option
def add_user(target: options.Target, name: str, scope: tuple[str, ...], expires: timedelta | None) -> None:
    """Give a person access to a workspace: create a token and print it.

    Only the token goes to standard output. A person can have several tokens, for example one for each computer.
    """
    if not name.strip():
        raise Refused("The name must not be empty.")
    _create_token(target, "human", name.strip(), scope, expires)


@options.command("list", "workspace", *OUTPUT_AND_DATA)
def list_users(target: options.Target) -> None:
    """List people and agents with access: workspace, scopes and last use."""
    found = run_with_app(target, lambda app: app.access.tokens())
    people: dict[tuple[str, str, str], list[Token]] = {}
    for token in found:
        if target.workspace in (None, token.workspace):
            people.setdefault((token.workspace, token.kind, token.name), []).append(token)
    rows = [
        {
            "name": name,
            "kind": kind,
            "workspace": workspace,
            "scopes": [scope for scope in SCOPES if any(scope in t.scopes for t in theirs)],
            "tokens": len(theirs),
            "last_used_at": max((t.last_used_at for t in theirs if t.last_used_at), default=None),
        }
        for (workspace, kind, name), theirs in sorted(people.items())
    ]
    _show(target, rows, "name", "kind", "workspace", "scopes", "tokens", "last_used_at")


@options.command("remove", "workspace", *OUTPUT_AND_DATA, no_args_is_help=True)
@click.argument("name")
@click.option("--agent", is_flag=True, help="NAME is an agent.")
def remove_user(target: options.Target, name: str, agent: bool) -> None:
    """Revoke every token of a person or an agent in a workspace. Their texts stay."""
    workspace, kind = target.workspace or DEFAULT, "agent" if agent else "human"

    async def work(app: App) -> int:
        theirs = [t for t in await app.access.tokens() if (t.workspace, t.kind, t.name) == (workspace, kind, name)]
        if not theirs:
            raise NotFound("user", name, f"List the users with 'palaver user list --workspace {workspace}'.")
        for token in theirs:
            await app.access.revoke_token(token.id)
        return len(theirs)

    count = run_with_app(target, work)
    output.note(f"Revoked {_count(count, 'token')} of {kind} '{name}' in workspace '{workspace}'.")


# The audit log


@options.command("audit", "workspace", *OUTPUT_AND_DATA)
@click.option("--kind", type=click.Choice(KINDS), help="Only entries of this kind.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Maximum number of entries."
)
@click.option("--verify", is_flag=True, help="Check the hash chain instead, and print the newest hash.")
def audit(target: options.Target, kind: str | None, limit: int, verify: bool) -> int:
    """Show the audit log: logins, token changes, denials, exports and deletions, newest first.

    It contains no message text. The hash of each entry covers the entry before it, so --verify finds changed and
    missing entries. Store the printed hash elsewhere: it also reveals a log that was rewritten as a whole.
    """
    if not verify:
        found = run_with_app(target, lambda app: app.audit_log(target.workspace, kind, limit))
        _show(target, found, "id", "at", "workspace", "kind", "who", "what", "facts")
        return 0

    async def work(app: App) -> tuple[list[str], list[Any]]:
        return await app.check(), await app.audit_log(limit=1)

    problems, newest = run_with_app(target, work)
    for problem in problems:
        output.note(f"✗ {problem}")
    if not problems:
        last = {"id": newest[0].id, "hash": newest[0].hash} if newest else {"id": 0, "hash": ""}
        output.show({"is_whole": True} | last, target.format)
    return 1 if problems else 0


# Backup, restore and purge


@options.command("backup", *options.DATA, no_args_is_help=True)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(target: options.Target, file: Path) -> None:
    """Copy all data into FILE, a tar archive. Servers can keep working meanwhile.

    The archive is compressed if its name ends in .gz. It contains the databases, transcripts, uploads, token hashes
    and the audit log: keep it as safe as the data.
    """
    if not file.absolute().parent.is_dir():
        raise Refused(f"The folder {file.absolute().parent} does not exist.")

    async def work(app: App) -> int:
        workspaces = [await app.open(name) for name in await app.workspaces()]
        await backups.back_up(file.absolute(), app.settings, app.trail, workspaces)
        return len(workspaces)

    count = run_with_app(target, work)
    output.note(f"Wrote {file.name}: {_count(count, 'workspace')}, {file.stat().st_size / 1024**2:.1f} MB.")


@options.command("restore", *options.DATA, no_args_is_help=True)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def restore(target: options.Target, file: Path) -> None:
    """Restore a backup into an empty --home or an empty database.

    First the hash of every file and the integrity of every database are checked.
    """
    refuse_server(target)
    names = backups.restore(target.settings(), file)
    output.note(f"Restored {', '.join(names)}. Check the data with 'palaver doctor'.")


@options.command("purge", "workspace", *OUTPUT_AND_DATA)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def purge(target: options.Target, yes: bool) -> None:
    """Permanently remove deleted items: empty the trash and rewrite the database files.

    A deleted item leaves every list and search at once, but its text can stay in unused parts of the database files.
    After a purge no file contains it. Writing is blocked while files are rewritten, so choose a quiet hour for a large
    workspace. Earlier backups still contain the items.
    """
    if not yes:
        click.confirm("Items in the trash cannot be restored after this. Continue?", abort=True, err=True)

    async def work(app: App) -> list[Any]:
        names = [target.workspace] if target.workspace else await app.workspaces()
        return [await purge_workspace(await app.open(name), app.trail) for name in names]

    _show(target, run_with_app(target, work), "workspace", "items", "images")


# Demo data


@options.command("demo", "workspace", *options.DATA)
@click.option("--anyway", is_flag=True, help="Also if the workspace already has threads.")
def demo(target: options.Target, anyway: bool) -> None:
    """Fill a workspace with demo data: three weeks of a small team and its agents.

    Use an empty directory: palaver --home /tmp/lantern demo, then palaver --home /tmp/lantern serve.
    """
    story = tomllib.loads((files("palaver.doors.cli") / "demo_story.toml").read_text("utf-8"))

    async def work() -> demo_data.DemoCounts:
        async with open_workspace(target) as (_, here):
            return await demo_data.tell(here, story, anyway=anyway)

    told = asyncio.run(work())
    output.say(
        f"Added {told.messages} messages in {told.threads} threads, {told.turns} session turns and {told.kept} library "
        "items. Run 'palaver serve' and open the console."
    )
