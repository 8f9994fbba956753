"""Calls that a server has reserved for a caller, for the rate limits of tools. All servers count together.

A server reserves a few calls at once, so that most calls need no access to the database.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import orjson

from palaver.model.times import micros, now
from palaver.store.engines.database import Change

MINUTE = 60_000_000
"""A minute in microseconds."""
SHARE = 20
"""A server reserves this part of a limit at once: a limit of 600 calls a minute is reserved 30 calls at a time."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """The number of reserved calls, or else the number of seconds to wait."""

    calls: int
    wait: int = 0


def reserve(change: Change, caller: str, operation: str, limit: int) -> Reserved:
    """Reserve calls of an operation. Those of the last minute, by all servers, are at most `limit`."""
    at = micros(now())
    row = change.must("lock_reserved_calls", caller=caller, operation=operation, used_at=at)
    # The clock may have been set back.
    recent = [pair for pair in orjson.loads(row["reserved"]) if at - MINUTE < pair[0] <= at + MINUTE]
    left = limit - sum(calls for _, calls in recent)
    if left <= 0:
        return Reserved(0, max(1, ceil((recent[0][0] + MINUTE - at) / 1_000_000)))
    calls = min(left, max(1, limit // SHARE))
    state = orjson.dumps([*recent, [at, calls]]).decode()
    change.run("put_reserved_calls", caller=caller, operation=operation, reserved=state)
    return Reserved(calls)


def forget_old(change: Change) -> None:
    change.run("forget_reserved_calls", before=micros(now()) - 2 * MINUTE)
