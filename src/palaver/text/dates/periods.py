"""Periods of the calendar: days, weeks, seasons, holidays, and "about two weeks ago".

All times are those of a clock on the wall, without a time zone. A `Resolve` computes a period for such a clock.
"""

# ruff: noqa: DTZ001, DTZ901 - a clock on the wall has no time zone

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from palaver.text.dates.words import any_of

DAY = timedelta(days=1)
EVER = datetime.min, datetime.max
"""The bounds of a period that is open on one side."""


class Clock(NamedTuple):
    now: datetime
    is_future: bool = False
    """The sentence is about the future."""

    @property
    def today(self) -> datetime:
        return self.now.replace(hour=0, minute=0, second=0, microsecond=0)


Period = tuple[datetime, datetime]
Resolve = Callable[[Clock], Period]


def fixed(begin: datetime, end: datetime) -> Resolve:
    return lambda clock: (begin, end)


def day_of(year: int, month: int, day: int) -> Period:
    begin = datetime(year, month, day)
    return begin, begin + DAY


def month_of(year: int, month: int) -> Period:
    begin = datetime(year, month, 1)
    return begin, add_months(begin, 1)


def year_of(year: int) -> Period:
    return datetime(year, 1, 1), datetime(year + 1, 1, 1)


def quarter_of(year: int, number: int) -> Period:
    begin = datetime(year, 3 * number - 2, 1)
    return begin, add_months(begin, 3)


def week_of(year: int, number: int) -> Period:
    begin = datetime.combine(date.fromisocalendar(year, number, 1), datetime.min.time())
    return begin, begin + 7 * DAY


def season_of(year: int, number: int) -> Period:
    begin = datetime(year, 3 * number + 3, 1)
    return begin, add_months(begin, 3)


def add_months(moment: datetime, months: int) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


def easter(year: int) -> datetime:
    """Easter Sunday, by the anonymous Gregorian algorithm."""
    golden, century = year % 19, year // 100
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (year % 100 // 4) - epact - year % 4) % 7
    late = (golden + 11 * epact + 22 * weekday) // 451
    month, day = divmod(epact + weekday - 7 * late + 114, 31)
    return datetime(year, month, day + 1)


def _from_easter(first: int, days: int) -> Callable[[int], Period]:
    return lambda year: (easter(year) + first * DAY, easter(year) + (first + days) * DAY)


def yearly_day(month: int, day: int, days: int) -> Callable[[int], Period]:
    return lambda year: (datetime(year, month, day), datetime(year, month, day) + days * DAY)


def _thanksgiving(year: int) -> Period:
    first = datetime(year, 11, 1)
    begin = first + ((3 - first.weekday()) % 7 + 21) * DAY
    return begin, begin + DAY


HOLIDAYS: Mapping[str, Callable[[int], Period]] = {
    **dict.fromkeys(any_of("easter ostern"), _from_easter(-2, 4)),
    **dict.fromkeys(any_of("pentecost pfingsten"), _from_easter(49, 2)),
    **dict.fromkeys(any_of("christmas xmas weihnachten"), yearly_day(12, 24, 3)),
    **dict.fromkeys(any_of("halloween"), yearly_day(10, 31, 1)),
    **dict.fromkeys(any_of("silvester"), yearly_day(12, 31, 1)),
    **dict.fromkeys(any_of("neujahr"), yearly_day(1, 1, 1)),
    **dict.fromkeys(any_of("thanksgiving"), _thanksgiving),
    **dict.fromkeys(any_of("valentinstag"), yearly_day(2, 14, 1)),
}


def yearly(period_of: Callable[[int], Period], which: int | None = None) -> Resolve:
    """A period that comes once a year, such as a month or a season."""

    def resolve(clock: Clock) -> Period:
        near = (period for step in (0, -1, 1, -2, 2, -3, 3, -4, 4, -8, 8) for period in made(clock.now.year + step))
        return _choose(list(near), clock, which)

    def made(year: int) -> list[Period]:
        try:
            return [period_of(year)]
        except (ValueError, OverflowError):  # 29 February, or a week 53
            return []

    return resolve


def _choose(periods: Sequence[Period], clock: Clock, which: int | None) -> Period:
    """The last period, this one, or the next. Without `which`: the last that began, or for the future the next."""
    now = clock.now
    match which:
        case 0:
            fitting = [period for period in periods if period[0].year == now.year]
        case 1:
            fitting = sorted(period for period in periods if period[0] > now)
        case None if clock.is_future:
            fitting = sorted(period for period in periods if period[1] > now)
        case None:
            fitting = sorted((period for period in periods if period[0] <= now), reverse=True)
        case _:
            fitting = sorted((period for period in periods if period[1] <= now), reverse=True)[-which - 1 :]
    if not fitting:
        raise ValueError("there is no such period")
    return fitting[0]


def calendar_unit(unit: str, clock: Clock, step: int) -> Period:
    """The current day, week, month and so on, or one that is `step` later."""
    today = clock.today
    monday = today - today.weekday() * DAY
    match unit:
        case "day":
            return today + step * DAY, today + (step + 1) * DAY
        case "week":
            return monday + 7 * step * DAY, monday + 7 * (step + 1) * DAY
        case "weekend":
            saturday = monday + (5 + 7 * step) * DAY
            return saturday, saturday + 2 * DAY
        case "year":
            return year_of(today.year + step)
        case "month" | "quarter":
            length = 1 if unit == "month" else 3
            first = today.replace(month=today.month - (today.month - 1) % length, day=1)
            return add_months(first, length * step), add_months(first, length * (step + 1))
    begin = clock.now.replace(minute=clock.now.minute if unit == "minute" else 0, second=0, microsecond=0)
    length_of_unit = timedelta(**{f"{unit}s": 1})
    return begin + step * length_of_unit, begin + (step + 1) * length_of_unit


def shift(moment: datetime, unit: str, count: float) -> datetime:
    """A moment some units later, or earlier if `count` is negative."""
    match unit:
        case "month" | "quarter" | "year":
            months = {"month": 1, "quarter": 3, "year": 12}[unit] * count
            return add_months(moment, int(months)) + (months - int(months)) * 30 * DAY
        case "weekend":
            return moment + 7 * count * DAY
    return moment + count * timedelta(**{f"{unit}s": 1})


_TOLERANCE = {
    "minute": timedelta(minutes=2),
    "hour": timedelta(minutes=30),
    "day": timedelta(0),
    "week": 3 * DAY,
    "weekend": 3 * DAY,
    "month": 15 * DAY,
    "quarter": 45 * DAY,
    "year": 180 * DAY,
}
"""How much earlier or later "one unit ago" may be."""
_EXACT_UP_TO = {"day": 4, "week": 4, "month": 6}
"""Larger numbers are less exact: "thirty days ago"."""


def about(unit: str, count: float) -> Resolve:
    """About `count` units from now."""

    def resolve(clock: Clock) -> Period:
        slack = _TOLERANCE[unit] * max(1.0, abs(count) / _EXACT_UP_TO.get(unit, 5))
        if unit == "day":
            slack = DAY * round(max(0, abs(count) - 4) / 7)
        if unit in ("minute", "hour"):
            middle = shift(clock.now, unit, count)
            return middle - slack, middle + slack
        middle = shift(clock.today, unit, count)
        return middle - slack, middle + DAY + slack

    return resolve


def a_few_ago(unit: str, least: float, most: float) -> Resolve:
    """A few units ago."""

    def resolve(clock: Clock) -> Period:
        start = clock.now if unit in ("minute", "hour") else clock.today
        return shift(start, unit, -most), shift(start, unit, -least) + (DAY if start == clock.today else timedelta(0))

    return resolve


def past(unit: str, count: float) -> Resolve:
    """The last `count` units, until the end of today."""

    def resolve(clock: Clock) -> Period:
        if unit in ("minute", "hour"):
            return shift(clock.now, unit, -count), clock.now + timedelta(minutes=1)
        return shift(clock.today, unit, -count), clock.today + DAY

    return resolve


def part_of(resolve: Resolve, part: int, parts: int) -> Resolve:
    """One of some equal parts of a period, in whole days where it has any."""

    def resolve_part(clock: Clock) -> Period:
        begin, end = resolve(clock)
        length = (end - begin) / parts
        first, last = begin + part * length, begin + (part + 1) * length
        if length < 2 * DAY:
            return first, last
        first, last = (one.replace(hour=0, minute=0, second=0, microsecond=0) for one in (first, last))
        return first, end if part == parts - 1 else last

    return resolve_part


def wider(resolve: Resolve) -> Resolve:
    """A period and some time around it."""

    def resolve_wider(clock: Clock) -> Period:
        begin, end = resolve(clock)
        slack = max(min((end - begin) / 2, 30 * DAY), 3 * DAY) if end - begin >= DAY else end - begin
        return begin - slack, end + slack

    return resolve_wider


def hours_of(resolve: Resolve, hours: tuple[int, int]) -> Resolve:
    """A part of a day."""

    def resolve_hours(clock: Clock) -> Period:
        begin, _ = resolve(clock)
        return begin + timedelta(hours=hours[0]), begin + timedelta(hours=hours[1])

    return resolve_hours


def weekday(number: int, which: int | None) -> Resolve:
    def resolve(clock: Clock) -> Period:
        today = clock.today
        if which == 0:  # of this week
            begin = today + (number - today.weekday()) * DAY
        elif which == 1 or (which is None and clock.is_future):
            begin = today + ((number - today.weekday() - 1) % 7 + 1) * DAY
        else:
            begin = today - ((today.weekday() - number - 1) % 7 + 1) * DAY
            begin += 7 * ((which or -1) + 1) * DAY
        return begin, begin + DAY

    return resolve


def monthly(day: int) -> Resolve:
    """A day of a month: "on the 3rd"."""

    def resolve(clock: Clock) -> Period:
        first, found = clock.today.replace(day=1), []
        for step in (0, -1, 1, -2, 2):
            month = add_months(first, step)
            if day <= monthrange(month.year, month.month)[1]:
                found.append(day_of(month.year, month.month, day))
        return _choose(found, clock, None)

    return resolve
