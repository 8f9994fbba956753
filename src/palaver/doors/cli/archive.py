"""Bringing history in from a terminal, and taking it out again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal, TextIO

import click

from palaver.doors.cli import output as printing
from palaver.doors.cli import target
from palaver.doors.cli.sessions import workspace
from palaver.doors.cli.watch import TOOL_OUTPUT_HELP
from palaver.errors import PalaverError
from palaver.operations.archive import conversations, import_files
from palaver.operations.archive.import_files import Summary
from palaver.text.tool_output import CHOICES, ToolOutput


@target.takes("format", "json", "workspace", *target.ON_THE_DATA)
@click.command("import", no_args_is_help=True)
@click.option("--dry-run", is_flag=True, help="Say what would be imported, and change nothing.")
@click.option("--tool-output", type=click.Choice(CHOICES), default="short", help=TOOL_OUTPUT_HELP)
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="PATH…")
def bring(dry_run: bool, tool_output: ToolOutput, paths: tuple[str, ...]) -> None:
    """Import chat histories, notes, documents, transcripts, character cards and prompts: files, folders and zips.

    Histories of ChatGPT, Claude, Claude Code, Codex, Gemini CLI and Cursor; Markdown and Obsidian vaults; text, HTML,
    PDF, EPUB, DOCX and PPTX; SRT, VTT and JSON transcripts; character cards as PNG or JSON; prompt files. With
    PALAVER_FETCH=on also the address of a page or document: https://…

    What is there is recognised by itself. Importing again adds what is new, updates what has changed and leaves the
    rest alone; what has vanished from an export stays here.

    Of the tools of coding agents, --tool-output short keeps the name, the arguments in brief, the first and last lines
    of the output, and errors whole; full keeps up to 2,000 characters of a call and 10,000 of its output; none keeps
    neither. Keys, tokens and passwords assigned to a name (DB_PASSWORD=…) are masked there as in 'palaver watch'.
    """
    where = target.here(click.get_current_context())
    urls = [path for path in paths if path.startswith(("https://", "http://"))]
    summary = asyncio.run(_bring([Path(path) for path in paths if path not in urls], urls, dry_run, tool_output))
    if where.format == "table":
        _tell(summary, dry_run)
    else:
        printing.show(_as_json(summary), where.format, rows="rows")
    if summary.failed:
        raise PalaverError("Not everything could be read; see above.")


async def _bring(paths: list[Path], urls: list[str], dry_run: bool, tool_output: ToolOutput) -> Summary:
    async with workspace() as here:
        with _watching() as progress:
            return await import_files.import_paths(
                here, paths, dry_run=dry_run, urls=urls, tool_output=tool_output, progress=progress
            )


@contextmanager
def _watching() -> Iterator[Callable[[Summary], None]]:
    """A line on stderr that counts, where somebody is looking."""
    if not sys.stderr.isatty():
        yield lambda summary: None
        return

    def show(summary: Summary) -> None:
        done = summary.new + summary.changed + summary.unchanged
        what = "conversations" if summary.kinds.keys() <= {"conversations"} else "items"
        share = f", {summary.bytes_read / summary.bytes_total:.0%}" if summary.bytes_total else ""
        sys.stderr.write(f"\r\x1b[K{done:,} {what}, {summary.messages:,} messages{share} …")
        sys.stderr.flush()

    yield show
    sys.stderr.write("\r\x1b[K")


def _tell(summary: Summary, dry_run: bool) -> None:
    for skipped in summary.skipped:
        what = "skipped " if skipped.count else ""
        printing.note(f"{what}{printing.one_line(skipped.name)}: {printing.one_line(skipped.why)}")
    if summary.skipped_count > len(summary.skipped):
        printing.note(f"… and {summary.skipped_count - len(summary.skipped):,} more")
    formats = ", ".join(f"{name} {count:,}" for name, count in sorted(summary.formats.items()))
    did = "Would import" if dry_run else "Imported"
    told = {**summary.kinds} or {"conversations": {"new": 0, "changed": 0, "unchanged": 0}}
    for n, (kind, counts) in enumerate(told.items(), 1):
        line = (
            f"{did} {counts['new']:,} new and {counts['changed']:,} changed {kind}; {counts['unchanged']:,} unchanged"
        )
        line += f", {summary.skipped_count:,} skipped" if n == len(told) else ""
        line += f"; {summary.messages:,} messages read" if kind == "conversations" else ""
        printing.say(f"{line}. Items by format: {formats}." if formats and n == len(told) else f"{line}.")


def _as_json(summary: Summary) -> dict[str, Any]:
    return {
        "new": summary.new,
        "changed": summary.changed,
        "unchanged": summary.unchanged,
        "messages": summary.messages,
        "formats": summary.formats,
        "kinds": summary.kinds,
        "items": [asdict(one) for one in summary.items],
        "skipped": [{"name": one.name, "why": one.why} for one in summary.skipped],
        "skipped_count": summary.skipped_count,
    }


@target.takes("workspace", *target.ON_THE_DATA)
@click.command("export")
@click.option(
    "--format", "shape", type=click.Choice(("markdown", "jsonl")), default="markdown", help="How to write it."
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="A file to write to; standard output otherwise.")
@click.argument("conversation", required=False, metavar="[CONVERSATION]")
def export(shape: Literal["markdown", "jsonl"], output: Path | None, conversation: str | None) -> None:
    """Write an imported conversation, or all of them, as Markdown or JSON lines."""
    count = asyncio.run(_export(conversation, shape, output))
    if output is not None:
        printing.note(f"Wrote {count:,} conversations to {output.name}.")


async def _export(id: str | None, shape: Literal["markdown", "jsonl"], output: Path | None) -> int:
    async with workspace() as here:
        ids = [id] if id else await here.read(conversations.all_conversation_ids)
        if id:
            await here.read(partial(conversations.find_conversation, id=id))  # before a file is touched
        with _opened(output) as file:
            for one in ids:
                file.write(await here.read(partial(conversations.export_text, id=one, format=shape)))
        return len(ids)


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            yield file
    except OSError as problem:
        raise PalaverError(f"{output.name} cannot be written: {problem.strerror or type(problem).__name__}.") from None
