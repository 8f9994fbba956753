"""The times of recent posts, for the rate limit. They are in the database, so all processes count together."""

from __future__ import annotations

from math import ceil

from palaver.model.times import micros, now
from palaver.store.engines.database import Change

MINUTE = 60_000_000
"""A minute in microseconds."""


def add(change: Change, author: str, limit: int) -> int:
    """Record a post of this author. If the last minute has `limit` posts already, record nothing and return the
    number of seconds to wait, else 0."""
    at = micros(now())
    change.run("forget_post_times", before=at - MINUTE, after=at + MINUTE)  # the clock may have been set back
    row = change.must("post_times", author=author)
    if row["posts"] >= limit:
        wait: int = max(1, ceil((row["first"] + MINUTE - at) / 1_000_000))
        return wait
    change.run("insert_post_time", author=author, at=at)
    return 0
