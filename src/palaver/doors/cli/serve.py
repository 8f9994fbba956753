"""Commands `serve` (HTTP server) and `mcp` (MCP server on standard input and output)."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import json
import os
import shlex
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from palaver import __version__
from palaver.doors.cli import options, output
from palaver.doors.cli.ask import no_collection
from palaver.errors import Unauthorized
from palaver.model.projects import project_of
from palaver.settings import LOOPBACK, Settings


class SettingType(click.ParamType[Any]):
    """Parses an option like the setting with the same name."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as problem:
            self.fail(f"{value!r} is not valid: {problem}.", param, ctx)


def settings_options(*names: str) -> Callable[[click.Command], click.Command]:
    """Decorator that adds an option for each of these settings."""

    def wrap(command: click.Command) -> click.Command:
        for setting in dataclasses.fields(Settings):
            if setting.name in names:
                default = f" [default: {setting.default}]" if setting.default not in (None, "", ()) else ""
                command.params.append(
                    click.Option(
                        ["--" + setting.name.replace("_", "-"), setting.name],
                        type=SettingType("text", setting.metadata["read"]),
                        help=setting.metadata["help"] + default,
                    )
                )
        return command

    return wrap


ONLY_STDIO = ("agent",)
WATCH_HELP = (
    "Record the sessions of the coding agents on this machine, as 'palaver watch' does. "
    "[default: on this machine without tokens]"
)
M_ARENA_MAX = -8
"""The number of this option in malloc.h of glibc."""
# Every user of the machine can see command lines, so the key is not an option.
NOT_FLAGS = (*options.DATA, "model_key")
EVERY_SETTING = [setting.name for setting in dataclasses.fields(Settings) if setting.name not in NOT_FLAGS]


@settings_options(*(name for name in EVERY_SETTING if name not in ONLY_STDIO))
@options.command("serve", *options.DATA)
@click.option("--watch/--no-watch", default=None, help=WATCH_HELP)
def serve(target: options.Target, /, watch: bool | None, **flags: Any) -> None:
    """Run the server: console, REST, events and MCP on one port.

    By default it listens only on this machine, and every user of the machine has access. Any other address needs
    tokens: create one first with 'palaver token create'.

    Without tokens it also records the sessions of the coding agents on this machine. --no-watch turns that off.
    """
    settings = target.settings(**flags)
    output.say(f"Starting palaver {__version__} …")
    limit_memory_arenas()
    with no_collection():
        from palaver.doors.http.server import serve as run_server
        from palaver.operations import toolsets
        from palaver.operations.admin import rate_limits

    toolsets.select_tools(settings.toolsets)  # report unknown names now
    rate_limits.must_know_tools(settings, {name.replace(".", "_") for name in toolsets.select_tools(("all",))})

    places: list[Path] = []
    if watch or (watch is None and settings.is_loopback and not settings.needs_token and _has_home()):
        from palaver.operations.sessions.watch import default_folders

        places = default_folders()
    run_server(settings, output.styled(banner(settings, places)), places)


def _has_home() -> bool:
    """Whether the user has a home directory. Users that only run services often have none."""
    with suppress(RuntimeError):
        return os.access(os.environ.get("HOME") or Path.home(), os.R_OK | os.X_OK)
    return False


def limit_memory_arenas() -> None:
    """Let the threads of the server share two memory arenas. Call this before threads start.

    glibc gives almost every thread an arena of its own. Memory that is free in one is not used by the others: with 50
    clients that was 50 MB. Threads rarely wait for an arena here, because most of them wait for the interpreter.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def banner(settings: Settings, recorded: Sequence[Path] = ()) -> str:
    """The start message: URLs of the server, how to connect agents, and the folders whose sessions are recorded."""
    url = settings.base_url
    mcp = f"{url}/mcp?tools=core"
    header = {"headers": {"Authorization": "Bearer plv_…"}} if settings.needs_token else {}
    cursor = json.dumps({"mcpServers": {"palaver": {"url": mcp} | header}}, ensure_ascii=False)
    code = json.dumps({"name": "palaver", "type": "http", "url": mcp} | header, ensure_ascii=False)
    claude = ' --header "Authorization: Bearer plv_…"' if settings.needs_token else ""
    codex = " --bearer-token-env-var PALAVER_TOKEN" if settings.needs_token else ""
    home = settings.home_option
    lines = [
        f"{output.bold(f'palaver {__version__}')} is listening.",
        "",
        f"  Console      {output.bold(url + '/')}",
        f"  API          {url}/docs",
        f"  Events       {url}/events",
        f"  MCP          {mcp}      (for coding agents; {url}/mcp lists more tools)",
        "",
        "Connect your agents:",
        f"  all of them  {shlex.join(['palaver', 'setup', *home])}",
        f'  Claude Code  claude mcp add --scope user --transport http palaver "{mcp}"{claude}',
        f'  Codex        codex mcp add palaver --url "{mcp}"{codex}',
        f"  VS Code      code --add-mcp '{code}'",
        f"  Cursor       in ~/.cursor/mcp.json: {cursor}",
        f"  stdio        {shlex.join(stdio_command(settings))}",
        "",
    ]
    if recorded:
        there = [f"  {place}" for place in recorded if os.path.exists(place)]
        lines += ["Records the sessions of coding agents (--no-watch turns it off), from:"]
        lines += [*(there or ["  no folder yet, but each one that a coding agent makes"]), ""]
    if ports := client_ports(settings.data) - {settings.port}:
        lines += [f"Clients were set up for port {min(ports)}. Run 'palaver setup' again while this server runs.", ""]
    if settings.needs_token:
        lines += ["Clients need a token: palaver token create --agent NAME", ""]
    return "\n".join([*lines, "Stop with Ctrl-C."])


def client_ports(home: Path) -> set[int]:
    """The ports of servers on this machine that 'palaver setup' gave to clients."""
    from palaver.setup.files import URLS, Record

    servers = [written.server for written in Record(home).files.values()]
    urls = [urlsplit(server[name]) for server in servers for name in URLS if name in server]
    return {url.port or 80 for url in urls if url.hostname in LOOPBACK}


def stdio_command(settings: Settings) -> list[str]:
    """The command that MCP clients run for stdio, on the same data. Absolute, as their PATH may differ."""
    from palaver.setup.clients import palaver_path

    return [palaver_path(), "mcp", *settings.home_option]


@settings_options("agent", "tool_names", "toolsets", "auth")
@options.command("mcp", *options.DATA)
@click.option("--channel", is_flag=True, help="Be a channel of Claude Code: a message to the agent wakes it.")
@click.option("--alone", is_flag=True, help="Open the data in this process, even if a server runs on it.")
def mcp(target: options.Target, /, channel: bool, alone: bool, **flags: Any) -> None:
    """Run an MCP server on standard input and output, for clients that start their servers.

    If a server runs on the same data, this process only passes messages on to it. PALAVER_TOKEN identifies the
    client; without a token, --agent or PALAVER_AGENT can name the agent.
    """
    from palaver.doors.local import mcp_pipe

    settings = target.settings(**flags)
    given = {"home": target.home, "database_url": target.database_url, "channel": "on" * channel, **flags}
    texts = {name: ",".join(value) if isinstance(value, tuple) else value for name, value in given.items() if value}
    if not alone and mcp_pipe.run(texts):
        return
    # A blocking read of standard input cannot be interrupted. All acknowledged data is on disk.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    asyncio.run(_stdio(settings, target.token, channel))


async def _stdio(settings: Settings, token: str | None, is_channel: bool) -> None:
    with no_collection():
        from palaver.app import LoginEnded
        from palaver.doors.authentication import StdioClient, authenticate
        from palaver.doors.cli.connection import open_app
        from palaver.doors.mcp import stdio
        from palaver.operations import toolsets

    toolsets.select_tools(settings.toolsets)  # report unknown names now
    async with open_app(settings) as app:
        requester = await authenticate(app, token, "agent")
        app.start_background_tasks()
        client = StdioClient(requester, app.settings, os.getpid(), project_of(Path.cwd()), is_channel)
        serving = asyncio.ensure_future(stdio.serve_lines(app, client, stdio.standard_input()))
        try:
            with app.access.present.track(*requester.keys):
                await asyncio.shield(serving)
        except LoginEnded:
            output.note("This token is no longer valid: it was revoked or has expired.")
            os._exit(Unauthorized.exit_code)  # a blocking read of standard input cannot be interrupted


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def hook(words: tuple[str, ...]) -> None:
    """Answer a hook of a coding agent. 'palaver setup' puts this command into its settings."""
    from palaver.doors.hook import main

    main(list(words))
