"""Times: aware UTC datetimes in the code, microseconds since 1970 in the database, ISO 8601 with Z for clients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_OFFSET = re.compile(r"([+ -])(\d\d):?(\d\d)$")

_then: ContextVar[datetime | None] = ContextVar("then", default=None)

LONGEST_ZONE = 64


def now() -> datetime:
    return _then.get() or datetime.now(UTC)


@contextmanager
def as_if_at(moment: datetime) -> Iterator[None]:
    """Set the time that `now` returns inside the block. The demo story takes place in the past."""
    token = _then.set(moment)
    try:
        yield
    finally:
        _then.reset(token)


def micros(instant: datetime) -> int:
    return (instant - EPOCH) // MICROSECOND


def instant(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def maybe_instant(micros: int | None) -> datetime | None:
    return None if micros is None else instant(micros)


def iso(instant: datetime) -> str:
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def parse(text: str, *, end_of_day: bool = False) -> datetime:
    """Parse ISO 8601. Without an offset it is UTC; a date is its first (or last) moment. Raises ValueError."""
    text = text.strip().upper()  # RFC 3339 allows t and z
    if len(text) <= 10 and "T" not in text:  # also 20260601 and 2026-W23
        day = datetime.fromisoformat(text).replace(tzinfo=UTC)
        return day.replace(hour=23, minute=59, second=59, microsecond=999_999) if end_of_day else day
    # A '+' in a query string arrives as a blank: 2026-01-01T00:00:00 02:00.
    if len(text) > 19 and text[-6] == " ":
        text = f"{text[:-6]}+{text[-5:]}"
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def between_dates(first: str | None, last: str | None) -> tuple[int, int]:
    """Two dates as microseconds; a missing one is before, or after, all times."""
    since = micros(parse(first)) if first else -(2**62)
    return since, micros(parse(last, end_of_day=True)) if last else 2**62


def zone_of(name: str) -> tzinfo:
    """A time zone: Europe/Berlin, UTC, or an offset such as +02:00. Raises ValueError."""
    if offset := offset_of(name):
        return offset
    if len(name) > LONGEST_ZONE:  # Python imports a module for each part between slashes, one inside the other
        raise ValueError("unknown time zone")
    try:
        return ZoneInfo(name)
    except (KeyError, OSError) as problem:  # unknown, or the name of a folder
        raise ValueError(f"unknown time zone: {name}") from problem


def offset_of(text: str) -> timezone | None:
    """The offset from UTC at the end of a time, if it has one. A '+' in a query string arrives as a blank."""
    found = _OFFSET.search(text) if len(text) == 6 or "T" in text.upper() else None
    if found is None:
        return None
    ahead = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(-ahead if found[1] == "-" else ahead) if ahead < timedelta(days=1) else None
