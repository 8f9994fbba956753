"""Command `setup`: connect the clients on this machine, check them, and take palaver out again."""

from __future__ import annotations

import asyncio
import difflib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from palaver import __version__
from palaver.doors.cli import options, output, recording_problem
from palaver.doors.cli.watch import Progress, summary, turn_store
from palaver.doors.local.running_server import answer_of, client_settings
from palaver.errors import Invalid, PalaverError
from palaver.operations.sessions.private import privacy_rules
from palaver.operations.sessions.watch import Watch, default_folders
from palaver.settings import LOOPBACK, Settings
from palaver.setup import agents_md as blocks
from palaver.setup import changes, files
from palaver.setup.changes import ClientPlan, FileChange, SetupTask, mask
from palaver.setup.check import NamedServer, NoAnswer, State, check, greet, probe_recording
from palaver.setup.clients import (
    BY_NAME,
    CLIENTS,
    ClientProgram,
    Machine,
    Options,
    Server,
    about_history,
    is_temporary,
    palaver_path,
    this_machine,
)

CHECK_HELP = "Check the clients by a real handshake, record a probe session and delete it, and change nothing."
ASK_HELP = "Ask for permissions of Claude Code, Codex and opencode in the inbox, too. Without it, that is turned off."
CONNECTION = "connection.json"
"""The address and token of a team's server, for `palaver hook` and `palaver watch`."""


@dataclass(frozen=True)
class Flags:
    """The options of the command."""

    url: str | None
    token: str | None
    stdio: bool
    no_hooks: bool
    no_wake: bool
    no_skill: bool
    keep_history: bool
    ask_permission: bool
    no_import: bool
    yes: bool
    dry_run: bool
    remove: bool
    is_check: bool


@dataclass(frozen=True)
class Place:
    """The server that clients shall use, and what there is to say about it."""

    server: Server
    connection: dict[str, str]
    """The content of connection.json. {}: no such file."""

    remarks: list[str]

    @property
    def base(self) -> str:
        return self.server.url.partition("/mcp?")[0]


class _Clients(click.ParamType[str]):
    name = "client"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = re.sub(r"[ _]+", "-", value.strip().lower())
        name = {"claude": "claude-code", "gemini": "gemini-cli", "vscode": "vs-code", "code": "vs-code"}.get(name, name)
        if name not in BY_NAME:
            self.fail(f"'{value}' is not a known client. Known clients: {', '.join(BY_NAME)}.", param, ctx)
        return name


@options.command("setup", "format", "json", "home")
@click.argument("clients", nargs=-1, type=_Clients(), metavar="[CLIENT]...")
@click.option("--url", metavar="URL", help="Use the server at this URL, such as your team's. '' means this machine.")
@click.option("--token", metavar="TOKEN", help="Token for the server. [default: PALAVER_TOKEN]")
@click.option("--stdio", is_flag=True, help="Let clients start 'palaver mcp' instead of connecting to a server.")
@click.option("--no-hooks", is_flag=True, help="Do not add hooks.")
@click.option("--no-wake", is_flag=True, help="Do not let messages wake idle agents.")
@click.option("--no-skill", is_flag=True, help="Do not add the skill.")
@click.option("--keep-history", is_flag=True, help="Let Claude Code keep its sessions for ten years.")
@click.option("--ask-permission", is_flag=True, help=ASK_HELP)
@click.option("--no-import", is_flag=True, help="Do not record the sessions that are on this machine already.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show the changes as a diff and make none.")
@click.option("--remove", is_flag=True, help="Take palaver out of the clients.")
@click.option("--check", "is_check", is_flag=True, help=CHECK_HELP)
@click.option(
    "--agents-md",
    is_flag=False,
    flag_value="AGENTS.md",
    metavar="[FILE]",
    help="Only put a short block about palaver into AGENTS.md (and CLAUDE.md) of this folder.",
)
def setup(target: options.Target, /, clients: tuple[str, ...], agents_md: str | None, **flags: Any) -> int:
    """Connect the AI clients on this machine to palaver.

    It finds Claude Code, Claude Desktop, Codex, Gemini CLI, Cursor, VS Code, opencode, Windsurf, Zed and Cline. In each
    it adds the MCP server, and hooks and a skill where the client has them. It shows the changes and asks first.

    Comments, order and other settings are kept. The first change of a file leaves a backup beside it. It is safe to
    repeat. 'palaver setup --remove' restores the files.

    Then it records the sessions that are on this machine. Claude Code deletes its own after 30 days; --keep-history
    changes that.

    With --url and --token the clients use a team's server. The token is stored in their settings.
    """
    asked = Flags(**flags)
    if agents_md is not None:
        if clients or asked.is_check:
            raise click.UsageError("--agents-md edits only that file. Run it without CLIENT and --check.")
        return _agents_md(target, agents_md, asked)
    machine = this_machine()
    place = _place(target, asked)
    chosen = [BY_NAME[name] for name in dict.fromkeys(clients)]
    return _check(target, chosen, machine, place) if asked.is_check else _change(target, chosen, machine, place, asked)


# The server


def _place(target: options.Target, asked: Flags) -> Place:
    settings, remarks, command = target.settings(), [], palaver_path()
    if is_temporary(command):
        remarks.append(
            f"{command} belongs to a temporary installation. Install palaver first: uv tool install palaver-bus"
        )
    kept = connection_of(settings.data) if asked.url is None and not target.server and not asked.stdio else {}
    address = (asked.url if asked.url is not None else target.server) or kept.get("url", "")
    token = asked.token or target.token or kept.get("token", "")
    read = urlsplit(address)
    if address:
        if read.scheme not in ("http", "https") or not read.hostname:
            raise Invalid(f"'{address}' is not the URL of a server. Use a URL such as https://palaver.example.")
        base = re.sub(r"/mcp/?$", "", address.partition("?")[0]).rstrip("/")
    else:
        base = client_settings(settings).base_url
    if asked.stdio and address:
        raise Invalid("--stdio uses the data of this machine. Leave out --url, or leave out --stdio.")
    server = Server(
        f"{base}/mcp?{read.query or 'tools=core'}",
        command,
        ("mcp", *settings.home_option),
        token if address or asked.token or kept or settings.needs_token else "",
        is_remote=bool(address) and read.hostname not in LOOPBACK,
        use_stdio=asked.stdio,
    )
    if not asked.stdio:
        remarks += _about_server(server)
    is_told = address or (asked.token and not asked.stdio)
    return Place(server, {"url": base, "token": token} if is_told else {}, remarks)


def connection_of(home: Path) -> dict[str, str]:
    """The team's server that an earlier setup was told about."""
    try:
        read = json.loads((home / CONNECTION).read_text("utf-8"))
        return {name: str(read[name]) for name in ("url", "token") if read.get(name)}
    except (OSError, ValueError, AttributeError):
        return {}


def _about_server(server: Server) -> Iterator[str]:
    try:
        greeting = greet(NamedServer(server.url, server.authorization))
    except NoAnswer as problem:
        yield f"The server does not answer yet. {problem}"
        if not server.is_remote:
            yield f"Clients look for it at {server.url}. If it gets another port, run setup again."
        return
    if greeting.name != "palaver":
        yield f"{server.url} is not palaver, but '{greeting.name}'. Use another port for one of them."
    elif greeting.version != __version__:
        yield greeting.says_other_version(__version__)


# Changes


def _change(target: options.Target, chosen: list[ClientProgram], machine: Machine, place: Place, asked: Flags) -> int:
    home, token, remarks = target.settings().data, place.server.token, list(place.remarks)
    is_table, verb = target.format == "table", "Remove palaver?" if asked.remove else "Make these changes?"
    can_ask = is_table and not (asked.yes or asked.dry_run) and sys.stdin.isatty() and output.is_terminal()
    history = "" if asked.remove or (chosen and BY_NAME["claude-code"] not in chosen) else about_history(machine)
    keep_history = asked.keep_history
    if can_ask and history and not keep_history:
        output.say(history)
        keep_history = click.confirm("Let it keep them for ten years?", default=True)
    with nullcontext() if asked.dry_run else files.lock(home):
        parts = Options(not asked.no_hooks, not asked.no_skill, keep_history, not asked.no_wake, asked.ask_permission)
        wanted = SetupTask(machine, place.server, files.Record(home), parts, asked.remove)
        plans = [changes.plan(client, wanted) for client in chosen or CLIENTS]
        plans = [plan for plan in plans if chosen or plan.is_installed or plan.changes or plan.kept]
        if is_table:
            _show_plans(plans, asked, token)
        if can_ask and any(plan.changes for plan in plans) and not click.confirm(verb, default=True):
            return 1
        results = [_make(plan, wanted.record, asked, token) for plan in plans]
        connection = home / CONNECTION
        if place.connection and not (asked.dry_run or asked.remove):
            files.write(connection, (json.dumps(place.connection) + "\n").encode(), mode=files.PRIVATE)
        elif not (asked.dry_run or (asked.remove and wanted.record.files)):
            connection.unlink(missing_ok=True)
    if history and not keep_history:
        remarks.append(f"{history} palaver keeps what it recorded. To keep them: palaver setup --keep-history")
    if not (asked.remove or asked.dry_run or asked.no_import):
        remarks += filter(None, [_record_history(target, place)])
    if is_table:
        _show_results(results, remarks, asked)
    else:
        output.show({"clients": results, "server": place.server.url, "notes": remarks}, target.format, rows="clients")
    is_nothing_there = bool(chosen) and not any(plan.is_installed or plan.changes for plan in plans)
    return 1 if is_nothing_there or any(result["problems"] for result in results) else 0


def _make(plan: ClientPlan, record: files.Record, asked: Flags, token: str) -> dict[str, Any]:
    """Make the changes of one client, and say what became of it. An error with one file leaves the others alone."""
    client, problems, done = plan.client, list(plan.problems), []
    notes = [*plan.notes, *plan.kept]
    for change in plan.changes:
        try:
            if not asked.dry_run:
                changes.make(change, record)
        except changes.FILE_PROBLEMS as problem:
            problems.append(changes.explain(problem, change.path))
            continue
        if change.action:
            made = {"file": str(change.path), "what": change.what, "action": change.action}
            done.append(made | ({"diff": "\n".join(diff_of(change, token))} if asked.dry_run else {}))
    status = "unchanged"
    if problems:
        status = "failed"
    elif done:
        would, did = ("would remove", "removed") if asked.remove else ("would change", "changed")
        status = would if asked.dry_run else did
        has_new_hooks = not asked.remove and any("hooks" in change.what for change in plan.changes)
        notes += filter(None, [client.advice, client.hook_advice if has_new_hooks else ""])
    elif plan.kept:
        status = "kept"
    elif not plan.is_installed:
        status = "not installed"
    said = {"client": client.name, "title": client.title, "status": status}
    return said | {"files": done, "notes": notes, "problems": problems}


def _show_plans(plans: list[ClientPlan], asked: Flags, token: str) -> None:
    for plan in plans:
        if not plan.is_installed and not plan.changes:
            output.say(f"{output.bold(plan.client.title)}: not installed")
            continue
        is_done = not (plan.changes or plan.kept or plan.problems or plan.notes)
        output.say(output.bold(plan.client.title) + (": nothing to change" if is_done else ""))
        for change in plan.changes:
            if change.action:
                output.say(f"  {change.action} {change.path}" + (f" ({', '.join(change.what)})" if change.what else ""))
            for line in diff_of(change, token) if asked.dry_run else ():
                output.say(output.clean(line))
        for line in plan.kept:
            output.say(f"  kept: {line}" + ("" if asked.remove else " To replace it, remove it and run setup again."))
        for line in plan.notes:
            output.say(f"  {line}")


def _show_results(results: list[dict[str, Any]], remarks: list[str], asked: Flags) -> None:
    for result in results:
        for problem in result["problems"]:
            output.note(f"{result['title']}: {problem}")
    if not results:
        output.note(f"No client was found on this machine. Known clients: {', '.join(BY_NAME)}.")
    done = [result for result in results if result["status"] in ("changed", "removed")]
    names = ", ".join(result["title"] for result in done)
    if done:
        restart = f"Connected {names}. Restart clients that are running."
        output.say(f"Removed palaver from {names}." if asked.remove else restart)
    elif not asked.dry_run and results and all(result["status"] == "unchanged" for result in results):
        output.say("Nothing to change.")
    for result in done:
        for note in result["notes"]:
            output.say(f"{result['title']}: {note}")
    for remark in () if asked.remove else remarks:
        output.say(remark)


def diff_of(change: FileChange, token: str = "") -> Iterator[str]:
    """A unified diff without tokens."""
    before, after = ((text or b"").decode("utf-8", "replace").splitlines() for text in (change.before, change.after))
    name = str(change.path)
    for line in difflib.unified_diff(before, after, name, name, lineterm=""):
        yield mask(line, token)


# The sessions that are on this machine already


def _record_history(target: options.Target, place: Place) -> str:
    """Record all sessions on this machine, at the server that clients use or in the local data. Returns the result.

    If the server on this machine records by itself, nothing is read twice.
    """
    folders = [folder for folder in default_folders() if folder.exists()]
    if not folders:
        return ""
    connection = place.connection
    if not connection and (recorded := _turns_recorded_by(place.base)) is not None:
        return f"The server records the sessions on this machine: {recorded:,} turns since its start."
    is_shown = target.format == "table" and sys.stderr.isatty()
    if is_shown:
        output.note("Recording the sessions on this machine. Ctrl-C stops it; 'palaver watch' goes on later.")

    async def work() -> str:
        there = replace(target, url=connection.get("url", ""))
        rules = privacy_rules(there.settings(), is_here=True)
        async with turn_store(there, connection.get("token") or None, is_patient=False) as store:
            watch = Watch(store, folders, progress=Progress(is_shown=is_shown).update, rules=rules)
            return summary(await watch.read_all(), "table")

    try:
        return asyncio.run(work())
    except KeyboardInterrupt:
        return "Stopped. 'palaver watch --once' records the other sessions."
    except PalaverError as problem:
        return f"The sessions on this machine were not recorded: {problem.message}"


def _turns_recorded_by(base: str) -> int | None:
    """How many turns the server has recorded of this machine's files; None if it records none, or does not answer."""
    try:
        return int((answer_of(base, "/readyz") or {})["watch"]["turns"])
    except (ValueError, KeyError, TypeError):
        return None


# Checks


def _check(target: options.Target, chosen: list[ClientProgram], machine: Machine, place: Place) -> int:
    server, home = place.server, target.settings().data
    states = [check(client, machine, server, __version__) for client in chosen or CLIENTS]
    problem = None
    if any(state.hooks not in ("", "none") for state in states):  # hooks record sessions
        problem = mask(probe_recording(home, place.connection, place.base, server.token), server.token)
        if problem:
            recording_problem.note(home, problem)
        else:
            recording_problem.clear(home)
    if target.format == "table":
        for state in states:
            sign = {True: "✓", False: "✗", None: "–"}[state.is_well]
            output.say(f"{sign} {output.bold(state.client.title)}: {says_of(state)}")
            for one in state.problems:
                output.say(f"    → {mask(one)}")
        if problem is not None:
            says = "not possible" if problem else "a probe session was recorded, found and deleted"
            output.say(f"{'✗' if problem else '✓'} {output.bold('Recording')}: {says}")
        if problem:
            output.say(f"    → {problem}")
    else:
        rows = [
            {"client": state.client.name, "title": state.client.title}
            | {name: value for name, value in vars(state).items() if name != "client"}
            | {"problems": [mask(one) for one in state.problems]}
            for state in states
        ]
        recording = {} if problem is None else {"recording": {"is_well": not problem, "problem": problem or None}}
        output.show({"clients": rows, **recording}, target.format, rows="clients")
    failed = bool(problem) or any(state.problems for state in states)
    return 1 if failed or (chosen and any(state.status != "connected" for state in states)) else 0


def says_of(state: State) -> str:
    says = state.status
    if state.server:
        says += f", {state.server}"
    if state.tools:
        says += f", palaver {state.version}, {state.tools} tools"
    if state.hooks:
        says += f", hooks: {state.hooks}, a message wakes it: {'yes' if state.wakes else 'no'}"
    return says


def client_states(settings: Settings) -> list[State]:
    """The states of the clients on this machine, for `palaver doctor`."""
    try:
        machine = this_machine()
    except PalaverError:
        return []
    url, arguments = f"{client_settings(settings).base_url}/mcp?tools=core", ("mcp", *settings.home_option)
    states = [check(client, machine, Server(url, palaver_path(), arguments), __version__) for client in CLIENTS]
    return [state for state in states if state.status != "not installed"]


# AGENTS.md


def _agents_md(target: options.Target, named: str, asked: Flags) -> int:
    rows = []
    for path in blocks.places(Path.cwd(), named):
        content = files.read(path)
        try:
            text = content.decode("utf-8") if content is not None else None
        except UnicodeDecodeError:
            raise Invalid(f"{path.name} is not UTF-8. It was left alone.") from None
        new = blocks.add(text) if not asked.remove else None if text is None else blocks.take_out(text)
        change = FileChange(path, ["block"], content, None if new is None else new.encode())
        rows.append({"file": str(path), "action": change.action or "unchanged"})
        if change.action and not asked.dry_run:
            if change.after is None:
                files.remove(path, [])
            else:
                files.write(path, change.after, expected=content, mode=None if content is not None else 0o644)
        if target.format == "table":
            would = "would " if asked.dry_run and change.action else ""
            output.say(f"{path.name}: {would}{change.action or 'unchanged'}")
            for line in diff_of(change) if asked.dry_run else ():
                output.say(line)
    if target.format != "table":
        output.show({"files": rows}, target.format, rows="files")
    return 0
