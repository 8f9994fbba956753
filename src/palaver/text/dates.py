"""Dates in a text, in English and German: "last March", "vor zwei Wochen", "between 3 and 7 May 2023".

`find` returns the periods that a text names, in UTC. A date without a year is the last one that began before `now`,
unless the sentence is about the future. A week begins on Monday.

A text is split into tokens. At each token that can begin a date, each rule looks at the next few tokens, so the time
is linear in the length of the text. A rule returns a function that computes the period for a clock, because some
periods depend on others: in "from May to July 2023" the year of May is that of July.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from palaver.text import date_words as words
from palaver.text.periods import (
    DAY,
    EVER,
    HOLIDAYS,
    Clock,
    Period,
    Resolve,
    a_few_ago,
    about,
    calendar_unit,
    day_of,
    fixed,
    hours_of,
    month_of,
    monthly,
    part_of,
    past,
    quarter_of,
    season_of,
    shift,
    week_of,
    weekday,
    wider,
    year_of,
    yearly,
    yearly_day,
)

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


_TOKEN = re.compile(
    r"""
    (?P<iso>\d{4}-(?:W\d\d|\d\d(?:-\d\d(?:[Tt\ ]\d\d:\d\d(?::\d\d(?:[.]\d{1,6})?)?(?:[Zz]|[+-]\d\d:?\d\d)?)?)?)
    (?![\w-]))
    |(?P<dotted>\d{1,2}\.\ ?\d{1,2}\.(?:\ ?\d{4}(?!\d)|\d\d(?![\d.]))?(?!\d))
    |(?P<slashed>\d{4}/\d{1,2}/\d{1,2}(?![\w/])|\d{1,2}/\d{1,2}/\d{4}(?![\w/]))
    |(?P<ordinal>\d{1,2}(?:st|nd|rd|th)(?!\w))
    |(?P<number>\d+(?![^\W_]))
    |(?P<coded>(?:[Qq][1-4]|[KkCc][Ww]\d{1,2})(?![^\W_]))
    |(?P<word>[^\W_]+)
    |(?P<sign>[^\w\s]|_)
    """,
    re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    word: str
    """The text, folded."""
    begin: int
    end: int


_NO_TOKEN = _Token("", "", "", 0, 0)


class _Match(NamedTuple):
    """A date that a rule found: how to compute its period, and the number of the next token."""

    resolve: Resolve
    next: int
    floats: bool = False
    """The period depends on the clock."""


class _Text:
    """The tokens of a text, and the rules that find a date at one of them."""

    def __init__(self, text: str, local: Callable[[datetime], datetime], this_year: int) -> None:
        self.text, self.local, self.this_year = text, local, this_year
        fold = str.lower if text.isascii() else words.fold
        self.tokens = [_Token(one.lastgroup or "", one[0], fold(one[0]), *one.span()) for one in _TOKEN.finditer(text)]
        self.size = len(self.tokens)
        self._ends = [n for n, one in enumerate(self.tokens) if one.text in ".!?;" and one.kind == "sign"]
        self._tenses: dict[int, bool] = {}
        self._depth = 0

    def at(self, number: int) -> _Token:
        return self.tokens[number] if 0 <= number < self.size else _NO_TOKEN

    def word(self, number: int) -> str:
        return self.tokens[number].word if 0 <= number < self.size else ""

    def is_about_time(self, number: int) -> bool:
        """Whether this token can be the one that makes some words a date."""
        one = self.tokens[number]
        if one.kind == "word":
            return one.word in _TIME_WORDS
        if one.kind == "number":
            return self.year_at(number) is not None or self.word(number - 1) in words.BEFORE_NUMBER
        return one.kind != "sign"

    def is_future(self, number: int) -> bool:
        """Whether the sentence with this token is about the future."""
        sentence = bisect_right(self._ends, number)
        if sentence not in self._tenses:
            first = self._ends[sentence - 1] + 1 if sentence else 0
            last = self._ends[sentence] if sentence < len(self._ends) else len(self.tokens)
            said = {one.word for one in self.tokens[first:last]}
            if self.word(first) == "was":  # German for "what"
                said.remove("was")
            self._tenses[sentence] = not said.isdisjoint(words.FUTURE) and said.isdisjoint(words.PAST)
        return self._tenses[sentence]

    def ends_phrase(self, number: int) -> bool:
        """Whether no noun begins at this token."""
        one = self.at(number)
        return one.kind in ("", "sign") or one.word in words.FOLLOWERS or one.word in words.OPENERS

    def number_at(self, n: int, most: int = 9_999) -> int | None:
        """The number at a token, in digits or as a word."""
        one = self.at(n)
        if one.kind == "number":
            return int(one.text) if len(one.text) <= 4 and 0 < int(one.text) <= most else None
        return words.NUMBERS.get(one.word)

    def year_at(self, n: int) -> int | None:
        one = self.at(n)
        return int(one.text) if one.kind == "number" and len(one.text) == 4 and one.text[:2] in ("19", "20") else None

    def day_at(self, n: int) -> tuple[int, int] | None:
        """A day of a month and the number of the next token: 3, 3rd, 3., third."""
        one = self.at(n)
        if one.kind == "ordinal":
            return (int(one.text[:-2]), n + 1) if 0 < int(one.text[:-2]) <= 31 else None
        if one.kind == "number" and len(one.text) <= 2 and 0 < int(one.text) <= 31:
            has_dot = self.at(n + 1).text == "." and self.at(n + 1).begin == one.end
            return int(one.text), n + 2 if has_dot else n + 1
        return (words.ORDINALS[one.word], n + 1) if one.word in words.ORDINALS else None

    def skip(self, n: int, some: Container[str]) -> int:
        """The number of the next token, if this one is one of some words."""
        return n + 1 if self.word(n) in some else n

    # Each rule returns the date that begins at token n. `sure` says that the words before announce a date.

    def date_at(self, n: int, sure: bool = False) -> _Match | None:
        """A single period."""
        one = self.at(n)
        if one.kind in ("iso", "dotted", "slashed"):
            return self._numeric(n, sure)
        if one.kind == "sign":
            return None
        for rule in (self._day_and_month, self._month_name, self._relative, self._named, self._numbered, self._weekday):
            if found := rule(n, sure):
                return found
        return self._day_of_month(n, sure) or self._year(n, sure)

    def _numeric(self, n: int, sure: bool) -> _Match | None:
        one = self.at(n)
        if one.kind == "iso":
            if "W" in one.text:
                return _Match(fixed(*week_of(int(one.text[:4]), int(one.text[-2:]))), n + 1)
            if len(one.text) == 7:
                return _Match(fixed(*month_of(int(one.text[:4]), int(one.text[5:]))), n + 1)
            moment = datetime.fromisoformat(one.text.upper())
            if len(one.text) == 10:
                return _Match(fixed(moment, moment + DAY), n + 1)
            begin = self.local(moment) if moment.tzinfo else moment
            length = (
                timedelta(seconds=1) if one.text.count(":") > 1 and one.text[16:17] == ":" else timedelta(minutes=1)
            )
            return _Match(fixed(begin, begin + length), n + 1)
        numbers = [int(part) for part in re.findall(r"\d+", one.text)]
        if one.kind == "slashed":
            if numbers[0] > 31:
                return _Match(fixed(*day_of(*numbers)), n + 1)
            month, day = numbers[:2] if numbers[1] > 12 or numbers[0] <= 12 else (numbers[1], numbers[0])
            return _Match(fixed(*day_of(numbers[2], month, day)), n + 1)
        if len(numbers) == 3 and numbers[2] > 99:
            return _Match(fixed(*day_of(numbers[2], numbers[1], numbers[0])), n + 1)
        if not sure and self.word(n - 1) not in words.ANNOUNCE:
            return None
        if len(numbers) == 3:
            return _Match(fixed(*day_of(2000 + numbers[2], numbers[1], numbers[0])), n + 1)
        day_of(2024, numbers[1], numbers[0])  # refuses other numbers
        return _Match(yearly(yearly_day(numbers[1], numbers[0], 1)), n + 1, floats=True)

    def _month_at(self, n: int) -> int | None:
        """The month at a token, unless it is a verb: "3 may be enough", "this may help"."""
        one = self.at(n)
        is_verb = self.word(n + 1) in words.VERBS or (self.word(n - 1) == "this" and one.text == one.word)
        if one.word in ("may", "march") and is_verb:
            return None
        return words.MONTHS.get(one.word)

    def _with_year(self, n: int) -> tuple[int | None, int]:
        """The year after a month or a day, if there is one, and the number of the next token."""
        n = n + 1 if self.at(n).text == "." and self.year_at(n + 1) else n  # "Okt. 2023"
        after = n + 1 if self.at(n).text == "," or self.word(n) in ("of", "in") else n
        year = self.year_at(after)
        return (year, after + 1) if year else (None, n)

    def _day_and_month(self, n: int, sure: bool) -> _Match | None:
        """3 May 2023, the 3rd of May, 3. Mai, May 3rd, May 3, 2023."""
        start = self.skip(n, words.ARTICLES) if self.word(n) in ("the", "den", "dem") else n
        if found := self.day_at(start):
            day, after = found
            after = self.skip(after, ("of", "des", "im"))
            month = self._month_at(after)
            if month is None:
                return None
            after += 1
        else:
            month = self._month_at(n)
            found = self.day_at(self.skip(n + 1, ("the", "."))) if month and start == n else None
            if month is None or found is None or self.word(n + 1) in words.NUMBERS:
                return None
            day, after = found
            is_verb = self.word(n) in ("may", "march", "mar") and self.at(after - 1).kind == "number"
            if is_verb and not (self.ends_phrase(after) or self._with_year(after)[0]):
                return None
        year, after = self._with_year(after)
        if year:
            return _Match(fixed(*day_of(year, month, day)), after)
        day_of(2024, month, day)  # refuses 31 April
        return _Match(yearly(yearly_day(month, day, 1)), after, floats=True)

    def _month_name(self, n: int, sure: bool) -> _Match | None:
        """May 2023, last March, in May."""
        which = words.WHICH.get(self.word(n))
        start = n + 1 if which is not None else n
        month = self._month_at(start)
        if month is None:
            return None
        year, after = self._with_year(start + 1)
        if year:
            return _Match(fixed(*month_of(year, month)), after)
        if len(self.word(start)) == 3 and self.at(start).text.isupper():  # an abbreviation of something else
            return None
        before, follows = self.word(n - 1), self.word(n - 2) in words.MONTHS  # in March and April
        is_announced = sure or which is not None or before in words.IN or (follows and before in words.OR)
        if not is_announced and self.word(start) in words.UNSURE_MONTHS:
            return None
        return _Match(yearly(lambda year: month_of(year, month), which), after, floats=True)

    def _relative(self, n: int, sure: bool) -> _Match | None:
        """Yesterday, last night, two weeks ago, the past three days, this month, the week before last."""
        word = self.word(n)
        if word == "the" and (self.word(n + 1), self.word(n + 2)) in (("day", "before"), ("day", "after")):
            step = {"yesterday": -2, "tomorrow": 2}.get(self.word(n + 3))
            return _Match(lambda clock: calendar_unit("day", clock, step or 0), n + 4, floats=True) if step else None
        if word == "tonight":
            return _Match(hours_of(lambda clock: calendar_unit("day", clock, 0), (17, 30)), n + 1, floats=True)
        if word == "morgen":  # tomorrow; in capitals, or after "am" and "guten", it is the morning
            is_tomorrow = self.at(n).text == "morgen" and self.word(n - 1) not in words.NOT_TOMORROW
            return self._day_from_today(n, 1) if is_tomorrow else None
        if word in words.DAYS:
            return self._day_from_today(n, words.DAYS[word])
        which = words.WHICH.get(word)
        if which is not None and (part := words.PARTS.get(self.word(n + 1))):
            is_last_night = part == words.PARTS["night"] and which == -1
            if which == 0 or is_last_night:
                return _Match(hours_of(lambda clock: calendar_unit("day", clock, which), part), n + 2, floats=True)
            return None
        return self._ago(n) or self._past_units(n) or self._unit(n)

    def _day_from_today(self, n: int, days: int) -> _Match:
        """Yesterday, gestern Abend."""

        def day(clock: Clock) -> Period:
            return calendar_unit("day", clock, days)

        part = words.PARTS.get(self.word(n + 1))
        return _Match(hours_of(day, part) if part else day, n + 2 if part else n + 1, floats=True)

    def _count_at(self, n: int) -> tuple[float, float, int] | None:
        """How many: the least, the most, and the number of the next token."""
        n = self.skip(n, words.ABOUT)
        if self.word(n) in ("a", "ein") and self.word(n + 1) in words.FEW:
            n += 1
        if self.word(n) in words.FEW:
            return *words.FEW[self.word(n)], self.skip(n + 1, ("of",))
        count = self.number_at(n)
        return (count, count, n + 1) if count else None

    def _ago(self, n: int) -> _Match | None:
        """Two weeks ago, vor zwei Wochen, in two weeks (only for the future)."""
        is_german, is_coming = self.word(n) == "vor", self.word(n) == "in"
        found = self._count_at(n + 1 if is_german or is_coming else n)
        unit = words.UNITS.get(self.word(found[2])) if found else None
        if found is None or unit is None:
            return None
        least, most, at = found
        if is_coming:
            return _Match(about(unit, most), at + 1, floats=True) if self.is_future(n) and least == most else None
        if self.word(at + 1) == "from" and self.word(at + 2) == "now" and least == most:
            return _Match(about(unit, most), at + 3, floats=True)
        if not is_german and self.word(at + 1) == "before" and least == most:
            return self._before_date(at + 2, unit, int(most))
        if not is_german and self.word(at + 1) != "ago":
            return None
        after = at + 1 if is_german else at + 2
        return _Match(about(unit, -most) if least == most else a_few_ago(unit, least, most), after, floats=True)

    def _base(self, n: int) -> _Match | None:
        """A date that another date depends on. It may depend on a third, but no further."""
        if self._depth > 1:
            return None
        self._depth += 1
        try:
            return self.date_at(n, sure=True)
        finally:
            self._depth -= 1

    def _before_date(self, n: int, unit: str, count: int) -> _Match | None:
        """Two weeks before another date."""
        base = self._base(n)
        if base is None:
            return None
        back = about(unit, -count)
        return _Match(lambda clock: back(clock._replace(now=base.resolve(clock)[0])), base.next, base.floats)

    def _past_units(self, n: int) -> _Match | None:
        """The past three days, in the last week, die letzten zehn Tage."""
        start = self.skip(n, ("the",))
        if self.word(start) not in words.LAST:
            return None
        if found := self._count_at(start + 1):
            unit = words.UNITS.get(self.word(found[2]))
            return _Match(past(unit, found[1]), found[2] + 1, floats=True) if unit else None
        unit = words.UNITS.get(self.word(start + 1))
        is_rolling = self.word(start) == "past" or (self.word(start - 1) == "the" and self.word(start - 2) == "in")
        return _Match(past(unit, 1), start + 2, floats=True) if unit and is_rolling else None

    def _unit(self, n: int) -> _Match | None:
        """This week, letzten Monat, next year, over the weekend, the week before 3 May, the second week of May."""
        start = self.skip(n, ("the",))
        word = self.word(start)
        unit = words.UNITS.get(self.word(start + 1))
        if word in words.WHICH and unit in ("week", "weekend", "month", "quarter", "year"):
            step = words.WHICH[word]
            if step == -1 and self.word(start + 2) == "before" and (found := self._unit_before_date(start + 3, unit)):
                return found
            return _Match(lambda clock: calendar_unit(unit, clock, step), start + 2, floats=True)
        if words.UNITS.get(word) in ("week", "weekend", "month", "year", "day") and self.word(start + 1) == "before":
            if self.word(start + 2) == "last":
                return _Match(lambda clock: calendar_unit(words.UNITS[word], clock, -2), start + 3, floats=True)
            return self._unit_before_date(start + 2, words.UNITS[word])
        if words.UNITS.get(word) == "weekend" and self.word(start - 1) in words.BEFORE_WEEKEND:
            return _Match(self._weekend, start + 1, floats=True)
        if (number := self.day_at(start)) and self.word(number[1]) in ("week", "woche"):
            after = self.skip(self.skip(number[1] + 1, ("of", "im", "des", "in")), ("the",))
            month = self._month_name(after, sure=True)
            if month and 1 <= number[0] <= 5:
                week = 7 * (number[0] - 1) * DAY

                def week_of_month(clock: Clock) -> Period:
                    begin, end = month.resolve(clock)
                    return begin + week, min(begin + week + 7 * DAY, end)

                return _Match(week_of_month, month.next, month.floats)
        return None

    @staticmethod
    def _weekend(clock: Clock) -> Period:
        is_now = clock.is_future or clock.now.weekday() > 4
        return calendar_unit("weekend", clock, 0 if is_now else -1)

    def _unit_before_date(self, n: int, unit: str) -> _Match | None:
        """The unit that ends where another date begins: the week before 3 May."""
        base = self._base(n)
        if base is None:
            return None

        def resolve(clock: Clock) -> Period:
            end = base.resolve(clock)[0]
            return (calendar_unit(unit, Clock(end), -1)) if unit == "weekend" else (shift(end, unit, -1), end)

        return _Match(resolve, base.next, base.floats)

    def _named(self, n: int, sure: bool) -> _Match | None:
        """Seasons and holidays: last summer, summer 2023, im Sommer, around Easter."""
        which = words.WHICH.get(self.word(n))
        start = n + 1 if which is not None else n
        word, before = self.word(start), self.word(start - 1)
        if word in words.SEASONS:
            year, after = self._with_year(start + 1)
            number = words.SEASONS[word]
            if year:
                return _Match(fixed(*season_of(year, number)), after)
            is_in = before in words.IN or (before == "the" and self.word(start - 2) in words.IN | {"over", "for"})
            if which is None and not (is_in and (word not in words.UNSURE_SEASONS or before == "the")):
                return None
            return _Match(yearly(lambda year: season_of(year, number), which), start + 1, floats=True)
        period_of, after = HOLIDAYS.get(word), start + 1
        if word in ("christmas", "xmas") and self.word(after) == "eve":
            period_of, after = yearly_day(12, 24, 1), after + 1
        elif word == "new" and self.word(start + 1) == "year" and self.word(start + 3) == "s":
            is_eve = self.word(start + 4) == "eve"
            period_of = yearly_day(12, 31, 1) if is_eve else yearly_day(1, 1, 1)
            after = self.skip(start + 4, ("eve", "day"))
        elif word == "valentine":
            period_of, after = (
                yearly_day(2, 14, 1),
                self.skip(self.skip(self.skip(after, ("'", "’")), ("s",)), ("day",)),
            )
        if period_of is None:
            return None
        year, after = self._with_year(after)
        if year:
            return _Match(fixed(*period_of(year)), after)
        is_sure = sure or which is not None or before in words.AT
        return _Match(yearly(period_of, which), after, floats=True) if is_sure else None

    def _numbered(self, n: int, sure: bool) -> _Match | None:
        """Q3 2025, the third quarter of 2025, KW 34, week 34 of 2023."""
        start = self.skip(n, ("the",))
        one, found = self.at(start), self.day_at(start)
        number: int | None
        if one.kind == "coded":
            number, after = int(one.text.lstrip("QqKkCcWw")), start + 1
            period_of = quarter_of if one.word[0] == "q" else week_of
        elif found and found[0] <= 4 and words.UNITS.get(self.word(found[1])) == "quarter":
            number, after, period_of = found[0], found[1] + 1, quarter_of
        elif one.word in ("kw", "cw", "week") and self.at(start + 1).kind == "number":
            number, after, period_of = self.number_at(start + 1, 53), start + 2, week_of
        else:
            return None
        if number is None:
            return None
        if self.at(after).text == "/" and self.year_at(after + 1):
            after += 1
        year, after = self._with_year(after)
        if year:
            return _Match(fixed(*period_of(year, number)), after)
        return _Match(yearly(lambda year: period_of(year, number)), after, floats=True)

    def _weekday(self, n: int, sure: bool) -> _Match | None:
        """Monday, last Tuesday, am Dienstag, Friday night, the Sunday before 3 May."""
        which = words.WHICH.get(self.word(n))
        start = n + 1 if which is not None else n
        word = self.word(start)
        part: str | None
        if self.word(start - 1) in words.NOT_A_DAY:
            return None
        if word in words.WEEKDAYS_WITH_PARTS:
            number, part = words.WEEKDAYS_WITH_PARTS[word]
            return _Match(hours_of(weekday(number, which), words.PARTS[part]), start + 1, floats=True)
        day_number = words.WEEKDAYS.get(word)
        if day_number is None and (which is not None or sure or self.word(n - 1) in ("on", "since")):
            day_number = words.SHORT_WEEKDAYS.get(word)
        if day_number is None:
            return None
        if self.word(start + 1) in ("before", "vor") and (base := self._base(self.skip(start + 2, ("dem",)))):
            back = weekday(day_number, -1)
            return _Match(lambda clock: back(Clock(base.resolve(clock)[0])), base.next, base.floats)
        day = weekday(day_number, which)
        if hours := words.PARTS.get(self.word(start + 1)):
            return _Match(hours_of(day, hours), start + 2, floats=True)
        return _Match(day, start + 1, floats=True)

    def _day_of_month(self, n: int, sure: bool) -> _Match | None:
        """On the 3rd, am 3., am dritten."""
        start, before = n, self.word(n - 1)
        if self.word(n) == "the":
            start = n + 1
            is_on = before in ("on", "since", "before", "after", "until", "around")
            if not is_on or self.at(start).kind != "ordinal":
                return None
        elif before not in words.BEFORE_DAY or self.at(n).kind == "ordinal":
            return None
        found = self.day_at(start)
        if found is None or (self.at(start).kind == "number" and found[1] == start + 1):
            return None
        day, after = found
        return _Match(monthly(day), after, floats=True) if self.ends_phrase(after) else None

    def _year(self, n: int, sure: bool) -> _Match | None:
        """2023, with a preposition or at the end of a phrase."""
        year, one, before, after = self.year_at(n), self.at(n), self.at(n - 1), self.at(n + 1)
        if year is None or before.word in words.NOT_YEARS:
            return None
        is_joined = before.kind == "sign" and before.end == one.begin and before.text not in words.BEFORE_QUOTED
        if is_joined and not (sure and before.text == "-"):
            return None
        if (
            after.begin == one.end
            and after.kind
            and (after.text not in words.AFTER_YEAR or self.at(n + 2).kind == "number")
        ):
            return None
        is_likely = 1990 <= year <= self.this_year + 5 and self.ends_phrase(n + 1)
        return _Match(fixed(*year_of(year)), n + 1) if sure or before.word in words.BEFORE_YEAR or is_likely else None

    def qualified_at(self, n: int, sure: bool = False) -> _Match | None:
        """A date with a word that narrows or widens it: early May, Ende letzter Woche, around Easter."""
        word = self.word(n)
        if word in words.THIRDS:
            after = self.skip(n + 1, ("-",))
            if word in words.NEED_OF and self.word(after) not in words.OF:
                return None
            after = self.skip(self.skip(after, words.OF), ("the",))
            # "end of the week" means this week.
            if (unit := words.UNITS.get(self.word(after))) in ("week", "month", "year", "quarter") and after > n + 1:
                inner = _Match(lambda clock: calendar_unit(unit or "", clock, 0), after + 1, floats=True)
            else:
                found = self.date_at(after, sure=True)
                if found is None:
                    return None
                inner = found
            return _Match(part_of(inner.resolve, words.THIRDS[word], 3), inner.next, inner.floats)
        start = self.skip(n, ("the", "der"))
        if (half := words.ORDINALS.get(self.word(start), 3)) <= 2 and self.word(start + 1) in words.HALVES:
            after = self.skip(self.skip(start + 2, ("of", "des", "von")), ("the",))
            whole = self.date_at(after, sure=True)
            return _Match(part_of(whole.resolve, half - 1, 2), whole.next, whole.floats) if whole else None
        if word in words.AROUND:
            near = self.date_at(self.skip(n + 1, ("den", "die")), sure=self.word(n + 1) != "the")
            return _Match(wider(near.resolve), near.next, near.floats) if near else None
        return self.date_at(n, sure)

    def range_at(self, n: int) -> _Match | None:
        """One period, or a range: between X and Y, from X to Y, since X, before X, May 3-7."""
        word = self.word(n)
        if word in words.BETWEEN and (found := self._two_dates(n + 1, words.AND)):
            return found
        if word in words.FROM and (found := self._two_dates(n + 1, words.TO)):
            return found
        if word == "vor" and (ago := self._ago(n)):
            return ago
        if (opener := words.OPENERS.get(word)) and (found := self._open_range(n, opener)):
            return found
        one = self.qualified_at(n)
        return self._two_dates(n, words.TO, one) or one

    def _open_range(self, n: int, opener: str) -> _Match | None:
        after = n + 1
        if self.word(after) in words.ARTICLES and self.word(after) != "the":
            after += 1
        found = self._count_at(after) if opener == "since" else None
        if found and (unit := words.UNITS.get(self.word(found[2]))):  # seit zwei Wochen
            return _Match(past(unit, found[1]), found[2] + 1, floats=True)
        inner = self.qualified_at(after, sure=True)
        if inner is None:
            return None

        def resolve(clock: Clock) -> Period:
            begin, end = inner.resolve(clock)
            tomorrow = clock.today + DAY
            match opener:
                case "since":
                    return begin, tomorrow if begin < tomorrow else EVER[1]
                case "after":
                    return end, tomorrow if end < tomorrow else EVER[1]
                case "before":
                    return EVER[0], begin
            return EVER[0], end

        return _Match(resolve, inner.next, inner.floats)

    def _two_dates(self, n: int, joiners: frozenset[str], *found: _Match | None) -> _Match | None:
        """Two dates with a word or a dash between them. `found` is the first, if it was looked for already: then no
        word announces a range."""
        sure = not found
        first = found[0] if found else self.qualified_at(n, sure=True)
        number = None if first else self._bare_day(n)
        after = first.next if first else number[1] if number else n
        is_dash = self.at(after).text in ("-", "–", "—") and after > n
        if not is_dash and self.word(after) not in joiners:
            return None
        after = self.skip(after + 1, ("the", "dem", "den", "zum"))
        second = self.qualified_at(after, sure=True)
        if second is None and first and (last := self._bare_day(after)) and (sure or is_dash):
            return self._until_day(first, *last)  # May 3-7
        if second is None:
            return None
        if first is None and number is not None:  # 3 to 7 May
            day = number[0]

            def from_day(clock: Clock) -> Period:
                begin, end = second.resolve(clock)
                return begin.replace(day=day), end

            return _Match(from_day, second.next, second.floats) if sure or is_dash else None
        if first is None:
            return None

        def resolve(clock: Clock) -> Period:
            if first.floats and not second.floats:
                end = second.resolve(clock)
                return first.resolve(Clock(end[0]))[0], end[1]
            begin = first.resolve(clock)
            end = second.resolve(clock if first.floats else Clock(begin[0], is_future=True))
            if first.floats and end[1] <= begin[0]:
                begin = first.resolve(Clock(end[0]))
            return begin[0], end[1]

        return _Match(resolve, second.next, first.floats and second.floats)

    def _bare_day(self, n: int) -> tuple[int, int] | None:
        """A day without its month, inside a range."""
        return self.day_at(n) if self.at(n).kind in ("number", "ordinal") else None

    def _until_day(self, first: _Match, day: int, after: int) -> _Match:
        """A range that ends on a day of the same month: May 3-7, 2023."""
        year, after = self._with_year(after)

        def resolve(clock: Clock) -> Period:
            begin, _ = first.resolve(clock)
            begin = begin.replace(year=year or begin.year)
            return begin, begin.replace(day=day, hour=0, minute=0) + DAY

        return _Match(resolve, after, first.floats and year is None)


_TIME_WORDS = words.TIME_WORDS | HOLIDAYS.keys()
"""Every date has one of these words, or a digit."""
_STARTS = words.STARTS | HOLIDAYS.keys()
"""Words that can begin a date."""


def may_name_time(folded: Iterable[str]) -> bool:
    """A quick check of the folded words of a text. If it is false, `find` finds nothing in the text."""
    return any(word in _TIME_WORDS or not word.isalpha() for word in folded)


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
    known = _Text(text, local, here.year)
    found = list(_matches(known)) if may_name_time(one.word for one in known.tokens) else []
    anchor = _anchor(found, Clock(here))
    ranges = []
    for first, match in found:
        base = anchor if match.floats and anchor else here
        named = text[known.tokens[first].begin : known.tokens[match.next - 1].end]
        with suppress(*_NO_SUCH_TIME):
            ranges.append(_in_utc(match.resolve(Clock(base, known.is_future(first))), zone, named))
    return tuple(ranges)


_NO_SUCH_TIME = (ValueError, OverflowError, OSError)
"""Errors for a day that does not exist, or a time outside the years 1 to 9999."""


def _matches(text: _Text) -> Iterator[tuple[int, _Match]]:
    """The dates of a text, each with the number of its first token."""
    number = found = 0
    timed = [n for n in range(len(text.tokens)) if text.is_about_time(n)]
    near = {n for end in timed for n in range(max(0, end - LONGEST_START), end + 1)}
    while number < len(text.tokens) and found < MOST_RANGES:
        one, match = text.tokens[number], None
        if number in near and (one.kind not in ("word", "sign") or one.word in _STARTS):
            with suppress(*_NO_SUCH_TIME):
                match = text.range_at(number)
        if match:
            found += 1
            yield number, match
        number = match.next if match else number + 1


def _anchor(found: Sequence[tuple[int, _Match]], clock: Clock) -> datetime | None:
    """The only full date of a text."""
    days = []
    for _, match in found:
        if not match.floats:
            with suppress(*_NO_SUCH_TIME):
                begin, end = match.resolve(clock)
                days += [begin] if end - begin <= DAY else []
    return days[0] if len(days) == 1 else None


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
