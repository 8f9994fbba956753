"""Session commands: record turns, search them, rebuild and verify their index."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from palaver.app import DEFAULT
from palaver.doors.cli import options, output
from palaver.doors.cli.ask import ask
from palaver.doors.cli.connection import connect, open_app, open_workspace, refuse_server
from palaver.doors.cli.options import Target
from palaver.errors import Invalid, PalaverError, Refused, Unavailable
from palaver.model import requests
from palaver.model.events import encode
from palaver.model.projects import typed_project
from palaver.operations.admin import repair
from palaver.operations.sessions import recording, session_index
from palaver.search.vectors import background

COLUMNS: tuple[str, ...] = ("ts", "role", "session_id", "snippet")


# Recording


@options.command("append", *options.ALL, no_args_is_help=True)
@click.option(
    "--agent", required=True, metavar="AGENT", help="Id or slug of the agent. An unknown agent is registered."
)
@click.option("--session", required=True, metavar="SESSION", help="Id of the session.")
@click.option("--role", metavar="ROLE", help="Role of the turn: user, assistant, system or tool.")
@click.option("--id", metavar="ID", help="Your own id for the turn. A repeated id is stored once.")
@click.option("--ts", metavar="TIME", help="Time of the turn. [default: now]")
@click.option("--project", metavar="PROJECT", help="Path of its project; '.' is the current one.")
@click.argument("text", nargs=-1, metavar="[TEXT…]")
def append(
    target: options.Target, agent: str, session: str, role: str | None, text: tuple[str, ...], **facts: str | None
) -> None:
    """Record a turn of a session, from TEXT or from standard input.

    Without --role, standard input is JSON lines, each {"role": …, "content": …}, optionally with "ts", "id" and
    "project".
    """
    said = " ".join(text) if text and text != ("-",) else None
    if role is None and said is not None:
        raise Invalid("role: is required. Give --role, for example --role user, or JSON lines on standard input.")
    if role is None:
        turns = _json_lines(sys.stdin.buffer.read())
    else:
        content = said if said is not None else output.read_stdin()
        turns = iter([{"role": role, "content": content, "id": facts["id"], "ts": facts["ts"]}])
    project = typed_project(facts["project"]) if facts["project"] else None
    recorded = asyncio.run(_record(target, agent, session, project, turns))
    output.show(
        recorded if role is None else recorded[0], target.format, columns=("id", "role", "ts", "content"), rows="turns"
    )


def _json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                turn = json.loads(line)
            except ValueError:
                raise Invalid(f"Line {number} on standard input is not JSON. Nothing after it was recorded.") from None
            if not isinstance(turn, dict):
                raise Invalid(f"Line {number} on standard input is not a JSON object. Nothing after it was recorded.")
            if turn.get("content") != "":  # transcripts contain empty turns
                yield {name: turn.get(name) for name in ("role", "content", "ts", "id", "project")}


async def _record(
    target: Target, agent: str, session: str, project: str | None, turns: Iterator[dict[str, Any]]
) -> list[Any]:
    of = {"agent": agent, "session": session} | ({"project": project} if project else {})
    given = ({**of, **{name: value for name, value in turn.items() if value is not None}} for turn in turns)
    recorded, is_open = [], False
    try:
        async with connect(target) as connection:
            is_open = True
            for turn in given:
                recorded.append(await connection.call(recording.record_turn, turn))
    except Unavailable:
        # Without the database a token cannot be checked. Without a token the transcript takes the turn, as over REST.
        if is_open or target.server or target.token:
            raise
        for turn in given:
            ask = requests.read(recording.RecordTurn, turn, refuse_unknown=True)
            said = await recording.record_without_database(target.settings(), target.workspace or DEFAULT, ask)
            if said is None:
                raise
            recorded.append(json.loads(encode(said)))
        output.note("The database cannot be reached. The turn is in the transcript and will be indexed later.")
    return recorded


# Searching


@options.command("search", *options.ALL, no_args_is_help=True)
@click.option("--all", "all_agents", is_flag=True, help="Search the sessions of all agents. Omit AGENT.")
@click.option("--limit", type=click.INT, help="Maximum number of hits, 1 to 100. [default: 20]")
@click.option("--role", metavar="ROLE", help="Only turns of this role.")
@click.option("--session", "session_id", metavar="SESSION", help="Only this session.")
@click.option("--since", metavar="TIME", help="Only turns at or after this time.")
@click.option("--until", metavar="TIME", help="Only turns at or before this time. A date means its end.")
@click.option("--project", metavar="PROJECT", help="Only turns of this project: a path, a name, or '.' for here.")
@click.argument("words", nargs=-1, required=True, metavar="AGENT QUERY…")
def search(target: options.Target, all_agents: bool, words: tuple[str, ...], **narrow: Any) -> None:
    """Search the turns of an agent's sessions, best match first.

    AGENT is an id or slug. A turn must contain all words of QUERY. OR, NEAR and * have no special meaning.
    """
    given = {name: value for name, value in narrow.items() if value is not None}
    if "project" in given:
        given["project"] = typed_project(given["project"])
    if all_agents:
        if "session_id" in given:
            raise Refused("--session needs one agent. Give AGENT instead of --all.")
        operation, columns = "search_all_conversations", ("ts", "agent_id", *COLUMNS[1:])
    else:
        if len(words) < 2:
            raise click.UsageError("Give an agent and a query: AGENT QUERY…, or --all QUERY…")
        operation, columns = "search_conversations", COLUMNS
        given["agent_id"], words = words[0], words[1:]
    given["query"] = " ".join(words)
    answer = ask(target, f"sessions.searching:{operation}", given)
    output.show(answer, target.format, columns=columns, rows="hits")


# The index


@options.command("reindex", "workspace", *options.DATA)
@click.option("--model", is_flag=True, help="Only make the missing vectors of PALAVER_MODEL.")
@click.option(
    "--discard-missing",
    is_flag=True,
    help="Drop turns that are in no transcript. They are moved to the folder 'discarded'.",
)
def reindex(target: options.Target, model: bool, discard_missing: bool) -> None:
    """Rebuild the index of sessions from their transcripts. Servers can keep working meanwhile.

    Missing tables of the search index are created and filled too. Damaged lines are passed over and named. Turns that
    the index has but no transcript has, because a file is missing or damaged, stay in the index and are reported.
    --discard-missing drops them.
    """
    if model:
        output.say(f"Made the vectors of {asyncio.run(_embed(target)):,} passages.")
    else:
        rebuilt = asyncio.run(_reindex(target, discard_missing))
        output.say(f"{rebuilt.turns:,} turns are in the index.")
        for warning in rebuilt.warnings:
            output.note(f"Warning: {warning}")


async def _embed(target: Target) -> int:
    refuse_server(target)
    async with open_app(target.settings()) as app:
        here = await app.open(target.workspace or DEFAULT)
        known = await here.read(background.progress_of)
        if known is None:
            raise Refused("No embedding model is set. Choose one with PALAVER_MODEL.")
        with output.progress("Making vectors", known.passages - known.done) as bar:
            return await background.make_all(here, bar)


async def _reindex(target: Target, discard_missing: bool) -> session_index.Rebuilt:
    async with open_workspace(target) as (_, here):
        await repair.fill_index(here)
        files = list(here.transcripts.all())
        total = sum(transcript.size for transcript in files)
        with output.progress("Reading transcripts", total) as bar:
            return await session_index.reindex(here, bar, discard_missing=discard_missing)


@options.command("verify", "format", "json", "workspace", *options.DATA)
def verify(target: options.Target) -> None:
    """Compare the transcripts, the texts and the database with the search index.

    The exit code is 1 if they differ or if something is missing or damaged. The message says how to repair it.
    """
    found, problems, alone = asyncio.run(_verify(target))
    wrong = [difference for difference in found if not difference.is_fine or difference.unreadable]
    rows = [
        {name: getattr(d, name) for name in ("agent", "file", "missing", "extra", "different", "unreadable")}
        for d in wrong
    ]
    if rows or target.format != "table":
        output.show(rows, target.format, columns=tuple(rows[0]) if rows else (), rows="rows")
    differ = sum(not difference.is_fine for difference in found)
    output.note(f"{len(found):,} transcripts compared, {differ:,} differ from the index.")
    for problem in problems:
        output.note(f"✗ {problem}")
    if problems:
        raise PalaverError("Data is missing or damaged. Run 'palaver doctor' for advice.")
    if alone:
        raise PalaverError(
            f"{session_index.describe_missing(alone)} Restore the files (is a disk not mounted?). "
            "'palaver doctor --repair' writes damaged lines again from the index; "
            "'palaver reindex --discard-missing' drops these turns instead."
        )
    if differ:
        raise PalaverError("The index differs from the transcripts. Run 'palaver reindex'.")


async def _verify(target: Target) -> tuple[list[session_index.Difference], list[str], list[session_index.OnlyInIndex]]:
    """The differences, other problems, and turns that are in no transcript."""
    refuse_server(target)
    # Opening the workspace would create missing tables, so look before.
    if problems := await repair.problems_before_opening(target.settings(), target.workspace or DEFAULT):
        return [], problems, []
    async with open_workspace(target) as (app, here):
        problems = await app.losses() + await repair.problems_of_data(here)
        if problems:
            return [], problems, []
        found = await session_index.verify(here)
        differ = any(not difference.is_fine for difference in found)
        alone = await session_index.only_in_index(here) if differ else []
        return found, await repair.problems_of_uploads(here), alone
