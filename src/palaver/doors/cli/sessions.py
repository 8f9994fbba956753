"""Sessions from a terminal: recording turns, searching them, and looking after their index."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import click

from palaver.app import DEFAULT, App
from palaver.doors.cli import output, target
from palaver.doors.cli.connection import open_app, reach
from palaver.doors.cli.target import Where
from palaver.errors import Invalid, PalaverError, Refused, Unavailable
from palaver.model import requests
from palaver.model.events import encode
from palaver.model.projects import typed_project
from palaver.operations.admin import repair
from palaver.operations.sessions import session_index, sessions
from palaver.search.vectors import background
from palaver.store.workspaces import Workspace

COLUMNS: tuple[str, ...] = ("ts", "role", "session_id", "snippet")


# Recording


@target.takes(*target.EVERYWHERE)
@click.command("append", no_args_is_help=True)
@click.option("--agent", required=True, metavar="AGENT", help="Id or slug of the agent; a new one comes to be.")
@click.option("--session", required=True, metavar="SESSION", help="Id of the session.")
@click.option("--role", metavar="ROLE", help="Who says it: user, assistant, system or tool.")
@click.option("--id", "turn_id", metavar="ID", help="An id of your own: the same id twice in a session is one turn.")
@click.option("--ts", metavar="TIME", help="When it was said; now, if left out.")
@click.option("--project", metavar="PROJECT", help="Path of the project it belongs to; '.' is the current one.")
@click.argument("text", nargs=-1, metavar="[TEXT…]")
def append(
    agent: str,
    session: str,
    role: str | None,
    turn_id: str | None,
    ts: str | None,
    project: str | None,
    text: tuple[str, ...],
) -> None:
    """Record a turn of a session: TEXT, or what comes on standard input.

    Without --role, standard input is read as JSON lines, each {"role": …, "content": …}, optionally with "ts",
    "id" and "project".
    """
    where = target.here(click.get_current_context())
    said = " ".join(text) if text and text != ("-",) else None
    if role is None and said is not None:
        raise Invalid("role: is required. Say --role user, or give JSON lines on standard input.")
    if role is None:
        turns = _json_lines(sys.stdin.buffer.read())
    else:
        turns = iter([{"role": role, "content": said if said is not None else _stdin(), "id": turn_id, "ts": ts}])
    recorded = asyncio.run(_record(where, agent, session, typed_project(project) if project else None, turns))
    output.show(
        recorded if role is None else recorded[0], where.format, columns=("id", "role", "ts", "content"), rows="turns"
    )


def _stdin() -> str:
    if sys.stdin.isatty():
        output.note("Write the text, then press Ctrl-D.")
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Invalid("The text on standard input is not UTF-8.") from None


def _json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                turn = json.loads(line)
            except ValueError:
                raise Invalid(f"Line {number} on standard input is not JSON. Nothing after it was recorded.") from None
            if not isinstance(turn, dict):
                raise Invalid(f"Line {number} on standard input is not a JSON object. Nothing after it was recorded.")
            if turn.get("content") != "":  # else nothing was said; transcripts have such lines
                yield {name: turn.get(name) for name in ("role", "content", "ts", "id", "project")}


async def _record(
    where: Where, agent: str, session: str, project: str | None, turns: Iterator[dict[str, Any]]
) -> list[Any]:
    of = {"agent": agent, "session": session} | ({"project": project} if project else {})
    given = ({**of, **{name: value for name, value in turn.items() if value is not None}} for turn in turns)
    recorded, is_open = [], False
    try:
        async with reach(where) as there:
            is_open = True
            for turn in given:
                recorded.append(await there.ask(sessions.record_turn, turn))
    except Unavailable:
        # A token cannot be checked without the database. Otherwise the transcript takes the turn, as over REST.
        if is_open or where.server or where.token:
            raise
        for turn in given:
            ask = requests.read(sessions.RecordTurn, turn, refuse_unknown=True)
            said = await sessions.record_without_database(where.settings(), where.workspace or DEFAULT, ask)
            if said is None:
                raise
            recorded.append(json.loads(encode(said)))
        output.note("The database cannot be reached. The transcript has it; the index catches up later.")
    return recorded


# Searching


@target.takes(*target.EVERYWHERE)
@click.command("search", no_args_is_help=True)
@click.option("--all", "everybody", is_flag=True, help="Search every agent of the workspace; leave AGENT out.")
@click.option("--limit", type=click.INT, help="How many hits at the most, 1 to 100. [default: 20]")
@click.option("--role", metavar="ROLE", help="Only turns of this role.")
@click.option("--session", "session_id", metavar="SESSION", help="Only this session.")
@click.option("--since", metavar="TIME", help="Only turns from this time on.")
@click.option("--until", metavar="TIME", help="Only turns up to this time; a date means its end.")
@click.option("--project", metavar="PROJECT", help="Only turns of this project: a path, a name, or '.' for here.")
@click.argument("words", nargs=-1, required=True, metavar="AGENT QUERY…")
def search(everybody: bool, words: tuple[str, ...], **narrow: Any) -> None:
    """Find earlier turns of an agent's sessions by their words, best first.

    AGENT is its id or slug. All words of the QUERY must be there; OR, NEAR and * are words like any other.
    """
    where = target.here(click.get_current_context())
    given = {name: value for name, value in narrow.items() if value is not None}
    if "project" in given:
        given["project"] = typed_project(given["project"])
    if everybody:
        if "session_id" in given:
            raise Refused("--session belongs to one agent: name the agent instead of --all.")
        operation, columns = sessions.search_all_conversations, ("ts", "agent_id", *COLUMNS[1:])
    else:
        if len(words) < 2:
            raise click.UsageError("Say whose sessions to search, and for what: AGENT QUERY…, or --all QUERY…")
        operation, columns = sessions.search_conversations, COLUMNS
        given["agent_id"], words = words[0], words[1:]
    given["query"] = " ".join(words)
    answer = asyncio.run(_ask(where, operation, given))
    output.show(answer, where.format, columns=columns, rows="hits")


async def _ask(where: Where, operation: Any, given: dict[str, Any]) -> Any:
    async with reach(where) as there:
        return await there.ask(operation, given)


# The index


@asynccontextmanager
async def workspace() -> AsyncIterator[Workspace]:
    async with _house_and_workspace() as (_, here):
        yield here


@asynccontextmanager
async def _house_and_workspace() -> AsyncIterator[tuple[App, Workspace]]:
    where = target.here(click.get_current_context())
    if where.server:
        raise Refused("This works where the data is: leave --url and PALAVER_URL out.")
    async with open_app(where.settings()) as app:
        if not app.settings.sessions_index:
            raise Unavailable("There is no index to look after: it is off (PALAVER_SESSIONS_INDEX).")
        yield app, await app.open(where.workspace or DEFAULT)


@target.takes("workspace", *target.ON_THE_DATA)
@click.command("reindex")
@click.option("--model", is_flag=True, help="Make the vectors of PALAVER_MODEL that are missing, and nothing else.")
@click.option(
    "--discard-missing",
    is_flag=True,
    help="Drop turns that no transcript has. They are kept in the folder 'discarded'.",
)
def reindex(model: bool, discard_missing: bool) -> None:
    """Make the index of sessions again from their transcripts, while everything goes on.

    Tables of the search index that are missing are made again too, and filled from the texts. If turns are in the index
    and in no transcript, because a file is missing or was cut short, nothing is done: see --discard-missing.
    """
    if model:
        output.say(f"{asyncio.run(_embed()):,} passages got their vectors.")
        return
    turns = asyncio.run(_reindex(discard_missing))
    output.say(f"{turns:,} turns are in the index.")


async def _embed() -> int:
    where = target.here(click.get_current_context())
    if where.server:
        raise Refused("This works where the data is: leave --url and PALAVER_URL out.")
    async with open_app(where.settings()) as app:
        here = await app.open(where.workspace or DEFAULT)
        known = await here.read(background.progress_of)
        if known is None:
            raise Refused("No stronger model is set: say which one with PALAVER_MODEL.")
        with output.progress("Making vectors", known.passages - known.done) as bar:
            return await background.make_all(here, bar)


async def _reindex(discard_missing: bool) -> int:
    async with workspace() as here:
        await repair.fill_index(here)
        files = list(here.transcripts.all())
        total = sum(transcript.size for transcript in files)
        with output.progress("Reading transcripts", total) as bar:
            return await session_index.reindex(here, bar, discard_missing=discard_missing)


@target.takes("format", "json", "workspace", *target.ON_THE_DATA)
@click.command("verify")
def verify() -> None:
    """Compare the transcripts, the texts and the database with the search index.

    Exit code 1 when they differ, or when something is missing or damaged. The message says what mends it.
    """
    where = target.here(click.get_current_context())
    found, problems, alone = asyncio.run(_verify())
    wrong = [difference for difference in found if not difference.is_fine or difference.unreadable]
    rows = [
        {name: getattr(d, name) for name in ("agent", "file", "missing", "extra", "different", "unreadable")}
        for d in wrong
    ]
    if rows or where.format != "table":
        output.show(rows, where.format, columns=tuple(rows[0]) if rows else (), rows="rows")
    differ = sum(not difference.is_fine for difference in found)
    output.note(f"{len(found):,} transcripts compared, {differ:,} differ from the index.")
    for problem in problems:
        output.note(f"✗ {problem}")
    if problems:
        raise PalaverError("The data is not whole. Run 'palaver doctor' to see what can be done.")
    if alone:
        raise PalaverError(
            f"{session_index.said_of_missing(alone)} Bring the files back (is a disk not mounted?). "
            "'palaver reindex --discard-missing' drops these turns instead."
        )
    if differ:
        raise PalaverError("The index is not what the transcripts say. Run 'palaver reindex'.")


async def _verify() -> tuple[list[session_index.Difference], list[str], list[session_index.OnlyInIndex]]:
    """What differs, what else is wrong, and which turns no transcript has."""
    where = target.here(click.get_current_context())
    if not where.server:  # before it is opened, which would make some of what is missing
        name = where.workspace or DEFAULT
        if problems := await repair.problems_before_opening(where.settings(), name):
            return [], problems, []
    async with _house_and_workspace() as (app, here):
        problems = await app.losses() + await repair.problems_of_data(here)
        if problems:
            return [], problems, []
        found = await session_index.verify(here)
        differ = any(not difference.is_fine for difference in found)
        alone = await session_index.only_in_index(here) if differ else []
        return found, await repair.problems_of_uploads(here), alone
