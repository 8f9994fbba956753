"""Import chat histories and library files: write each batch in one transaction, and count the outcomes.

Importing the same files again changes nothing, so an import may be stopped at any time and run again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any, TypeVar

from palaver.errors import PalaverError
from palaver.importers.discover import Skipped
from palaver.model.library import ImportedPiece
from palaver.operations.archive import import_batches
from palaver.operations.archive.import_batches import Batch, ImportRequest
from palaver.operations.library import web_fetch
from palaver.operations.library.import_items import content_digest, id_of, import_outcome, import_piece, source_of
from palaver.operations.sessions.private import privacy_rules
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader
from palaver.store.library import archive, import_jobs
from palaver.store.library.archive import Outcome, PreparedConversation
from palaver.store.workspaces import Workspace
from palaver.text.tool_output import ToolOutput

MOST_SKIPPED_SHOWN = 200
MOST_ITEMS_SHOWN = 1_000
ITEMS_AT_ONCE = 20
"""How many messages or documents are written in one transaction while others write."""
GIVING_WAY_SECONDS = 5.0
"""How long an import gives way after it has seen that somebody wrote."""
PAUSE_TIMES = 2.0
"""How long it waits after such a transaction, as a multiple of the time that the transaction took."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImportedItem:
    """A document that was imported."""

    source: str
    id: str | int
    uri: str
    outcome: Outcome


@dataclass
class Summary:
    """The result of an import, also while it runs."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    messages: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    skipped_count: int = 0
    formats: dict[str, int] = field(default_factory=dict)
    bytes_total: int = 0
    """The size of the files that were found so far."""
    bytes_read: int = 0
    kinds: dict[str, dict[str, int]] = field(default_factory=dict)
    """The counts of conversations, notes, media, characters and prompts, each if there were any."""
    items: list[ImportedItem] = field(default_factory=list)
    """The first thousand imported documents."""
    failed: bool = False

    def count(self, source: str, outcome: Outcome, id: str | int | None) -> None:
        """Count a document. With an id it is listed as well."""
        name = outcome if outcome in ("new", "changed") else "unchanged"
        self.new += name == "new"
        self.changed += name == "changed"
        self.unchanged += name == "unchanged"
        kind = "conversations" if source == "archive" else source
        counts = self.kinds.setdefault(kind, {"new": 0, "changed": 0, "unchanged": 0})
        counts[name] += 1
        if id is not None and len(self.items) < MOST_ITEMS_SHOWN:
            self.items.append(ImportedItem(source, id, SOURCES[source].uri_of(str(id), "", 0), outcome))

    def skip(self, skipped: Skipped) -> None:
        self.skipped_count += skipped.count
        self.failed = self.failed or skipped.is_error
        if len(self.skipped) < MOST_SKIPPED_SHOWN:
            self.skipped.append(skipped)


async def import_paths(
    here: Workspace,
    paths: list[Path],
    *,
    dry_run: bool = False,
    are_uploads: bool = False,
    is_beside_server: bool = False,
    urls: Sequence[str] = (),
    tool_output: ToolOutput = "short",
    progress: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """Import everything at these paths and addresses. `is_beside_server`: a server here uses the same data."""
    summary = Summary()
    seen: set[str] | None = set() if dry_run else None
    # A server writes one batch at a time, to leave time for its clients.
    writes = _Writes(here, summary, seen, progress, 1 if are_uploads or dry_run else here.engine.long_changes_at_once)
    is_large = await asyncio.to_thread(import_batches.is_large, paths)
    has_clients = are_uploads or (is_beside_server and here.engine.long_changes_at_once == 1)
    # Batches that are written at the same time are in memory at the same time.
    size = max(1, import_batches.MESSAGES_AT_ONCE // here.engine.long_changes_at_once)
    size = import_batches.MESSAGES_AT_ONCE_BESIDE_POSTS if has_clients else size
    rules = privacy_rules(here.settings, is_here=not are_uploads)
    request = ImportRequest(paths, are_uploads, size, tool_output, here.engine.prepare_text, rules, here.forgotten)
    batches = import_batches.read_batches(request, is_large=is_large)
    async with here.bulk_writes() if is_large and not dry_run else nullcontext(), aclosing(batches):
        try:
            async for batch in batches:
                await writes.add(batch)
            await writes.finish()
        finally:
            await writes.stop()
    for url in urls:
        try:
            piece = await web_fetch.fetch(here.settings, url)
        except PalaverError as problem:
            summary.skip(Skipped(url, problem.message.rstrip("."), is_error=True))
        else:
            page = Batch("web", pieces=[piece], bytes_total=summary.bytes_total, bytes_read=summary.bytes_read)
            await writes.add(page)
            await writes.finish()
    return summary


class GivingWay:
    """An import gives way to people and agents who write meanwhile: short transactions, with a pause after each.

    Notices that somebody else writes in a workspace: an import makes no events.
    """

    def __init__(self, here: Workspace) -> None:
        self._here = here
        self._newest_event: int | None = None
        self._until = 0.0

    async def _is_needed(self) -> bool:
        newest = await self._here.last_event_id()
        if self._newest_event not in (None, newest):
            self._until = time.monotonic() + GIVING_WAY_SECONDS
        self._newest_event = newest
        return time.monotonic() < self._until

    async def write(
        self, items: Sequence[T], size_of: Callable[[T], int], write: Callable[[Sequence[T]], Awaitable[list[Outcome]]]
    ) -> list[Outcome]:
        """Write all items in one transaction, or in short ones with pauses while others write."""
        outcomes: list[Outcome] = []
        while rest := items[len(outcomes) :]:
            if not await self._is_needed():
                return outcomes + await write(rest)
            sizes = accumulate(map(size_of, rest))
            count = next((n for n, size in enumerate(sizes, 1) if size >= ITEMS_AT_ONCE), len(rest))
            began = time.monotonic()
            outcomes += await write(rest[:count])
            await asyncio.sleep(PAUSE_TIMES * (time.monotonic() - began))
        return outcomes


def messages_of(one: PreparedConversation) -> int:
    return len(one.conversation.messages)


@dataclass
class _Writes:
    """Writes the batches of an import, several at once where the engine can, and counts them in their order.

    Batches with the same conversation take turns, and so do batches with notes, media, characters or prompts. A dry
    run writes nothing; `seen` are then the contents of the batches before.
    """

    here: Workspace
    summary: Summary
    seen: set[str] | None
    progress: Callable[[Summary], None]
    most_at_once: int
    running: deque[tuple[Batch, asyncio.Task[list[Outcome]]]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.giving_way = GivingWay(self.here)

    async def add(self, batch: Batch) -> None:
        """Begin to write a batch. Waits until there is room for the next one."""
        if batch.pieces or self._is_being_written(batch):
            await self.finish()
        self.running.append((batch, asyncio.create_task(self._write_conversations(batch.conversations))))
        if batch.pieces:
            await self.finish()
        while len(self.running) >= self.most_at_once:
            await self._count_first()

    def _is_being_written(self, batch: Batch) -> bool:
        """Is a conversation of this batch in one that is not finished?"""
        ids = {one.conversation.id for one in batch.conversations}
        return any(one.conversation.id in ids for other, _ in self.running for one in other.conversations)

    async def finish(self) -> None:
        """Wait for all batches."""
        while self.running:
            await self._count_first()

    async def stop(self) -> None:
        """Wait for the batches that are being written, after an error. They are not counted."""
        tasks = [task for _, task in self.running]
        self.running.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _count_first(self) -> None:
        batch, task = self.running[0]
        outcomes = await task
        self.running.popleft()
        summary, conversations = self.summary, batch.conversations
        for skipped in batch.skipped:
            summary.skip(skipped)
        for one, outcome in zip(conversations, outcomes, strict=True):
            summary.count("archive", outcome, one.conversation.id if self.seen is None else None)
            summary.messages += len(one.conversation.messages)
        if batch.pieces:
            await self._write_pieces(batch.pieces)
        if count := len(conversations) + len(batch.pieces):
            summary.formats[batch.importer] = summary.formats.get(batch.importer, 0) + count
        summary.bytes_total, summary.bytes_read = batch.bytes_total, batch.bytes_read
        self.progress(summary)

    async def _write_conversations(self, conversations: list[PreparedConversation]) -> list[Outcome]:
        if not conversations:
            return []
        if self.seen is not None:
            return await self.here.read(partial(archive.compare_all, batch=conversations))
        return await self.giving_way.write(
            conversations,
            messages_of,
            lambda some: self.here.change_beside(partial(archive.put_all, batch=some)),
        )

    async def _write_pieces(self, pieces: list[ImportedPiece]) -> None:
        here, summary = self.here, self.summary
        if self.seen is not None:
            outcomes = await here.read(partial(_compare_pieces, pieces=pieces, seen=self.seen))
        else:
            outcomes = await self.giving_way.write(
                pieces,
                lambda one: 1,
                lambda some: here.change_beside(lambda change: [import_piece(change, one) for one in some]),
            )
        listed = pieces[: MOST_ITEMS_SHOWN - len(summary.items)]
        ids = await here.read(lambda read: [id_of(read, one) for one in listed])
        for one, outcome, id in zip_longest(pieces, outcomes, ids):
            summary.count(source_of(one).name, outcome, id)


def _compare_pieces(read: Reader, pieces: list[ImportedPiece], seen: set[str]) -> list[Outcome]:
    """The outcomes of importing these pieces, as if the ones before had been written."""
    outcomes: list[Outcome] = []
    for one in pieces:
        outcome = import_outcome(read, one)
        content = f"{type(one.piece).__name__}{content_digest(one)}"
        outcomes.append("unchanged" if outcome == "new" and content in seen else outcome)
        seen.add(content)
    return outcomes


# The states of imports of uploads, for all servers that share the data


async def store_state(here: Workspace, state: dict[str, Any]) -> None:
    await here.change(lambda change: import_jobs.put(change, state))


async def state_of(here: Workspace, id: str) -> dict[str, Any] | None:
    """The state of an import that this or another server has begun."""
    return await here.read(lambda read: import_jobs.find(read, id))
