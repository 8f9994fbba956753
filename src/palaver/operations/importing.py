"""Bringing history and the library in: whatever the importers can read, stored once however often it is brought."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from palaver.errors import PalaverError
from palaver.importers.finding import Found, Skipped, look
from palaver.model.library import Brought, Conversation
from palaver.operations import fetching, library
from palaver.sources import SOURCES
from palaver.store import archive
from palaver.store.archive import Outcome, Prepared
from palaver.store.database import Change, Reader
from palaver.store.workspaces import Workspace

MESSAGES_AT_ONCE = 2_000
CHARACTERS_AT_ONCE = 4_000_000
TURN_SECONDS = 0.0005
OBJECTS_LET_BE = 200_000
CHARACTERS_OF_PIECES_AT_ONCE = 1_000_000
PIECES_AT_ONCE = 100
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
    progress: Progress = lambda summary: None,
) -> Summary:
    """Import everything found at these paths and addresses. It may be stopped anywhere: run again, it goes on."""
    summary = Summary()
    sources = look(paths, are_uploads=are_uploads)
    seen: set[str] = set()
    with _taking_turns():
        while (found := await asyncio.to_thread(next, sources, None)) is not None:
            if isinstance(found, Skipped):
                summary.skip(found)
            else:
                await _bring_one(here, found, summary, dry_run, progress)
                await _bring_pieces(here, found, summary, progress, seen if dry_run else None)
            progress(summary)
    for url in urls:
        try:
            brought = await fetching.fetch(here.settings, url)
        except PalaverError as problem:
            summary.skip(Skipped(url, problem.message.rstrip("."), is_error=True))
        else:
            page = Found("web", url, 0, pieces=partial(iter, (brought,)))
            await _bring_pieces(here, page, summary, progress, seen if dry_run else None)
    return summary


async def _bring_one(here: Workspace, found: Found, summary: Summary, dry_run: bool, progress: Progress) -> None:
    """While one batch is written, the next one is read and prepared."""
    conversations = found.conversations()
    read_before = summary.bytes_read
    summary.bytes_total += found.size
    coming = asyncio.ensure_future(asyncio.to_thread(_batch, conversations, summary))
    try:
        while (batch := await coming) is not None:
            coming = asyncio.ensure_future(asyncio.to_thread(_batch, conversations, summary))
            if dry_run:
                outcomes = await here.read(partial(archive.judge_all, batch=batch))
            else:
                outcomes = await here.change(partial(archive.put_all, batch=batch))
            summary.count(outcomes)
            if not dry_run:
                summary.name("archive", (one.conversation.id for one in batch), outcomes)
            summary.bytes_read = read_before + min(found.read, found.size)
            summary.messages += sum(len(one.conversation.messages) for one in batch)
            summary.formats[found.importer] = summary.formats.get(found.importer, 0) + len(batch)
            progress(summary)
    finally:
        await asyncio.wait((coming,))
        summary.bytes_read = read_before + found.size


def _batch(conversations: Iterator[Conversation | Skipped], summary: Summary) -> list[Prepared] | None:
    """The next few conversations, together about as much as one change should hold."""
    batch: list[Prepared] = []
    messages = characters = 0
    for one in conversations:
        if isinstance(one, Skipped):
            summary.skip(one)
            continue
        batch.append(archive.prepare(one))
        messages += len(one.messages)
        characters += sum(len(said.text) for said in one.messages)
        if messages >= MESSAGES_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            return batch
    return batch or None


@contextmanager
def _taking_turns() -> Iterator[None]:
    """The thread that writes needs Python often and shortly: let it not wait 5 ms each time for the one that reads.

    And what was read is let go of by itself: looking for circles after every few hundred objects would find none.
    """
    before, usual = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(TURN_SECONDS)
    gc.set_threshold(max(usual[0], OBJECTS_LET_BE), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        sys.setswitchinterval(before)


# Pieces of the library


async def _bring_pieces(
    here: Workspace, found: Found, summary: Summary, progress: Progress, seen: set[str] | None
) -> None:
    """Write them, a few at a time; with `seen`, the contents of a dry run so far, only say what would be written."""
    pieces = found.pieces()
    read_before = summary.bytes_read - found.size  # whoever looked for conversations in it has counted all of it
    coming = asyncio.ensure_future(asyncio.to_thread(_some_pieces, pieces, summary))
    try:
        while (batch := await coming) is not None:
            coming = asyncio.ensure_future(asyncio.to_thread(_some_pieces, pieces, summary))
            if seen is not None:
                outcomes = await here.read(partial(_judge_pieces, batch=batch, seen=seen))
            else:
                outcomes = await here.change(partial(_put_pieces, batch=batch))
            some = batch[: NAMED_AT_MOST - len(summary.items)]
            ids = await here.read(partial(_ids_of, batch=some))
            for one, outcome in zip(batch, outcomes, strict=True):
                summary.count([outcome], library.bringing.SHELVES[type(one.piece)][0])
            for one, id, outcome in zip(some, ids, outcomes, strict=False):
                summary.name(library.bringing.SHELVES[type(one.piece)][0], [id], [outcome])
            summary.formats[found.importer] = summary.formats.get(found.importer, 0) + len(batch)
            summary.bytes_read = read_before + min(found.read, found.size)
            progress(summary)
    finally:
        await asyncio.wait((coming,))
        summary.bytes_read = read_before + found.size


def _some_pieces(pieces: Iterator[Brought | Skipped], summary: Summary) -> list[Brought] | None:
    batch: list[Brought] = []
    characters = 0
    for one in pieces:
        if isinstance(one, Skipped):
            summary.skip(one)
            continue
        batch.append(one)
        characters += len(getattr(one.piece, "content", ""))
        if characters >= CHARACTERS_OF_PIECES_AT_ONCE or len(batch) >= PIECES_AT_ONCE:
            break
    return batch or None


def _put_pieces(change: Change, batch: list[Brought]) -> list[Outcome]:
    return [library.put_brought(change, one) for one in batch]


def _ids_of(read: Reader, batch: list[Brought]) -> list[str | int | None]:
    return [library.bringing.id_of(read, one) for one in batch]


def _judge_pieces(read: Reader, batch: list[Brought], seen: set[str]) -> list[Outcome]:
    """As if the earlier ones had been written."""
    outcomes: list[Outcome] = []
    for one in batch:
        outcome = library.judge_brought(read, one)
        content = f"{type(one.piece).__name__}{library.content_digest(one)}"
        outcomes.append("unchanged" if outcome == "new" and content in seen else outcome)
        seen.add(content)
    return outcomes
