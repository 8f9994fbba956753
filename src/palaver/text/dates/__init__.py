"""Dates in a text: "last March", "vor zwei Wochen", "la semaine dernière", "between 3 and 7 May 2023".

The rules are for English and German. In a French, Spanish, Portuguese or Italian text, the words of dates are first
replaced by English ones, in English order.

`find` returns the periods that a text names, in UTC. A date without a year is the last one that began before `now`,
unless the sentence is about the future. A week begins on Monday.

A text is split into tokens. At each token that can begin a date, each rule looks at the next few tokens, so the time
is linear in the length of the text. Where a period depends on another one, a rule is asked twice, with different
clocks: in "from May to July 2023" the year of May is that of July.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from palaver.text.dates import words
from palaver.text.dates.periods import DAY, EVER, Clock, Period
from palaver.text.dates.rules import DateMatch, DateRules

LONGEST_READ = 5_000
"""Characters of a text that are read."""
MOST_RANGES = 8
"""Ranges that are returned."""
LONGEST_START = 7
"""A date has a name of a time, or a full number, at most this many tokens after its first one."""
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
"""The bounds of ranges that are open on one side, as in "before 2023"."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A period that a text names: from `begin` until just before `end`, in UTC."""

    begin: datetime
    end: datetime
    text: str
    """The words that name it."""


def may_name_time(folded: Iterable[str]) -> bool:
    """A quick check of the folded words of a text. If it is false, `find` finds nothing in the text."""
    return any(word in words.ALL_TIME_WORDS or not word.isalpha() for word in folded)


def find(text: str, now: datetime, zone: tzinfo | None = None) -> tuple[TimeRange, ...]:
    """The periods that a text names, in order. `zone` is the time zone of the asker; None is that of this machine.

    If the text has one full date, relative dates are relative to it: "last week, as mentioned on 6 November 2023".
    """
    text = text[:LONGEST_READ]

    def local(moment: datetime) -> datetime:
        return moment.astimezone(zone).replace(tzinfo=None)

    try:
        here = local(now)
    except _NO_SUCH_TIME:
        return ()
    known = DateRules(text, local, here.year)
    found = list(_matches(known, here)) if may_name_time(one.word for one in known.tokens) else []
    full = [one.period[0] for _, one in found if not one.floats and one.period[1] - one.period[0] <= DAY]
    ranges = []
    for first, match in found:
        named = text[known.tokens[first].begin : known.tokens[match.next - 1].end]
        with suppress(*_NO_SUCH_TIME):
            if match.floats and len(full) == 1:
                match = known.range_at(first, Clock(full[0], known.is_future(first))) or match
            ranges.append(_in_utc(match.period, zone, named))
    return tuple(ranges)


_NO_SUCH_TIME = (ValueError, OverflowError, OSError)
"""Errors for a day that does not exist, or a time outside the years 1 to 9999."""


def _matches(text: DateRules, now: datetime) -> Iterator[tuple[int, DateMatch]]:
    """The dates of a text, each with the number of its first token."""
    number = found = 0
    timed = [n for n in range(len(text.tokens)) if text.is_about_time(n)]
    near = {n for end in timed for n in range(max(0, end - LONGEST_START), end + 1)}
    while number < len(text.tokens) and found < MOST_RANGES:
        one, match = text.tokens[number], None
        if number in near and (one.kind not in ("word", "sign") or one.word in words.STARTS):
            with suppress(*_NO_SUCH_TIME):
                match = text.range_at(number, Clock(now, text.is_future(number)))
        if match:
            found += 1
            yield number, match
        number = match.next if match else number + 1


def _in_utc(period: Period, zone: tzinfo | None, text: str) -> TimeRange:
    def moment(local: datetime) -> datetime:
        if local in EVER:
            return local.replace(tzinfo=UTC)
        return (local.replace(tzinfo=zone) if zone else local).astimezone(UTC)

    begin, end = map(moment, period)
    if period[0] >= period[1]:
        raise ValueError("the period is empty")
    # Where a clock is put forward, an hour has no beginning.
    return TimeRange(begin, end if begin < end else begin + (period[1] - period[0]), text)
