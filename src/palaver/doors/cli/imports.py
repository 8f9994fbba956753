"""Commands `import` and `export`: chat histories and documents in, conversations out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Literal, TextIO

import click

from palaver.doors.cli import options
from palaver.doors.cli import output as printing
from palaver.doors.cli.connection import open_workspace
from palaver.doors.cli.watch import TOOL_OUTPUT_HELP
from palaver.doors.local.running_server import running_server
from palaver.errors import PalaverError
from palaver.operations.archive import conversations
from palaver.operations.archive.import_batches import lower_priority
from palaver.operations.archive.import_files import Summary, import_paths
from palaver.text.tool_output import CHOICES, ToolOutput


@options.command("import", "format", "json", "workspace", *options.DATA, no_args_is_help=True)
@click.option("--dry-run", is_flag=True, help="Show what would be imported, without importing.")
@click.option("--tool-output", type=click.Choice(CHOICES), default="short", help=TOOL_OUTPUT_HELP)
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="PATH…")
def import_files(target: options.Target, dry_run: bool, tool_output: ToolOutput, paths: tuple[str, ...]) -> None:
    """Import chat histories, notes, documents, transcripts, character cards and prompts.

    PATH is a file, a folder or a zip. Histories come from ChatGPT, Claude, Claude Code, Codex, Gemini CLI and Cursor.
    Notes are Markdown or Obsidian vaults. Documents are text, HTML, PDF, EPUB, DOCX or PPTX. Transcripts are SRT, VTT
    or JSON, character cards PNG or JSON. With PALAVER_FETCH=on it can be the URL of a page or document: https://…

    Formats are detected. Importing again adds new items, updates changed ones and skips the rest. Items that are
    missing from a newer export are kept.

    --tool-output says how much of coding agents' tool calls is kept. 'short' keeps the name, the shortened arguments,
    the first and last lines of the output, and whole errors. 'full' keeps up to 2,000 characters of a call and 10,000
    of its output. 'none' keeps neither. Keys, tokens and passwords assigned to a name (DB_PASSWORD=…) are masked in
    them, as in 'palaver watch'.
    """
    urls = [path for path in paths if path.startswith(("https://", "http://"))]
    files = [Path(path) for path in paths if path not in urls]

    async def work() -> Summary:
        async with open_workspace(target) as (_, here):
            is_beside_server = running_server(here.settings) is not None
            if here.engine.long_changes_at_once > 1:  # nobody waits for a lock that this process holds
                lower_priority()
            line = printing.StatusLine()
            try:
                return await import_paths(
                    here,
                    files,
                    dry_run=dry_run,
                    is_beside_server=is_beside_server,
                    urls=urls,
                    tool_output=tool_output,
                    progress=lambda summary: line.draw(_says(summary)),
                )
            finally:
                line.draw("")

    summary = asyncio.run(work())
    if target.format == "table":
        _show_summary(summary, dry_run)
    else:
        names = ("new", "changed", "unchanged", "messages", "formats", "kinds")
        answer = {name: getattr(summary, name) for name in names} | {
            "items": [asdict(one) for one in summary.items],
            "skipped": [{"name": one.name, "why": one.why} for one in summary.skipped],
            "skipped_count": summary.skipped_count,
        }
        printing.show(answer, target.format, rows="rows")
    if summary.failed:
        raise PalaverError("Some files could not be read; see above.")


def _says(summary: Summary) -> str:
    """How far an import is."""
    done = summary.new + summary.changed + summary.unchanged
    what = "conversations" if summary.kinds.keys() <= {"conversations"} else "items"
    share = f", {summary.bytes_read / summary.bytes_total:.0%}" if summary.bytes_total else ""
    return f"{done:,} {what}, {summary.messages:,} messages{share} …"


def _show_summary(summary: Summary, dry_run: bool) -> None:
    for skipped in summary.skipped:
        what = "skipped " if skipped.count else ""
        printing.note(f"{what}{printing.one_line(skipped.name)}: {printing.one_line(skipped.why)}")
    if summary.skipped_count > len(summary.skipped):
        printing.note(f"… and {summary.skipped_count - len(summary.skipped):,} more")
    formats = ", ".join(f"{name} {count:,}" for name, count in sorted(summary.formats.items()))
    did = "Would import" if dry_run else "Imported"
    kinds = {**summary.kinds} or {"conversations": {"new": 0, "changed": 0, "unchanged": 0}}
    for n, (kind, counts) in enumerate(kinds.items(), 1):
        line = (
            f"{did} {counts['new']:,} new and {counts['changed']:,} changed {kind}; {counts['unchanged']:,} unchanged"
        )
        line += f", {summary.skipped_count:,} skipped" if n == len(kinds) else ""
        line += f"; {summary.messages:,} messages read" if kind == "conversations" else ""
        printing.say(f"{line}. Items by format: {formats}." if formats and n == len(kinds) else f"{line}.")


@options.command("export", "workspace", *options.DATA)
@click.option(
    "--format",
    "shape",
    type=click.Choice(("markdown", "jsonl")),
    default="markdown",
    help="Format to write.",
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="File to write to. [default: standard output]")
@click.argument("conversation", required=False, metavar="[CONVERSATION]")
def export(
    target: options.Target, shape: Literal["markdown", "jsonl"], output: Path | None, conversation: str | None
) -> None:
    """Write one or all imported conversations as Markdown or JSON lines."""

    async def work() -> int:
        async with open_workspace(target) as (_, here):
            ids = [conversation] if conversation else await here.read(conversations.all_conversation_ids)
            if conversation:
                await here.read(partial(conversations.find_conversation, id=conversation))  # before a file is touched
            with _open_output(output) as file:
                for id in ids:
                    file.write(await here.read(partial(conversations.export_text, id=id, format=shape)))
            return len(ids)

    count = asyncio.run(work())
    if output is not None:
        printing.note(f"Wrote {count:,} conversations to {output.name}.")


@contextmanager
def _open_output(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            yield file
    except OSError as problem:
        raise PalaverError(f"{output.name} cannot be written: {problem.strerror or type(problem).__name__}.") from None
