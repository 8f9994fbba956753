"""Search sessions: the results each client has seen, so that later searches leave them out.

They are in the database: the next search of a client may go to another server.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

import orjson

from palaver.model.search import SearchSession, SearchSessionKey
from palaver.model.times import micros, now
from palaver.store.engines.database import Change, Reader

MOST_SEEN = 500
"""How many seen results a session remembers."""
MOST_PAGED = 5
"""How many searches of a session can be paged through at the same time."""
MOST_QUERY = 1000
"""How many characters of the latest query are remembered."""


def find(read: Reader, key: SearchSessionKey) -> SearchSession | None:
    """The session of this owner with this id, unless it has expired."""
    since = micros(now() - timedelta(seconds=read.settings.session_ttl))
    row = read.one("search_session", owner=key.owner, id=key.id, since=since)
    return _session(row["state"]) if row else None


def _session(state: str) -> SearchSession:
    held = orjson.loads(state)
    paging = {search: frozenset(before) for search, before in held.get("paging", {}).items()}
    return SearchSession(dict.fromkeys(held.get("seen", ())), paging, held.get("query", ""))


def seen_before(session: SearchSession, search: str, *, is_new: bool) -> frozenset[str]:
    """The results that a search leaves out: those shown before its first page. Later pages do not change this."""
    before = None if is_new else session.paging.get(_short(search))
    return frozenset(session.seen) if before is None else before


def _short(search: str) -> str:
    """A search may have thousands of characters. A session only has to recognise it."""
    return sha256(search.encode()).hexdigest()[:20]


def store_page(
    change: Change, key: SearchSessionKey, search: str, before: frozenset[str], shown: list[str], query: str
) -> None:
    """Remember a page of results, and which results were shown before the search began. Without `query`, the latest
    query stays."""
    session = _locked(change, key) or SearchSession()
    add_page(session, search, before, shown)
    _put(change, key, session, query)


def store_query(change: Change, key: SearchSessionKey, query: str) -> None:
    """Remember a query whose results are not left out later."""
    _put(change, key, _locked(change, key) or SearchSession(), query)


def _locked(change: Change, key: SearchSessionKey) -> SearchSession | None:
    """The session as it is now. No other server changes it until the end of this change."""
    change.run("lock_search_session", owner=key.owner, id=key.id)
    return find(change, key)


def _put(change: Change, key: SearchSessionKey, session: SearchSession, query: str) -> None:
    state = {
        "seen": list(session.seen),
        "paging": {search: sorted(before) for search, before in session.paging.items()},
        "query": query[:MOST_QUERY] if query.strip() else session.query,
    }
    at = micros(now())
    change.run("put_search_session", owner=key.owner, id=key.id, state=orjson.dumps(state).decode(), used_at=at)


def add_page(session: SearchSession, search: str, before: frozenset[str], shown: list[str]) -> None:
    session.paging.pop(_short(search), None)
    session.paging[_short(search)] = before
    while len(session.paging) > MOST_PAGED:
        del session.paging[next(iter(session.paging))]
    for uri in shown:
        session.seen.pop(uri, None)
        session.seen[uri] = None
    while len(session.seen) > MOST_SEEN:
        del session.seen[next(iter(session.seen))]


def forget_old(change: Change) -> None:
    """Delete expired sessions."""
    change.run("forget_search_sessions", before=micros(now() - timedelta(seconds=change.settings.session_ttl)))


def forget_all(change: Change) -> None:
    """Delete all sessions: they contain queries."""
    change.run("forget_search_sessions", before=1 << 62)
