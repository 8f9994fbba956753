"""Search sessions: the results each client has seen, so that later searches leave them out. In memory only."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from palaver.model.ids import new_id
from palaver.model.search import SearchSession

MOST_SESSIONS = 5_000
"""How many sessions are kept. A client that never names its session starts one with each search."""
MOST_SEEN = 500
"""How many seen results a session remembers."""
MOST_PAGED = 5
"""How many searches of a session can be paged through at the same time."""


class SearchSessionCache:
    """The search sessions of a workspace, by owner and id. A session that is not used for `ttl` seconds expires."""

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._sessions: OrderedDict[tuple[str, str], SearchSession] = OrderedDict()

    def find_or_start(self, owner: str, session_id: str | None) -> tuple[str, SearchSession]:
        """The session with this id, if it is this owner's and has not expired; else a new one with its id."""
        found = self._sessions.get((owner, session_id)) if session_id else None
        if found is None or session_id is None or self._has_expired(found):
            found = SearchSession(used_at=time.monotonic())
            session_id = self._add(owner, found)
        self._sessions.move_to_end((owner, session_id))
        return session_id, self.refresh(found)

    def id_of(self, owner: str, session: SearchSession) -> str:
        """The id of a connection's session. It gets one at the first call."""
        session.session_id = session.session_id or self._add(owner, session)
        return session.session_id

    def _add(self, owner: str, session: SearchSession) -> str:
        session_id = new_id()
        self._sessions[owner, session_id] = session
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session_id

    def refresh(self, session: SearchSession) -> SearchSession:
        """Mark a session as used. An expired session is emptied first."""
        if self._has_expired(session):
            session.seen.clear()
            session.queries.clear()
            session.paging.clear()
        session.used_at = time.monotonic()
        return session

    def _has_expired(self, session: SearchSession) -> bool:
        return bool(session.used_at) and time.monotonic() - session.used_at > self._ttl


def turn_of(session: SearchSession | None) -> AbstractAsyncContextManager[Any]:
    """A lock, so that searches of one session run one after the other and leave out what earlier ones showed."""
    if session is None:
        return nullcontext()
    session.turn = session.turn or asyncio.Lock()
    return session.turn


def seen_before(session: SearchSession, search: str, *, is_new: bool) -> frozenset[str]:
    """The results that a search leaves out: those shown before its first page. Later pages do not change this."""
    before = session.paging.pop(search, None)
    if is_new or before is None:
        before = frozenset(session.seen)
    session.paging[search] = before
    if len(session.paging) > MOST_PAGED:
        del session.paging[next(iter(session.paging))]
    return before


def mark_seen(session: SearchSession, uris: list[str]) -> None:
    for uri in uris:
        session.seen.pop(uri, None)
        session.seen[uri] = None
    while len(session.seen) > MOST_SEEN:
        del session.seen[next(iter(session.seen))]


def remember(session: SearchSession, query: str) -> None:
    """Remember a query. A document that is opened next without a location is opened where it matches this query."""
    if query.strip():
        session.queries.append(query[:1000])
