"""Bringing history and the library in: whatever the importers can read, stored once however often it is brought."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from palaver.errors import PalaverError
from palaver.importers.files.discover import Skipped
from palaver.model.library import Brought
from palaver.operations import library
from palaver.operations.archive import import_batches
from palaver.operations.archive.import_batches import Portion
from palaver.operations.library import web_fetch
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Change, Reader
from palaver.store.library import archive
from palaver.store.library.archive import Outcome, PreparedConversation
from palaver.store.workspaces import Workspace
from palaver.text.tool_output import ToolOutput

SHOWN_AT_MOST = 200
NAMED_AT_MOST = 1_000


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was brought, and what it is called here."""

    source: str
    id: str | int
    uri: str
    outcome: Outcome


@dataclass
class Summary:
    """What came of an import."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    messages: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    skipped_count: int = 0
    formats: dict[str, int] = field(default_factory=dict)
    bytes_total: int = 0
    """Of what has been found so far, how large it is and how much of it has been read."""
    bytes_read: int = 0
    kinds: dict[str, dict[str, int]] = field(default_factory=dict)
    """The same numbers for conversations, notes, media, characters and prompts, as far as there were any."""
    items: list[Item] = field(default_factory=list)
    """The first thousand of what was brought."""
    failed: bool = False

    def name(self, source: str, ids: Iterable[str | int | None], outcomes: Iterable[Outcome]) -> None:
        for id, outcome in zip(ids, outcomes, strict=True):
            if id is not None and len(self.items) < NAMED_AT_MOST:
                self.items.append(Item(source, id, SOURCES[source].uri_of(str(id), "", 0), outcome))

    def count(self, outcomes: list[Outcome], kind: str = "conversations") -> None:
        new, changed = outcomes.count("new"), outcomes.count("changed")
        unchanged = len(outcomes) - new - changed
        self.new += new
        self.changed += changed
        self.unchanged += unchanged
        known = self.kinds.setdefault(kind, {"new": 0, "changed": 0, "unchanged": 0})
        for name, count in (("new", new), ("changed", changed), ("unchanged", unchanged)):
            known[name] += count

    def skip(self, skipped: Skipped) -> None:
        self.skipped_count += skipped.count
        self.failed = self.failed or skipped.is_error
        if len(self.skipped) < SHOWN_AT_MOST:
            self.skipped.append(skipped)


Progress = Callable[[Summary], None]


async def bring(
    here: Workspace,
    paths: list[Path],
    *,
    dry_run: bool = False,
    are_uploads: bool = False,
    urls: Sequence[str] = (),
    tool_output: ToolOutput = "short",
    progress: Progress = lambda summary: None,
) -> Summary:
    """Import everything found at these paths and addresses. It may be stopped anywhere: run again, it goes on."""
    summary = Summary()
    seen: set[str] | None = set() if dry_run else None
    is_much = await asyncio.to_thread(import_batches.is_much, paths)
    async with (
        here.bulk_writes() if is_much and not dry_run else nullcontext(),
        aclosing(
            import_batches.portions(paths, are_uploads=are_uploads, is_much=is_much, tool_output=tool_output)
        ) as portions,
    ):
        async for portion in portions:
            await _bring_portion(here, portion, summary, seen)
            progress(summary)
    for url in urls:
        try:
            brought = await web_fetch.fetch(here.settings, url)
        except PalaverError as problem:
            summary.skip(Skipped(url, problem.message.rstrip("."), is_error=True))
        else:
            page = Portion("web", pieces=[brought], bytes_total=summary.bytes_total, bytes_read=summary.bytes_read)
            await _bring_portion(here, page, summary, seen)
            progress(summary)
    return summary


async def _bring_portion(here: Workspace, portion: Portion, summary: Summary, seen: set[str] | None) -> None:
    """Write it; with `seen`, the contents of a dry run so far, only say what would be written."""
    for skipped in portion.skipped:
        summary.skip(skipped)
    if portion.conversations:
        await _bring_conversations(here, portion.conversations, summary, is_dry=seen is not None)
    if portion.pieces:
        await _bring_pieces(here, portion.pieces, summary, seen)
    if count := len(portion.conversations) + len(portion.pieces):
        summary.formats[portion.importer] = summary.formats.get(portion.importer, 0) + count
    summary.bytes_total, summary.bytes_read = portion.bytes_total, portion.bytes_read


async def _bring_conversations(
    here: Workspace, batch: list[PreparedConversation], summary: Summary, is_dry: bool
) -> None:
    if is_dry:
        outcomes = await here.read(partial(archive.compare_all, batch=batch))
    else:
        outcomes = await here.change(partial(archive.put_all, batch=batch))
        summary.name("archive", (one.conversation.id for one in batch), outcomes)
    summary.count(outcomes)
    summary.messages += sum(len(one.conversation.messages) for one in batch)


# Pieces of the library


async def _bring_pieces(here: Workspace, batch: list[Brought], summary: Summary, seen: set[str] | None) -> None:
    if seen is not None:
        outcomes = await here.read(partial(_judge_pieces, batch=batch, seen=seen))
    else:
        outcomes = await here.change(partial(_put_pieces, batch=batch))
    some = batch[: NAMED_AT_MOST - len(summary.items)]
    ids = await here.read(partial(_ids_of, batch=some))
    for one, outcome in zip(batch, outcomes, strict=True):
        summary.count([outcome], library.import_items.SHELVES[type(one.piece)][0])
    for one, id, outcome in zip(some, ids, outcomes, strict=False):
        summary.name(library.import_items.SHELVES[type(one.piece)][0], [id], [outcome])


def _put_pieces(change: Change, batch: list[Brought]) -> list[Outcome]:
    return [library.put_brought(change, one) for one in batch]


def _ids_of(read: Reader, batch: list[Brought]) -> list[str | int | None]:
    return [library.import_items.id_of(read, one) for one in batch]


def _judge_pieces(read: Reader, batch: list[Brought], seen: set[str]) -> list[Outcome]:
    """As if the earlier ones had been written."""
    outcomes: list[Outcome] = []
    for one in batch:
        outcome = library.judge_brought(read, one)
        content = f"{type(one.piece).__name__}{library.content_digest(one)}"
        outcomes.append("unchanged" if outcome == "new" and content in seen else outcome)
        seen.add(content)
    return outcomes
