"""Command `setup`: connect the clients on this machine, check them, and take palaver out again."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from palaver import __version__
from palaver.doors.cli import options, output, recording_problem
from palaver.doors.cli.manage.history import record_history
from palaver.doors.local.running_server import client_settings
from palaver.errors import Invalid, PalaverError
from palaver.settings import LOOPBACK, Settings
from palaver.setup import agents_md, changes, files
from palaver.setup.changes import Change, Plan
from palaver.setup.check import HandshakeError, State, ask_http, check
from palaver.setup.client import Client, Machine, Options, Server, this_machine
from palaver.setup.clients import CLIENTS
from palaver.setup.history import about_history
from palaver.setup.probe import probe_recording
from palaver.setup.program import is_temporary, palaver_path

BY_NAME = {client.name: client for client in CLIENTS}
CHECK_HELP = "Check the clients by a real handshake, record a probe session and delete it, and change nothing."
CONNECTION = "connection.json"
"""The address and token of a team's server, for `palaver hook` and `palaver watch`."""


@dataclass
class Result:
    """What became of one client."""

    client: str
    title: str
    status: str
    """changed, unchanged, would change, removed, would remove, kept, not installed, or failed."""

    files: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class _Clients(click.ParamType[str]):
    name = "client"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = re.sub(r"[ _]+", "-", value.strip().lower())
        name = {"claude": "claude-code", "gemini": "gemini-cli", "vscode": "vs-code", "code": "vs-code"}.get(name, name)
        if name not in BY_NAME:
            self.fail(f"'{value}' is not a known client. Known clients: {', '.join(BY_NAME)}.", param, ctx)
        return name


@options.add("format", "json", "home")
@click.command()
@click.argument("clients", nargs=-1, type=_Clients(), metavar="[CLIENT]...")
@click.option("--url", metavar="URL", help="Use the server at this URL, such as your team's. '' means this machine.")
@click.option("--token", metavar="TOKEN", help="Token for the server. [default: PALAVER_TOKEN]")
@click.option("--stdio", is_flag=True, help="Let clients start 'palaver mcp' instead of connecting to a server.")
@click.option("--no-hooks", is_flag=True, help="Do not add hooks.")
@click.option("--no-skill", is_flag=True, help="Do not add the skill.")
@click.option("--keep-history", is_flag=True, help="Let Claude Code keep its sessions for ten years.")
@click.option("--no-import", is_flag=True, help="Do not record the sessions that are on this machine already.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Also replace entries that a person wrote.")
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
@click.pass_obj
def setup(
    target: options.Target,
    clients: tuple[str, ...],
    url: str | None,
    token: str | None,
    stdio: bool,
    no_hooks: bool,
    no_skill: bool,
    keep_history: bool,
    no_import: bool,
    yes: bool,
    force: bool,
    dry_run: bool,
    remove: bool,
    is_check: bool,
    agents_md: str | None,
) -> int:
    """Connect the AI clients on this machine to palaver.

    It finds Claude Code, Claude Desktop, Codex, Gemini CLI, Cursor, VS Code, opencode, Windsurf, Zed and Cline. In each
    it adds the MCP server, and hooks and a skill where the client has them. It shows the changes and asks first.

    Comments, order and other settings are kept. The first change of a file leaves a backup beside it. It is safe to
    repeat. 'palaver setup --remove' restores the files.

    Then it records the sessions that are on this machine. Claude Code deletes its own after 30 days; --keep-history
    changes that.

    With --url and --token the clients use a team's server. The token is stored in their settings.
    """
    if agents_md is not None:
        if clients or is_check:
            raise click.UsageError("--agents-md edits only that file. Run it without CLIENT and --check.")
        return _agents_md(target, agents_md, remove=remove, dry_run=dry_run)
    machine, settings = this_machine(), target.settings()
    server, remarks, connection = _server(target, settings, url, token, stdio)
    chosen = [BY_NAME[name] for name in dict.fromkeys(clients)]
    if is_check:
        return _check(target, settings.data, chosen, machine, server, connection)
    is_table = target.format == "table"
    can_ask = is_table and not (yes or dry_run) and sys.stdin.isatty() and output.is_terminal()
    question = "Remove palaver?" if remove else "Make these changes?"
    history = "" if remove or (chosen and BY_NAME["claude-code"] not in chosen) else about_history(machine)
    if can_ask and history and not keep_history:
        output.say(history)
        keep_history = click.confirm("Let it keep them for ten years?", default=True)
    with nullcontext() if dry_run else files.lock(settings.data):
        record = files.Record(settings.data)
        wanted = Wanted(
            machine, server, Options(not no_hooks, not no_skill, keep_history), record, remove=remove, force=force
        )
        plans = [wanted.plan(client) for client in chosen or CLIENTS]
        shown = [plan for plan in plans if chosen or plan.is_installed or plan.changes or plan.kept]
        if is_table:
            _show_plans(shown, remove=remove, dry_run=dry_run, secrets=[server.token])
        if can_ask and any(plan.kept for plan in shown) and click.confirm("Also change what a person wrote?"):
            shown = [replace(wanted, force=True).plan(plan.client) for plan in shown]
        if can_ask and any(plan.changes for plan in shown) and not click.confirm(question, default=True):
            return 1
        results = [_make(plan, record, remove=remove, dry_run=dry_run, secrets=[server.token]) for plan in shown]
        if not dry_run:
            _keep_connection(settings.data, connection, record, remove=remove)
    if history and not keep_history:
        remarks.append(f"{history} palaver keeps what it recorded. To keep them: palaver setup --keep-history")
    if not (remove or dry_run or no_import) and (
        said := record_history(target, server.url.partition("/mcp")[0], connection)
    ):
        remarks.append(said)
    failed = any(result.problems for result in results) or (
        bool(chosen) and not any(plan.is_installed or plan.changes for plan in shown)
    )
    if not is_table:
        answer = {"clients": [vars(result) for result in results], "server": server.url, "notes": remarks}
        output.show(answer, target.format, rows="clients")
        return 1 if failed else 0
    for result in results:
        for problem in result.problems:
            output.note(f"{result.title}: {problem}")
    if not shown:
        output.note(f"No client was found on this machine. Known clients: {', '.join(BY_NAME)}.")
    for line in _farewell(results, remarks, remove=remove, dry_run=dry_run):
        output.say(line)
    return 1 if failed else 0


@dataclass(frozen=True)
class Wanted:
    """What this run of setup was asked to do."""

    machine: Machine
    server: Server
    options: Options
    record: files.Record
    remove: bool
    force: bool

    def plan(self, client: Client) -> Plan:
        here = replace(self.server, use_stdio=True) if client.starts_programs_only else self.server
        if self.remove:
            return changes.plan_removal(client, self.machine, here, self.record, force=self.force)
        if not client.is_installed(self.machine):
            return Plan(client, is_installed=False)
        if client.starts_programs_only and self.server.is_remote:
            return Plan(client, notes=["It only starts programs. Add a remote server in its own settings."])
        return changes.plan_setup(client, self.machine, here, self.options, self.record, force=self.force)


# The server


def _server(
    target: options.Target, settings: Settings, url: str | None, token: str | None, stdio: bool
) -> tuple[Server, list[str], dict[str, str] | None]:
    """The server to connect to, remarks about it, and the content of connection.json (None: no such file)."""
    remarks: list[str] = []
    command = palaver_path()
    if is_temporary(command):
        remarks.append(
            f"{command} belongs to a temporary installation. Install palaver first: uv tool install palaver-bus"
        )
    kept = connection_of(settings.data) if url is None and not target.server and not stdio else {}
    address = (url if url is not None else target.server) or kept.get("url", "")
    secret = token or target.token or kept.get("token", "")
    if address:
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
            raise Invalid(f"'{address}' is not the URL of a server. Use a URL such as https://palaver.example.")
        base = re.sub(r"/mcp/?$", "", address.partition("?")[0]).rstrip("/")
    else:
        base = client_settings(settings).base_url
    server = Server(
        f"{base}/mcp?{urlsplit(address).query or 'tools=core'}",
        command,
        _stdio_arguments(settings),
        secret if address or token or kept or settings.needs_token else "",
        is_remote=bool(address) and urlsplit(address).hostname not in LOOPBACK,
        use_stdio=stdio,
    )
    if stdio and address:
        raise Invalid("--stdio uses the data of this machine. Leave out --url, or leave out --stdio.")
    connection = {"url": base, "token": secret} if address or (token and not stdio) else None
    if not stdio:
        remarks += _about_server(server)
    return server, remarks, connection


def connection_of(home: Path) -> dict[str, str]:
    """The team's server that an earlier setup was told about."""
    try:
        read = json.loads((home / CONNECTION).read_text("utf-8"))
        return {name: str(read[name]) for name in ("url", "token") if read.get(name)}
    except (OSError, ValueError, AttributeError):
        return {}


def _keep_connection(home: Path, connection: dict[str, str] | None, record: files.Record, *, remove: bool) -> None:
    if remove:
        if not record.files:
            (home / CONNECTION).unlink(missing_ok=True)
    elif connection:
        files.write(home / CONNECTION, (json.dumps(connection) + "\n").encode(), mode=files.PRIVATE)
    else:
        (home / CONNECTION).unlink(missing_ok=True)


def _about_server(server: Server) -> Iterator[str]:
    try:
        greeting, _ = ask_http(server.url, server.headers.get("headers", {}))
    except HandshakeError as problem:
        yield f"The server does not answer yet. {problem}"
        if not server.is_remote:
            yield f"Clients look for it at {server.url}. If it gets another port, run setup again."
        return
    about = greeting.get("serverInfo") or {}
    if about.get("name") != "palaver":
        yield f"{server.url} is not palaver, but '{about.get('name')}'. Use another port for one of them."
    elif about.get("version") != __version__:
        yield f"The server is version {about.get('version')}, this command is {__version__}. Restart the server."


# Changes


def _make(plan: Plan, record: files.Record, *, remove: bool, dry_run: bool, secrets: list[str]) -> Result:
    """Make the changes of one client. An error with one file leaves the others alone."""
    result = Result(plan.client.name, plan.client.title, "unchanged", notes=[*plan.notes, *plan.kept])
    result.problems += plan.problems
    for change in plan.changes:
        try:
            if not dry_run:
                changes.make(change, record)
            if change.before == change.after:
                continue  # only the record was changed
            done = {"file": str(change.path), "what": change.what, "action": _action(change)}
            result.files.append(done | ({"diff": "\n".join(diff_of(change, secrets))} if dry_run else {}))
        except (OSError, PalaverError) as problem:
            result.problems.append(changes.explain(problem, change.path) or str(problem))
    if result.problems:
        result.status = "failed"
    elif result.files:
        verbs = ("would remove", "removed") if remove else ("would change", "changed")
        result.status = verbs[not dry_run]
        result.notes += _advice(plan, remove)
    elif plan.kept:
        result.status = "kept"
    elif not plan.is_installed:
        result.status = "not installed"
    return result


def _advice(plan: Plan, remove: bool) -> Iterator[str]:
    if plan.client.advice:
        yield plan.client.advice
    if plan.client.hook_advice and not remove and any("hooks" in change.what for change in plan.changes):
        yield plan.client.hook_advice


def _action(change: Change) -> str:
    if change.after is None:
        return "delete"
    return "create" if change.before is None else "change"


def _show_plans(plans: list[Plan], *, remove: bool, dry_run: bool, secrets: list[str]) -> None:
    for plan in plans:
        if not plan.is_installed and not plan.changes:
            output.say(f"{output.bold(plan.client.title)}: not installed")
            continue
        is_done = not plan.changes and not plan.kept and not plan.problems and not plan.notes
        output.say(output.bold(plan.client.title) + (": nothing to change" if is_done else ""))
        for change in plan.changes:
            if change.before == change.after:
                continue
            output.say(f"  {_action(change)} {change.path}" + (f" ({', '.join(change.what)})" if change.what else ""))
            if dry_run:
                for line in diff_of(change, secrets):
                    output.say(output.clean(line))
        for line in plan.kept:
            output.say(f"  kept: {line} Use --force to {'remove' if remove else 'replace'} it.")
        for line in plan.notes:
            output.say(f"  {line}")


def diff_of(change: Change, secrets: list[str]) -> Iterator[str]:
    """A unified diff without tokens."""
    before, after = ((text or b"").decode("utf-8", "replace").splitlines() for text in (change.before, change.after))
    name = str(change.path)
    for line in difflib.unified_diff(before, after, name, name, lineterm=""):
        yield mask(line, secrets)


def mask(text: str, secrets: list[str]) -> str:
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return re.sub(r"plv_[\w-]+|(?<=Bearer )[^\s\"']+", "***", text)


def _farewell(results: list[Result], remarks: list[str], *, remove: bool, dry_run: bool) -> Iterator[str]:
    done = [result for result in results if result.status in ("changed", "removed")]
    if done:
        names = ", ".join(result.title for result in done)
        yield f"Removed palaver from {names}." if remove else f"Connected {names}. Restart clients that are running."
    elif not dry_run and results and all(result.status == "unchanged" for result in results):
        yield "Nothing to change."
    for result in done:
        for note in result.notes:
            yield f"{result.title}: {note}"
    if not remove:
        yield from remarks


# Checks


def _check(
    target: options.Target,
    home: Path,
    chosen: list[Client],
    machine: Machine,
    server: Server,
    connection: dict[str, str] | None,
) -> int:
    states = [check(client, machine, server, __version__) for client in chosen or CLIENTS]
    problem = None
    if any(state.hooks not in ("", "none") for state in states):  # hooks record sessions
        base = server.url.partition("/mcp?")[0]
        problem = mask(probe_recording(home, connection, base, server.token), [server.token])
        if problem:
            recording_problem.note(home, problem)
        else:
            recording_problem.clear(home)
    if target.format == "table":
        for state in states:
            output.say(line_of(state))
        if problem is not None:
            says = "not possible" if problem else "a probe session was recorded, found and deleted"
            output.say(f"{'✗' if problem else '✓'} {output.bold('Recording')}: {says}")
        if problem:
            output.say(f"    → {problem}")
    else:
        rows = [
            {
                "client": state.client.name,
                "title": state.client.title,
                "status": state.status,
                "server": state.server,
                "version": state.version,
                "tools": state.tools,
                "hooks": state.hooks,
                "problems": [mask(problem, []) for problem in state.problems],
            }
            for state in states
        ]
        recording = {} if problem is None else {"recording": {"is_well": not problem, "problem": problem or None}}
        output.show({"clients": rows, **recording}, target.format, rows="clients")
    failed = bool(problem) or any(state.problems for state in states)
    return 1 if failed or (chosen and any(state.status != "connected" for state in states)) else 0


def line_of(state: State) -> str:
    sign = {True: "✓", False: "✗", None: "–"}[state.is_well]
    lines = [f"{sign} {output.bold(state.client.title)}: {says_of(state)}"]
    return "\n".join([*lines, *(f"    → {mask(problem, [])}" for problem in state.problems)])


def says_of(state: State) -> str:
    says = state.status
    if state.server:
        says += f", {state.server}"
    if state.tools:
        says += f", palaver {state.version}, {state.tools} tools"
    return says + (f", hooks: {state.hooks}" if state.hooks else "")


def _stdio_arguments(settings: Settings) -> tuple[str, ...]:
    return ("mcp", *settings.home_option)


def client_states(settings: Settings) -> list[State]:
    """The states of the clients on this machine, for `palaver doctor`."""
    try:
        machine = this_machine()
    except PalaverError:
        return []
    server = Server(f"{client_settings(settings).base_url}/mcp?tools=core", palaver_path(), _stdio_arguments(settings))
    states = [check(client, machine, server, __version__) for client in CLIENTS]
    return [state for state in states if state.status != "not installed"]


# AGENTS.md


def _agents_md(target: options.Target, named: str, *, remove: bool, dry_run: bool) -> int:
    rows = []
    for path in agents_md.places(Path.cwd(), named):
        content = files.read(path)
        try:
            text = content.decode("utf-8") if content is not None else None
        except UnicodeDecodeError:
            raise Invalid(f"{path.name} is not UTF-8. It was left alone.") from None
        new = agents_md.add(text) if not remove else None if text is None else agents_md.take_out(text)
        change = Change(path, ["block"], content, None if new is None else new.encode(), None)
        action = "unchanged" if change.before == change.after else _action(change)
        rows.append({"file": str(path), "action": action})
        if action != "unchanged" and not dry_run:
            if change.after is None:
                files.remove(path, [])
            else:
                files.write(path, change.after, expected=content, mode=None if content is not None else 0o644)
        if target.format == "table":
            output.say(f"{path.name}: {'would ' if dry_run and action != 'unchanged' else ''}{action}")
            if dry_run:
                for line in diff_of(change, []):
                    output.say(line)
    if target.format != "table":
        output.show({"files": rows}, target.format, rows="files")
    return 0
