"""Command `search`: search all sources, some of them, or the messages of one thread."""

from __future__ import annotations

import html
import shutil
from collections.abc import Iterator
from typing import Any

import click

from palaver.doors.cli import options, output
from palaver.doors.cli.ask import ask
from palaver.errors import Invalid
from palaver.model.projects import project_name, typed_project
from palaver.model.sources import ALL_SOURCES
from palaver.text.operators import take_operators

COLUMNS = ("source", "last_modified", "title", "uri", "snippet")
BUS_COLUMNS = ("created_at", "thread_topic", "author", "snippet")


class SearchCommand(click.Command):
    """Takes -from:ada as a part of the query, not as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(
            ctx, [f" {one}" if one.startswith("-") and take_operators(one)[1] else one for one in args]
        )


@options.command("search", *options.ALL, cls=SearchCommand)
@click.argument("query", nargs=-1, required=True, metavar="QUERY…")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAMES",
    help=f"Only these sources, comma-separated: {', '.join(ALL_SOURCES)}.",
)
@click.option("--limit", type=int, help="Maximum number of results. [default: 20; with --thread 50]")
@click.option("--offset", type=int, help="Number of results to skip.")
@click.option("--order-by", type=click.Choice(["relevance", "recent"]), help="Best match first, or newest first.")
@click.option("--from", "date_from", metavar="TIME", help="Only texts written at this time or later.")
@click.option("--to", "date_to", metavar="TIME", help="Only texts written at this time or earlier.")
@click.option(
    "--as-of", metavar="TIME", help="When the question is asked, for words such as 'yesterday'. [default: now]"
)
@click.option("--time-zone", metavar="ZONE", help="Time zone of QUERY, as in Europe/Berlin. [default: the server's]")
@click.option(
    "--project", metavar="PROJECT", help="Only sessions and imports of this project: a path, a name, or '.' for here."
)
@click.option("--snippet-length", type=int, metavar="N", help="Length of snippets in characters, 50 to 1000.")
@click.option("--counts", is_flag=True, help="Also show how many results there are in each source and each month.")
@click.option(
    "--thread", "--thread-id", "thread", metavar="THREAD", help="Only messages of this thread. QUERY is an expression."
)
@click.option(
    "--expression", is_flag=True, help='Only bus messages. QUERY is an expression: "a phrase", prefix*, AND, OR, NOT.'
)
def search(
    target: options.Target,
    query: tuple[str, ...],
    thread: str | None,
    expression: bool,
    limit: int | None,
    **narrowing: Any,
) -> None:
    """Search everything: messages, sessions, imported conversations and the library.

    QUERY is words or a whole question. Open a result with 'palaver get URI'.

    Operators in QUERY narrow the search: from:ada in:"Deploy of Friday" source:notes project:app before:2026-05
    after:"last week" has:code. A - before from, in, source, project and has excludes: -from:ada. With operators alone,
    the newest results come first.
    """
    words = " ".join(query).strip()
    if not words.strip():
        raise Invalid("query: must not be empty.")
    if thread or expression:
        bus = {"query": words, "limit": limit, "thread_id": thread}
        bus = {name: value for name, value in bus.items() if value is not None}
        answer = ask(target, "search.bus_search:search_messages", bus, "filter")
        output.show(answer, target.format, columns=BUS_COLUMNS, rows="results")
        return
    if narrowing["project"]:
        narrowing["project"] = typed_project(narrowing["project"])
    given = {"query": words, "limit": limit, "dedupe": False, **narrowing, "sources": list(narrowing["sources"])}
    if target.format == "table":
        given["highlight"] = True
    given = {name: value for name, value in given.items() if value is not None and value != []}
    answer = ask(target, "search.knowledge:search_knowledge", given)
    answer["total"] = len(answer["results"])
    if target.format == "table" and answer["counts"]:
        _show_counts(answer["counts"])
    if target.format == "table" and (read_as := answer["read_as"]):
        exact = " ".join(f'"{word}"' for word in read_as)
        output.note(f"Read as {', '.join(read_as.values())}. To search exactly, use double quotes: {exact}")
    if target.format != "table" or not answer["results"]:
        output.show(answer, target.format, columns=COLUMNS, rows="results")
        return
    for item in answer["results"]:
        item["snippet"] = "\n".join([_highlight(item["snippet"] or "", item.get("highlights")), *_related(item)])
    if output.is_terminal():
        _show_in_blocks(answer["results"])
        if answer["has_more"]:
            output.note(f"There are more results: --offset {answer['next_offset']}.")
        if answer["hint"]:
            output.note(answer["hint"])
    else:
        output.show(answer, target.format, columns=COLUMNS, rows="results")


def _show_counts(counts: dict[str, Any]) -> None:
    """Print the counts on two lines, the newest months first."""
    more = "+" if counts["is_capped"] else ""
    for name in ("sources", "months"):
        numbers = [f"{value} {count:,}{more}" for value, count in counts[name].items()]
        output.note(f"{name}: {', '.join(numbers) or 'none'}")


def _highlight(snippet: str, highlights: list[list[int]] | None) -> str:
    """The snippet as HTML with <mark> around the words of the query."""
    parts: list[str] = []
    done = 0
    for start, end in highlights or ():
        parts += html.escape(snippet[done:start]), f"<mark>{html.escape(snippet[start:end])}</mark>"
        done = end
    return "".join(parts) + html.escape(snippet[done:])


def _related(item: dict[str, Any]) -> Iterator[str]:
    """The answer to a result and its later correction, each on its own line with sender and date."""
    for name, sign in (("answer", "↳ answered"), ("later", "↳ later")):
        if other := item.get(name):
            day = (other["created_at"] or "")[:10]
            who = ", ".join(part for part in (sign, other["sender"], day) if part)
            yield f"{html.escape(who)}: {_highlight(other['snippet'], other.get('highlights'))}"


def _show_in_blocks(results: list[dict[str, Any]]) -> None:
    """Print each result as a heading, a snippet and its URI."""
    width = shutil.get_terminal_size().columns
    for item in results:
        at = (item["last_modified"] or "")[:10]
        project = project_name(item["project"]) if item.get("project") else None
        parts = (item["source"], project, item.get("agent"), item["title"], item["sender"], at)
        heading = " · ".join(part for part in parts if part)
        for line in output.wrap(output.bold(output.one_line(output.clean(heading))), width):
            output.say(line)
        for line in output.wrap(output.cell("snippet", item["snippet"]), width - 2):
            output.say("  " + line)
        output.say("  " + output.clean(item["uri"]))
        output.say()
