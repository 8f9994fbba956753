"""Searching from a terminal: everything at once, some sources, or one thread with an expression."""

from __future__ import annotations

import asyncio
import html
import shutil
from collections.abc import Iterator
from typing import Any

import click

from palaver.doors.cli import output, target
from palaver.doors.cli.connection import reach, thread_id_of
from palaver.errors import Invalid, NotFound
from palaver.model.projects import project_name, typed_project
from palaver.model.sources import ALL_SOURCES
from palaver.operations.search.bus_search import search_messages
from palaver.operations.search.knowledge import search_knowledge

COLUMNS = ("source", "last_modified", "title", "uri", "snippet")
BUS_COLUMNS = ("created_at", "thread_topic", "author", "snippet")


@target.takes(*target.EVERYWHERE)
@click.command("search", no_args_is_help=False)
@click.argument("query", nargs=-1, required=True, metavar="QUERY…")
@click.option(
    "--source", "sources", multiple=True, metavar="NAMES", help=f"Only these, with commas: {', '.join(ALL_SOURCES)}."
)
@click.option("--limit", type=int, help="How many results at the most.  [default: 20; with --thread 50]")
@click.option("--offset", type=int, help="How many to skip.")
@click.option("--order-by", type=click.Choice(["relevance", "recent"]), help="The best first, or the newest.")
@click.option("--from", "date_from", metavar="TIME", help="Only what was written at this time or later.")
@click.option("--to", "date_to", metavar="TIME", help="Only what was written at this time or earlier.")
@click.option(
    "--project", metavar="PROJECT", help="Only sessions and imports of this project: a path, a name, or '.' for here."
)
@click.option("--snippet-length", type=int, metavar="N", help="Characters of a snippet, 50 to 1000.")
@click.option(
    "--thread", "--thread-id", "thread", metavar="THREAD", help="Only messages of this thread, by an expression."
)
@click.option(
    "--expression", is_flag=True, help='Messages of the bus by an expression: "a phrase", prefix*, AND, OR, NOT.'
)
def search(query: tuple[str, ...], thread: str | None, expression: bool, limit: int | None, **narrowing: Any) -> None:
    """Find anything that was said or kept here, the best match first: in words, or in a whole question.

    'palaver get URI' opens what was found.
    """
    where = target.here(click.get_current_context())
    words = " ".join(query)
    if not words.strip():
        raise Invalid("query: must not be empty.")
    if thread or expression:
        answer = asyncio.run(_messages(where, words, thread, limit))
        output.show(answer, where.format, columns=BUS_COLUMNS, rows="results")
        return
    if narrowing["project"]:
        narrowing["project"] = typed_project(narrowing["project"])
    given = {"query": words, "limit": limit, "dedupe": False, **narrowing, "sources": list(narrowing["sources"])}
    if where.format == "table":
        given["highlight"] = True
    answer = asyncio.run(_everything(where, {name: value for name, value in given.items() if value not in (None, [])}))
    if where.format != "table" or not answer["results"]:
        output.show(answer, where.format, columns=COLUMNS, rows="results")
        return
    for item in answer["results"]:
        item["snippet"] = "\n".join([_marked(item["snippet"] or "", item.get("highlights") or []), *_beside(item)])
    if output.is_terminal():
        _show_in_blocks(answer["results"])
    else:
        output.show(answer, where.format, columns=COLUMNS, rows="results")
    if answer["has_more"]:
        output.note(f"There is more: --offset {answer['next_offset']}.")


def _marked(snippet: str, highlights: list[list[int]]) -> str:
    """The snippet as HTML, with <mark> around matched words."""
    parts: list[str] = []
    done = 0
    for start, end in highlights:
        parts += html.escape(snippet[done:start]), f"<mark>{html.escape(snippet[start:end])}</mark>"
        done = end
    return "".join(parts) + html.escape(snippet[done:])


def _beside(item: dict[str, Any]) -> Iterator[str]:
    """What was answered, and what took it back: each on a line of its own, with who said it and when."""
    for name, sign in (("answer", "↳ answered"), ("later", "↳ later")):
        if other := item.get(name):
            day = (other["created_at"] or "")[:10]
            who = ", ".join(part for part in (sign, other["sender"], day) if part)
            yield f"{html.escape(who)}: {_marked(other['snippet'], other.get('highlights') or [])}"


def _show_in_blocks(results: list[dict[str, Any]]) -> None:
    """What is long is not squeezed into columns: a line that says what it is, the snippet, and what opens it."""
    width = shutil.get_terminal_size().columns
    for item in results:
        at = (item["last_modified"] or "")[:10]
        project = project_name(item["project"]) if item.get("project") else None
        heading = " · ".join(part for part in (item["source"], project, item["title"], item["sender"], at) if part)
        for line in output.wrap(output.bold(output.one_line(output.clean(heading))), width):
            output.say(line)
        for line in output.wrap(output.cell("snippet", item["snippet"]), width - 2):
            output.say("  " + line)
        output.say("  " + output.clean(item["uri"]))
        output.say()


async def _everything(where: target.Where, given: dict[str, Any]) -> Any:
    async with reach(where) as there:
        answer = await there.ask(search_knowledge, given)
    return {**answer, "total": len(answer["results"])}


async def _messages(where: target.Where, words: str, thread: str | None, limit: int | None) -> Any:
    given: dict[str, Any] = {"query": words} | ({"limit": limit} if limit is not None else {})
    async with reach(where) as there:
        if thread:
            try:
                given["thread_id"] = await thread_id_of(there, thread)
            except NotFound:
                given["thread_id"] = thread  # the search says what it makes of it
        return await there.ask(search_messages, given)
