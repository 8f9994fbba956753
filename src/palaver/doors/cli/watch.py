"""Following the sessions of other agents' programs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import click

from palaver.app import House
from palaver.doors.cli import output, target
from palaver.doors.cli.connection import Absent, open_house
from palaver.doors.visit import Visit, admit
from palaver.errors import Refused
from palaver.model.people import Caller
from palaver.operations.sessions.watch import NewTurns, Watch, WatchCounts, default_folders
from palaver.text.tool_output import CHOICES, ToolOutput

REDRAWN_SECONDS = 0.1
TOOL_OUTPUT_HELP = "How much to keep of the tool calls of coding agents, and of their output. [default: short]"


@target.takes("format", "json", "workspace", *target.ON_THE_DATA)
@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH…]", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="End when everything that is there has been read.")
@click.option("--agent", metavar="NAME", help="Whose sessions they become. [default: claude-code or codex]")
@click.option("--tool-output", type=click.Choice(CHOICES), default="short", help=TOOL_OUTPUT_HELP)
@click.option("--quiet", is_flag=True, help="Say nothing of what is read.")
@click.pass_obj
def watch(
    where: target.Where,
    paths: tuple[Path, ...],
    once: bool,
    agent: str | None,
    tool_output: ToolOutput,
    quiet: bool,
) -> None:
    """Read the sessions of Claude Code and Codex, and follow them as they are written, until Ctrl-C.

    PATH is a file or a folder; left out, it is where these programs keep their sessions (CLAUDE_CONFIG_DIR and
    CODEX_HOME are honoured). Their turns become sessions of the agents 'claude-code' and 'codex', found with
    'palaver conversation search'. It goes on where it stopped, and what the programs delete stays.

    Each session keeps its project: the git repository it was held in. Everything is recorded as it was said, and of
    tools what --tool-output says: 'short' keeps the tool's name, its arguments in brief, the first and last lines of
    the output, and errors whole; 'full' keeps up to 2,000 characters of a call and 10,000 of its output; 'none' keeps
    neither. Calls of palaver's own tools, and their results, are left out.

    Masked are keys and tokens of well-known kinds ('[a GitHub token]' takes the place of one) and passwords that are
    assigned to a name, as in DB_PASSWORD=… ('DB_PASSWORD=[a password]'). Other passwords are not recognised.
    """
    if where.server:
        raise Refused("Files are followed where the data is: leave --url and PALAVER_URL out.")
    with contextlib.suppress(asyncio.CancelledError):  # SIGTERM: asked to end, and ended
        asyncio.run(_watch(where, _places(paths), once, agent, tool_output, quiet))


watch.params += target.options("url", hidden=True)


def _places(paths: tuple[Path, ...]) -> list[Path]:
    for path in paths:
        if not path.exists():
            raise Absent(f"There is no file or folder '{output.clean(str(path))}'.")
    usual = default_folders()
    if not paths and not any(place.exists() for place in usual):
        looked = ", ".join(str(place) for place in usual)
        raise Absent(f"No sessions of Claude Code or Codex are here (looked for {looked}). Say: palaver watch PATH")
    return list(paths) or usual


async def _watch(
    where: target.Where, places: list[Path], once: bool, agent: str | None, tool_output: ToolOutput, quiet: bool
) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with open_house(where.settings()) as house:
        visit = await _visit(house, where)
        progress = Progress(is_shown=not quiet and sys.stderr.isatty())
        watch = Watch(visit.here, visit.caller, places, agent, tool_output, progress.told)
        tally = await watch.read_all(retry=not once)
        if not quiet:
            output.say(_summary(tally, where.format))
            if not once and where.format == "table":
                output.note("Following what is written from now on. Ctrl-C ends it.")
        if not once:
            await watch.follow(lambda grown: None if quiet else output.say(_line(grown, where.format)))


async def _visit(house: House, where: target.Where) -> Visit:
    if where.token and where.workspace is None:
        return await admit(house, where.token, "human")
    here = await (house.open(where.workspace) if where.workspace else house.open())
    return Visit(here, Caller(kind="human", name="human"))


class Progress:
    """One line on stderr that is written over and over, where somebody is looking; it goes when all is read."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown, self._drawn = is_shown, 0.0

    def told(self, tally: WatchCounts) -> None:
        is_over = tally.done == tally.of
        if not self._is_shown or (not is_over and time.monotonic() < self._drawn + REDRAWN_SECONDS):
            return
        self._drawn = time.monotonic()
        line = f"{tally.done:,} of {_count(tally.of, 'file')}, {_count(tally.turns, 'new turn')}"
        if skipped := tally.skipped_lines.total():
            line += f", {_count(skipped, 'line')} skipped"
        sys.stderr.write("\r\x1b[K" + ("" if is_over else line))
        sys.stderr.flush()
        self._is_shown = not is_over


def _summary(tally: WatchCounts, format: str) -> str:
    if format != "table":
        facts = {
            "files": tally.files,
            "sessions": len(tally.sessions),
            "turns": tally.turns,
            "skipped_lines": dict(tally.skipped_lines),
            "skipped_files": dict(tally.skipped_files),
        }
        return _json(facts, format)
    line = f"Read {_count(tally.files, 'session file')}: {_count(tally.turns, 'new turn')}"
    line += f" in {_count(len(tally.sessions), 'session')}." if tally.turns else "."
    if tally.skipped_lines:
        line += f" Skipped {_reasons(tally.skipped_lines, 'line')}."
    if tally.skipped_files:
        line += f" Passed over {_reasons(tally.skipped_files, 'file')}."
    return line


def _reasons(skipped: Counter[str], noun: str) -> str:
    reasons = [f"{number:,} {why}" for why, number in skipped.most_common()]
    return f"{_count(sum(skipped.values()), noun)} ({', '.join(reasons)})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _line(grown: NewTurns, format: str) -> str:
    if format != "table":
        return _json({"agent": grown.agent, "session_id": grown.session_id, "turns": grown.turns}, format)
    return f"{grown.agent}  {output.clean(grown.session_id)}  {_count(grown.turns, 'new turn')}"


def _json(facts: dict[str, object], format: str) -> str:
    return ("- " if format == "yaml" else "") + json.dumps(facts, ensure_ascii=False)
