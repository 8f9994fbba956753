"""Bringing history in: whatever the importers can read, stored once however often it is brought."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from palaver.importers.finding import Found, Skipped, look
from palaver.model.library import Conversation
from palaver.store import archive
from palaver.store.archive import Outcome
from palaver.store.database import Change, Reader
from palaver.store.workspaces import Workspace

MESSAGES_AT_ONCE = 500
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
    while (found := await asyncio.to_thread(next, sources, None)) is not None:
        if isinstance(found, Skipped):
            summary.skip(found)
        else:
            await _bring_one(here, found, summary, dry_run, progress)
        progress(summary)
    return summary


async def _bring_one(here: Workspace, found: Found, summary: Summary, dry_run: bool, progress: Progress) -> None:
    conversations = found.conversations()
    while (batch := await asyncio.to_thread(_batch, conversations, summary)) is not None:
        summary.messages += sum(len(conversation.messages) for conversation in batch)
        summary.formats[found.importer] = summary.formats.get(found.importer, 0) + len(batch)
        if dry_run:
            summary.count(await here.read(partial(_judge_all, batch=batch)))
        else:
            summary.count(await here.change(partial(_put_all, batch=batch)))
        progress(summary)


def _batch(conversations: Iterator[Conversation | Skipped], summary: Summary) -> list[Conversation] | None:
    """The next few conversations, together about as many messages as one change should hold."""
    batch: list[Conversation] = []
    messages = 0
    for one in conversations:
        if isinstance(one, Skipped):
            summary.skip(one)
            continue
        batch.append(one)
        messages += len(one.messages)
        if messages >= MESSAGES_AT_ONCE:
            return batch
    return batch or None


def _judge_all(read: Reader, batch: list[Conversation]) -> list[Outcome]:
    return [archive.judge(read, conversation) for conversation in batch]


def _put_all(change: Change, batch: list[Conversation]) -> list[Outcome]:
    return [archive.put(change, conversation) for conversation in batch]
