"""Running the house: as a server on a port, or as an MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import click

from palaver import __version__
from palaver.doors.cli import output, target
from palaver.errors import Unauthorized
from palaver.model.projects import project_of
from palaver.settings import Settings


class Knob(click.ParamType[Any]):
    """A setting's own way of reading text."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as problem:
            self.fail(f"{value!r} cannot be read: {problem}.", param, ctx)


def settings_options(*names: str) -> Callable[[click.Command], click.Command]:
    """An option for each of these settings; the help is the setting's own."""

    def wrap(command: click.Command) -> click.Command:
        for knob in dataclasses.fields(Settings):
            if knob.name in names:
                default = f" [default: {knob.default}]" if knob.default not in (None, "", ()) else ""
                command.params.append(
                    click.Option(
                        ["--" + knob.name.replace("_", "-"), knob.name],
                        type=Knob("text", knob.metadata["read"]),
                        help=knob.metadata["help"] + default,
                    )
                )
        return command

    return wrap


ONLY_STDIO = ("agent",)
# What is said on a command line is seen by everybody on the machine: a key is not said there.
NOT_FLAGS = (*target.ON_THE_DATA, "model_key")
EVERY_SETTING = [knob.name for knob in dataclasses.fields(Settings) if knob.name not in NOT_FLAGS]


@target.takes(*target.ON_THE_DATA)
@settings_options(*(name for name in EVERY_SETTING if name not in ONLY_STDIO))
@click.command()
@click.pass_obj
def serve(where: target.Where, /, **flags: Any) -> None:
    """Run the server until told to stop: console, REST, events and MCP on one port.

    Bound to this machine alone (the default) it is open to whoever works on it. Any other address needs tokens:
    make one first with 'palaver token create'.
    """
    settings = where.settings(**flags)
    from palaver.doors.http.server import serve as serve_for_ever
    from palaver.operations import toolsets
    from palaver.operations.admin import rate_limits

    toolsets.chosen(settings.toolsets)  # an unknown name is told at once, not when a client asks
    rate_limits.must_know_tools(settings, {name.replace(".", "_") for name in toolsets.chosen(("all",))})

    serve_for_ever(settings, output.styled(banner(settings)))


def banner(settings: Settings) -> str:
    """Where the server is, and the lines to connect with it."""
    url = settings.base_url
    mcp = f"{url}/mcp?tools=core"
    header = {"headers": {"Authorization": "Bearer plv_…"}} if settings.needs_token else {}
    cursor = json.dumps({"mcpServers": {"palaver": {"url": mcp} | header}}, ensure_ascii=False)
    code = json.dumps({"name": "palaver", "type": "http", "url": mcp} | header, ensure_ascii=False)
    claude = ' --header "Authorization: Bearer plv_…"' if settings.needs_token else ""
    codex = " --bearer-token-env-var PALAVER_TOKEN" if settings.needs_token else ""
    lines = [
        f"{output.bold(f'palaver {__version__}')} is listening.",
        "",
        f"  Console      {output.bold(url + '/')}",
        f"  API          {url}/docs",
        f"  Events       {url}/events",
        f"  MCP          {mcp}      (for coding agents; {url}/mcp lists more tools)",
        "",
        "Connect an agent:",
        f'  Claude Code  claude mcp add --scope user --transport http palaver "{mcp}"{claude}',
        f'  Codex        codex mcp add palaver --url "{mcp}"{codex}',
        f"  VS Code      code --add-mcp '{code}'",
        f"  Cursor       in ~/.cursor/mcp.json: {cursor}",
        f"  stdio        {shlex.join(stdio_command(settings))}",
        "",
    ]
    if settings.needs_token:
        lines += ["A token is needed to come in: palaver token create --agent NAME", ""]
    return "\n".join([*lines, "Ctrl-C ends it."])


def stdio_command(settings: Settings) -> list[str]:
    """The command that clients start for MCP over stdio, on the same data. They may have another PATH than we do."""
    program = Path(sys.argv[0])
    is_script = program.is_file() and os.access(program, os.X_OK) and program.suffix != ".py"
    palaver = [str(program.absolute())] if is_script else [sys.executable, "-m", "palaver"]
    home = ["--home", str(settings.data.absolute())] if settings.home else []
    return [*palaver, "mcp", *home]


@target.takes(*target.ON_THE_DATA)
@settings_options("agent", "tool_names", "toolsets", "auth")
@click.command()
@click.pass_obj
def mcp(where: target.Where, /, **flags: Any) -> None:
    """Be an MCP server on standard input and output, for clients that start their servers themselves.

    It works on the same data as a running server, at the same time. PALAVER_TOKEN says who the client is;
    without one, --agent or PALAVER_AGENT may.
    """
    # Reading standard input cannot be interrupted from inside. All that was acknowledged is on disk.
    signal.signal(signal.SIGINT, _leave_at_once)
    asyncio.run(_stdio(where.settings(**flags), where.token))


def _leave_at_once(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


async def _stdio(settings: Settings, token: str | None) -> None:
    from palaver.app import LoginEnded
    from palaver.doors.cli.connection import open_house
    from palaver.doors.visit import admit
    from palaver.operations import toolsets

    async with open_house(settings) as house:
        toolsets.chosen(settings.toolsets)
        visit = await admit(house, token, "agent")
        house.start_sweeping()
        from palaver.doors.mcp import McpDoor  # the heaviest of all; who may not come in need not wait for it

        talking = asyncio.ensure_future(McpDoor(house, visit, project_of(Path.cwd())).stdio())
        if visit.token_id is None:
            await talking
            return
        try:
            with house.present.track(visit.token_id):
                await asyncio.shield(talking)
        except LoginEnded:
            output.note("This token is not valid any more: it was revoked or has run out.")
            os._exit(Unauthorized.exit_code)  # reading standard input cannot be interrupted from inside
