"""Cache of an external ChatGPT database, rebuilt when its file changes.

Reading and converting all messages of such a database takes ten times as long as searching them. Each search spends a
little time on filling the cache. Once it is complete, searches use it. The cache file may be deleted at any time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import cast

import apsw
import orjson

from palaver.model.library import Said
from palaver.model.times import maybe_instant, micros
from palaver.store.engines import named_sql
from palaver.store.engines.database import Scope
from palaver.store.library.archive import FoundMessage
from palaver.store.library.documents import substring_form

AT_ONCE = 2_000
"""How many messages are written at once."""
BUSY_MILLIS = 200
"""How long to wait for another process that writes the cache."""

_Columns = tuple[str, str, str, str, str, int | None]
Messages = Callable[[int], Iterator[tuple[int, str, str, Said]]]
"""Returns the messages after a given row: the number of the row, the conversation, its title, and the message."""


def state_of(path: Path) -> str:
    """A string that changes whenever the database file or its journal changes."""
    beside = (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-journal"))
    found = [
        (one.stat().st_size, one.stat().st_mtime_ns, one.stat().st_ino) if one.exists() else None for one in beside
    ]
    return orjson.dumps((repr(path.absolute()), found)).decode()


def search(place: Path, path: Path, part: str | None, scope: Scope, limit: int) -> list[FoundMessage] | None:
    """The newest matching messages. None if the cache is not complete for the current state of the file."""
    if not place.exists():
        return None
    try:
        with closing(_open(place)) as cache:
            state = cache.execute(_sql("served_state")).fetchone()
            if state is None or state[0] != state_of(path) or not state[2]:
                return None
            asked = {
                "part": substring_form(part) if part else "",
                "roles": orjson.dumps(scope.roles).decode() if scope.roles else None,
                "since": scope.since,
                "until": scope.until,
                "limit": limit,
            }
            rows = cache.execute(_sql("search_served"), asked).fetchall()
            if not scope.is_timed and len(rows) < limit:
                asked["limit"] = limit - len(rows)
                rows += cache.execute(_sql("search_served_timeless"), asked).fetchall()
    except (apsw.Error, OSError):
        return None
    return [
        FoundMessage(conversation, title, Said(id, role, text, maybe_instant(at)))
        for id, conversation, title, role, text, at in cast(list[_Columns], rows)
    ]


def read_on(place: Path, path: Path, messages: Messages, seconds: float) -> bool:
    """Fill the cache for some seconds, from where the last call stopped. Returns whether it is complete."""
    until = time.monotonic() + seconds
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(place, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(_open(place)) as cache, cache:
            state = state_of(path)
            cache.execute(_sql("served_schema"))
            found = cache.execute(_sql("served_state")).fetchone()
            if found is None or found[0] != state:
                cache.execute(_sql("clear_served"))
                cache.execute(_sql("insert_served_state"), {"state": state})
                found = (state, -(2**63), 0)
            last, is_whole = found[1], bool(found[2])
            coming = messages(last)
            while not is_whole:
                some = list(islice(coming, AT_ONCE))
                cache.executemany(_sql("insert_served_message"), map(_row, some))
                last, is_whole = some[-1][0] if some else last, len(some) < AT_ONCE
                if time.monotonic() > until:
                    break
            cache.execute(_sql("update_served_state"), {"last_row": last, "is_whole": is_whole})
            if state != state_of(path):
                cache.execute(_sql("clear_served"))
                return False
            return is_whole
    except (apsw.NotADBError, apsw.CorruptError):
        place.unlink(missing_ok=True)
    except (apsw.Error, OSError):  # another process writes it, or the disk is full: the caller searches without a cache
        pass
    return False


def _row(message: tuple[int, str, str, Said]) -> dict[str, str | int | None]:
    _, conversation, title, said = message
    return {
        "native_id": said.id,
        "conversation": conversation,
        "title": title,
        "role": said.role,
        "text": said.text,
        "created_at": micros(said.ts) if said.ts else None,
        "folded": None if said.text.isascii() else substring_form(said.text),
        "folded_title": None if title.isascii() else substring_form(title),
    }


def _open(place: Path) -> apsw.Connection:
    cache = apsw.Connection(str(place))
    cache.set_busy_timeout(BUSY_MILLIS)
    cache.execute("PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 2000000000")
    return cache


def _sql(name: str) -> str:
    return named_sql.load("sqlite")[name]
