"""Commands that follow what happens: `watch` records sessions of coding agents, `events` prints events."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import click

from palaver.doors.cli import options, output, recording_problem
from palaver.doors.cli.connection import (
    ServerConnection,
    connect,
    local_requester,
    open_app,
    server_client,
    thread_id_of,
)
from palaver.doors.cli.server_turns import ServerTurns
from palaver.errors import NotFoundMessage, PalaverError, Refused
from palaver.operations.sessions.local_watch import LocalTurns
from palaver.operations.sessions.private import privacy_rules
from palaver.operations.sessions.watch import PROGRAMS, NewTurns, TurnStore, Watch, WatchCounts, default_folders
from palaver.text.tool_output import CHOICES, ToolOutput

TOOL_OUTPUT_HELP = "How much of the tool calls of coding agents to keep. [default: short]"


@options.command("watch", "format", "json", "workspace", "url", *options.DATA)
@click.argument("paths", nargs=-1, metavar="[PATH…]", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Stop when all existing files have been read.")
@click.option("--agent", metavar="NAME", help="Agent that gets the sessions. [default: the program in its project]")
@click.option("--tool-output", type=click.Choice(CHOICES), default="short", help=TOOL_OUTPUT_HELP)
@click.option("--token", metavar="TOKEN", help="Token for the server. Better set PALAVER_TOKEN: others see options.")
@click.option("--quiet", is_flag=True, help="Do not print progress.")
def watch(
    target: options.Target,
    paths: tuple[Path, ...],
    once: bool,
    agent: str | None,
    tool_output: ToolOutput,
    token: str | None,
    quiet: bool,
) -> None:
    """Record the sessions of coding agents, and follow them until Ctrl-C.

    PATH is a file or a folder. The default is the session folders of Claude Code, Codex, Gemini CLI, opencode, GitHub
    Copilot CLI and Cline (CLAUDE_CONFIG_DIR, CODEX_HOME, GEMINI_CLI_HOME and COPILOT_HOME are honoured). The turns
    become sessions of the program's agent in the project, such as 'claude-code-exporter', and 'palaver conversation
    search claude-code WORDS' finds them. A later run continues where this one stopped. Sessions that the programs
    delete are kept.

    With --url or PALAVER_URL the turns go to a server, each once. While the server cannot be reached, the command
    waits and tries again. It remembers in PALAVER_HOME what was sent.

    Each session keeps its project: the address of its repository, or its folder. Text is recorded unchanged.
    --tool-output says how much of tool calls is kept. 'short' keeps the tool's name, its shortened arguments, the
    first and last lines of the output, and whole errors. 'full' keeps up to 2,000 characters of a call and 10,000 of
    its output. 'none' keeps neither. Calls of palaver's own tools are left out.

    Well-known kinds of keys and tokens are masked: '[a GitHub token]' replaces one. So are passwords assigned to a
    name: DB_PASSWORD=… becomes 'DB_PASSWORD=[a password]'. Other passwords are not recognised. Parts between <private>
    and </private> are left out, and so are the folders and projects that 'palaver privacy' lists.
    """
    if target.server and target.workspace is not None:
        raise Refused("On a server the token decides the workspace. Remove --workspace or --url.")
    for path in paths:
        if not path.exists():
            raise NotFoundMessage(f"There is no file or folder '{output.clean(str(path))}'.")
    places = list(paths) or default_folders()
    if not any(place.exists() for place in places):
        looked = ", ".join(str(place) for place in places)
        raise NotFoundMessage(f"Found no sessions of {PROGRAMS} in {looked}. Give a path: palaver watch PATH")
    # Hooks record one file, and nobody sees the output.
    is_hook = once and all(place.is_file() for place in places)
    settings, is_table = target.settings(), target.format == "table"

    def show(grown: NewTurns) -> None:
        facts = {"agent": grown.agent, "session_id": grown.session_id, "turns": grown.turns}
        line = f"{grown.agent}  {output.clean(grown.session_id)}  {_count(grown.turns, 'new turn')}"
        if not quiet:
            output.say(line if is_table else _json(facts, target.format))

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with turn_store(target, token or target.token, is_patient=not once) as store:
            progress = Progress(is_shown=not quiet)
            rules = privacy_rules(settings, is_here=True)
            watch = Watch(store, places, agent, tool_output, progress.update, rules=rules)
            counts = await watch.read_all(retry=not once, only_files=is_hook)
            if not quiet:
                output.say(summary(counts, target.format))
            if not (quiet or once) and is_table:
                output.note("Following new turns. Stop with Ctrl-C.")
            if not once:
                await watch.follow(show)

    try:
        with contextlib.suppress(asyncio.CancelledError):  # stopped by SIGTERM
            asyncio.run(work())
    except Exception as problem:
        if is_hook:
            said = problem.message if isinstance(problem, PalaverError) else f"{type(problem).__name__}: {problem}"
            recording_problem.note(settings.data, said, places[0].name)
        raise
    if is_hook:
        recording_problem.clear(settings.data)


@contextlib.asynccontextmanager
async def turn_store(target: options.Target, token: str | None, *, is_patient: bool) -> AsyncIterator[TurnStore]:
    if target.server:
        async with server_client(target.server, token) as client:
            home = target.settings().data
            connection = ServerConnection(client)
            yield ServerTurns(connection, home, target.server, token, output.note, is_patient=is_patient)
    else:
        async with open_app(target.settings()) as app:
            requester = await local_requester(app, token or target.token, target.workspace)
            yield LocalTurns(requester.workspace, requester.caller)


class Progress:
    """How far the session files were read, on one line."""

    def __init__(self, *, is_shown: bool) -> None:
        self._line, self._is_over = output.StatusLine(is_shown=is_shown), False

    def update(self, tally: WatchCounts) -> None:
        if self._is_over:
            return
        line = f"{tally.done:,} of {_count(tally.of, 'file')}, {_count(tally.turns, 'new turn')}"
        if skipped := tally.skipped_lines.total():
            line += f", {_count(skipped, 'line')} skipped"
        self._is_over = tally.done == tally.of
        self._line.draw("" if self._is_over else line)


def summary(tally: WatchCounts, format: str) -> str:
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
        line += f" Skipped {_reasons(tally.skipped_files, 'file')}."
    return line


def _reasons(skipped: Counter[str], noun: str) -> str:
    reasons = [f"{number:,} {why}" for why, number in skipped.most_common()]
    return f"{_count(sum(skipped.values()), noun)} ({', '.join(reasons)})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _json(facts: dict[str, object], format: str) -> str:
    return ("- " if format == "yaml" else "") + output.as_json(facts)


@options.command("events", *options.ALL)
@click.option("--thread", metavar="THREAD", help="Only events of this thread (id or topic).")
@click.option("--after", type=click.IntRange(0), metavar="ID", help="Start after this event instead of now.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="Stop after N events.")
def events(target: options.Target, thread: str | None, after: int | None, count: int | None) -> None:
    """Print events as they happen, one on each line, until Ctrl-C.

    With --json each line is an object with id, type and data.
    """
    asyncio.run(_print_events(target, thread, after, count))


async def _print_events(target: options.Target, thread: str | None, after: int | None, count: int | None) -> None:
    async with connect(target) as connection:
        thread_id = await thread_id_of(connection, thread) if thread else None
        printed = 0
        async with aclosing(connection.events(after, thread_id)) as stream:
            async for event in stream:
                if target.format == "table":
                    output.say(output.event_line(event.id, event.type, event.data))
                else:
                    output.say(_json({"id": event.id, "type": event.type, "data": event.data}, target.format))
                printed += 1
                if printed == count:
                    return
