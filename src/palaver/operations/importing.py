"""Bringing history in: whatever the importers can read, stored once however often it is brought."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from palaver.importers.finding import Found, Skipped, look
from palaver.model.library import Conversation
from palaver.store import archive
from palaver.store.archive import Outcome, Prepared
from palaver.store.workspaces import Workspace

MESSAGES_AT_ONCE = 2_000
CHARACTERS_AT_ONCE = 4_000_000
TURN_SECONDS = 0.0005
SHOWN_AT_MOST = 200


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
    failed: bool = False

    def count(self, outcomes: list[Outcome]) -> None:
        self.new += outcomes.count("new")
        self.changed += outcomes.count("changed")
        self.unchanged += outcomes.count("unchanged") + outcomes.count("older")

    def skip(self, skipped: Skipped) -> None:
        self.skipped_count += skipped.count
        self.failed = self.failed or skipped.is_error
        if len(self.skipped) < SHOWN_AT_MOST:
            self.skipped.append(skipped)


Progress = Callable[[Summary], None]


async def bring(
    here: Workspace, paths: list[Path], *, dry_run: bool = False, progress: Progress = lambda summary: None
) -> Summary:
    """Import everything found at these paths. It may be stopped anywhere: run again, it goes on."""
    summary = Summary()
    sources = look(paths)
    with _taking_turns():
        while (found := await asyncio.to_thread(next, sources, None)) is not None:
            if isinstance(found, Skipped):
                summary.skip(found)
            else:
                await _bring_one(here, found, summary, dry_run, progress)
            progress(summary)
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
    """The thread that writes needs Python often and shortly: let it not wait 5 ms each time for the one that reads."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
