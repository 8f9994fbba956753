"""An import gives way to people and agents who write meanwhile: short transactions, with a pause after each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from palaver.store.library.archive import Outcome, PreparedConversation
from palaver.store.workspaces import Workspace

ITEMS_AT_ONCE = 20
"""How many messages or documents are written in one transaction while others write."""
SECONDS = 5.0
"""How long an import gives way after it has seen that somebody wrote."""
PAUSE = 2.0
"""How long it waits after such a transaction, as a multiple of the time that the transaction took."""

T = TypeVar("T")


class GivingWay:
    """Notices that somebody else writes in a workspace: an import makes no events."""

    def __init__(self, here: Workspace) -> None:
        self._here = here
        self._newest_event: int | None = None
        self._until = 0.0

    async def _is_needed(self) -> bool:
        newest = await self._here.last_event_id()
        if self._newest_event not in (None, newest):
            self._until = time.monotonic() + SECONDS
        self._newest_event = newest
        return time.monotonic() < self._until

    async def write(
        self, items: Sequence[T], size_of: Callable[[T], int], write: Callable[[Sequence[T]], Awaitable[list[Outcome]]]
    ) -> list[Outcome]:
        """Write all items in one transaction, or in short ones with pauses while others write."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(items):
            if not await self._is_needed():
                return outcomes + await write(items[len(outcomes) :])
            some = _first(items[len(outcomes) :], size_of)
            began = time.monotonic()
            outcomes += await write(some)
            await asyncio.sleep(PAUSE * (time.monotonic() - began))
        return outcomes


def _first(items: Sequence[T], size_of: Callable[[T], int]) -> Sequence[T]:
    """As many items as one short transaction should hold, at least one."""
    size = 0
    for count, one in enumerate(items, 1):
        size += size_of(one)
        if size >= ITEMS_AT_ONCE:
            return items[:count]
    return items


def messages_of(one: PreparedConversation) -> int:
    return len(one.conversation.messages)
