"""Periods of the calendar: days, weeks, seasons, and "about two weeks ago".

All times are those of a clock on the wall, without a time zone.
"""

# ruff: noqa: DTZ001, DTZ901 - a clock on the wall has no time zone

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import NamedTuple

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


def yearly(period_of: Callable[[int], Period], clock: Clock, which: int | None = None) -> Period:
    """A period that comes once a year, such as a month or a season."""
    periods = list[Period]()
    for year in range(clock.now.year - 8, clock.now.year + 9):
        with suppress(ValueError, OverflowError):  # 29 February, or a week 53
            periods.append(period_of(year))
    return _choose(periods, clock, which)


def monthly(day: int, clock: Clock) -> Period:
    """A day of a month: "on the 3rd"."""
    periods = list[Period]()
    for step in range(-2, 3):
        month = add_months(clock.today.replace(day=1), step)
        with suppress(ValueError):
            periods.append(day_of(month.year, month.month, day))
    return _choose(periods, clock, None)


def _choose(periods: Sequence[Period], clock: Clock, which: int | None) -> Period:
    """The last period, this one, or the next. Without `which`: the last that began, or for the future the next."""
    now = clock.now
    match which:
        case 0:
            fitting = [period for period in periods if period[0].year == now.year]
        case 1:
            fitting = [period for period in periods if period[0] > now]
        case None if clock.is_future:
            fitting = [period for period in periods if period[1] > now]
        case None:
            fitting = [period for period in periods if period[0] <= now][-1:]
        case _:
            fitting = [period for period in periods if period[1] <= now][which:]
            fitting = fitting if len(fitting) == -which else []
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


def about(unit: str, count: float, clock: Clock) -> Period:
    """About `count` units from now."""
    slack = _TOLERANCE[unit] * max(1.0, abs(count) / _EXACT_UP_TO.get(unit, 5))
    if unit == "day":
        slack = DAY * round(max(0, abs(count) - 4) / 7)
    if unit in ("minute", "hour"):
        middle = shift(clock.now, unit, count)
        return middle - slack, middle + slack
    middle = shift(clock.today, unit, count)
    return middle - slack, middle + DAY + slack


def a_few_ago(unit: str, least: float, most: float, clock: Clock) -> Period:
    """A few units ago."""
    start = clock.now if unit in ("minute", "hour") else clock.today
    return shift(start, unit, -most), shift(start, unit, -least) + (DAY if start == clock.today else timedelta(0))


def past(unit: str, count: float, clock: Clock) -> Period:
    """The last `count` units, until the end of today."""
    if unit in ("minute", "hour"):
        return shift(clock.now, unit, -count), clock.now + timedelta(minutes=1)
    return shift(clock.today, unit, -count), clock.today + DAY


def hours_of(day: Period, hours: tuple[int, int]) -> Period:
    """A part of a day."""
    return day[0] + timedelta(hours=hours[0]), day[0] + timedelta(hours=hours[1])


def weekday(number: int, which: int | None, clock: Clock) -> Period:
    today = clock.today
    if which == 0:  # of this week
        begin = today + (number - today.weekday()) * DAY
    elif which == 1 or (which is None and clock.is_future):
        begin = today + ((number - today.weekday() - 1) % 7 + 1) * DAY
    else:
        begin = today - ((today.weekday() - number - 1) % 7 + 1) * DAY
        begin += 7 * ((which or -1) + 1) * DAY
    return begin, begin + DAY


def weekend(clock: Clock) -> Period:
    """The weekend that is meant without "last" or "next"."""
    is_now = clock.is_future or clock.now.weekday() > 4
    return calendar_unit("weekend", clock, 0 if is_now else -1)
