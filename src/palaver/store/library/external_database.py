"""A database of somebody else that is served as it is: what was read of it is kept, until the file changes.

To read all messages out of such a database and to bring them into shape takes ten times as long as to look through
them. Whoever asks spends a little time on reading on from where the last one stopped; from when it is whole, questions
are answered from here. Nothing is lost if the file of it is deleted.
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
BUSY_MILLIS = 200

_Columns = tuple[str, str, str, str, str, int | None]
Messages = Callable[[int], Iterator[tuple[int, str, str, Said]]]
"""Those after a given row, with the number of their row, and the conversation and title they belong to."""


def state_of(path: Path) -> str:
    """Changes whenever the file, or what waits to be written into it, does."""
    beside = (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-journal"))
    found = [
        (one.stat().st_size, one.stat().st_mtime_ns, one.stat().st_ino) if one.exists() else None for one in beside
    ]
    return orjson.dumps((repr(path.absolute()), found)).decode()


def search(place: Path, path: Path, part: str | None, scope: Scope, limit: int) -> list[FoundMessage] | None:
    """The newest messages that were asked for; None as long as not all is read of the file as it is now."""
    if not place.exists():
        return None
    try:
        with closing(_opened(place)) as kept:
            state = kept.execute(_sql("served_state")).fetchone()
            if state is None or state[0] != state_of(path) or not state[2]:
                return None
            asked = {
                "part": substring_form(part) if part else "",
                "roles": orjson.dumps(scope.roles).decode() if scope.roles else None,
                "since": scope.since,
                "until": scope.until,
                "limit": limit,
            }
            rows = kept.execute(_sql("search_served"), asked).fetchall()
            if not scope.is_timed and len(rows) < limit:
                asked["limit"] = limit - len(rows)
                rows += kept.execute(_sql("search_served_timeless"), asked).fetchall()
    except (apsw.Error, OSError):
        return None
    return [
        FoundMessage(conversation, title, Said(id, role, text, maybe_instant(at)))
        for id, conversation, title, role, text, at in cast(list[_Columns], rows)
    ]


def read_on(place: Path, path: Path, messages: Messages, seconds: float) -> bool:
    """Read for some time from where the last reader stopped. True when all is read."""
    until = time.monotonic() + seconds
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(place, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(_opened(place)) as kept, kept:
            state = state_of(path)
            kept.execute(_sql("served_schema"))
            found = kept.execute(_sql("served_state")).fetchone()
            if found is None or found[0] != state:
                kept.execute(_sql("serve_anew"))
                kept.execute(_sql("serve_state"), {"state": state})
                found = (state, -(2**63), 0)
            last, is_whole = found[1], bool(found[2])
            coming = messages(last)
            while not is_whole:
                some = list(islice(coming, AT_ONCE))
                kept.executemany(_sql("serve_message"), map(_row, some))
                last, is_whole = some[-1][0] if some else last, len(some) < AT_ONCE
                if time.monotonic() > until:
                    break
            kept.execute(_sql("serve_mark"), {"last_row": last, "is_whole": is_whole})
            if state != state_of(path):
                kept.execute(_sql("serve_anew"))
                return False
            return is_whole
    except (apsw.NotADBError, apsw.CorruptError):
        place.unlink(missing_ok=True)
    except (apsw.Error, OSError):  # another reader is at it, or there is no room: whoever asks can do without
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


def _opened(place: Path) -> apsw.Connection:
    kept = apsw.Connection(str(place))
    kept.set_busy_timeout(BUSY_MILLIS)
    kept.execute("PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 2000000000")
    return kept


def _sql(name: str) -> str:
    return named_sql.load("sqlite")[name]
