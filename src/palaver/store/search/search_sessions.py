"""Sessions of searching: what each has seen lately, for clients that keep no connection. They live in memory only."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from palaver.model.ids import new_id
from palaver.model.search import SearchSession

MOST_SESSIONS = 5_000  # a client that never names its session begins one with each search
MOST_SEEN = 500
MOST_PAGED = 5


class SearchSessionCache:
    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._held: OrderedDict[tuple[str, str], SearchSession] = OrderedDict()

    def named(self, owner: str, session_id: str | None) -> tuple[str, SearchSession]:
        """The session of this id, if it is this owner's and still lives; else a new one, with an id of its own."""
        held = self._held.get((owner, session_id)) if session_id else None
        if held is None or session_id is None or self._is_over(held):
            held = SearchSession(used_at=time.monotonic())
            session_id = self._keep(owner, held)
        self._held.move_to_end((owner, session_id))
        return session_id, self.alive(held)

    def name_of(self, owner: str, recall: SearchSession) -> str:
        """The id of a connection's session, by which it may be named from now on."""
        recall.session_id = recall.session_id or self._keep(owner, recall)
        return recall.session_id

    def _keep(self, owner: str, recall: SearchSession) -> str:
        session_id = new_id()
        self._held[owner, session_id] = recall
        while len(self._held) > MOST_SESSIONS:
            self._held.popitem(last=False)
        return session_id

    def alive(self, recall: SearchSession) -> SearchSession:
        """The same session, or what it is after nobody has asked for a while: empty."""
        if self._is_over(recall):
            recall.seen.clear()
            recall.queries.clear()
            recall.paging.clear()
        recall.used_at = time.monotonic()
        return recall

    def _is_over(self, recall: SearchSession) -> bool:
        return bool(recall.used_at) and time.monotonic() - recall.used_at > self._ttl


def turn_of(recall: SearchSession | None) -> AbstractAsyncContextManager[Any]:
    """Searches of one session take turns, so that each leaves out what those before it have shown."""
    if recall is None:
        return nullcontext()
    recall.turn = recall.turn or asyncio.Lock()
    return recall.turn


def seen_before(recall: SearchSession, search: str, *, is_new: bool) -> frozenset[str]:
    """What this search leaves out: what had been shown before it began. Paging through it does not change that."""
    before = recall.paging.pop(search, None)
    if is_new or before is None:
        before = frozenset(recall.seen)
    recall.paging[search] = before
    if len(recall.paging) > MOST_PAGED:
        del recall.paging[next(iter(recall.paging))]
    return before


def mark_seen(recall: SearchSession, uris: list[str]) -> None:
    for uri in uris:
        recall.seen.pop(uri, None)
        recall.seen[uri] = None
    while len(recall.seen) > MOST_SEEN:
        del recall.seen[next(iter(recall.seen))]


def remember(recall: SearchSession, query: str) -> None:
    """What was searched for: whoever opens something next, and does not say where, means the place that says this."""
    if query.strip():
        recall.queries.append(query[:1000])
