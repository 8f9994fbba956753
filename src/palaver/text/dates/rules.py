"""Rules for periods and ranges: 3 May 2023, last March, two weeks ago, Q3 2025, since Monday, between 3 and 7 May."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from palaver.text.dates import periods, words
from palaver.text.dates.periods import DAY, EVER, Clock, Period
from palaver.text.languages import language_of

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


class DateToken(NamedTuple):
    kind: str
    text: str
    word: str
    """The text, folded."""
    begin: int
    end: int


_JOINERS = frozenset("'\u2019-")
NO_TOKEN = DateToken("", "", "", 0, 0)


class Tokens:
    """The tokens of a text, and what each of them may be."""

    def __init__(self, text: str, local: Callable[[datetime], datetime], this_year: int) -> None:
        self.text, self.local, self.this_year = text, local, this_year
        fold = str.lower if text.isascii() else words.fold
        self.tokens = [
            DateToken(one.lastgroup or "", one[0], fold(one[0]), *one.span()) for one in _TOKEN.finditer(text)
        ]
        if known := language_of(one.word for one in self.tokens).dates:
            self.tokens = _in_english(self.tokens, known)
        self.size = len(self.tokens)
        self._ends = [n for n, one in enumerate(self.tokens) if one.text in ".!?;" and one.kind == "sign"]
        self._tenses: dict[int, bool] = {}

    def at(self, number: int) -> DateToken:
        return self.tokens[number] if 0 <= number < self.size else NO_TOKEN

    def word(self, number: int) -> str:
        return self.tokens[number].word if 0 <= number < self.size else ""

    def is_about_time(self, number: int) -> bool:
        """Whether this token can be the one that makes some words a date."""
        one = self.tokens[number]
        if one.kind == "word":
            return one.word in words.TIME_WORDS
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


def _in_english(tokens: Sequence[DateToken], known: Mapping[tuple[str, ...], str]) -> list[DateToken]:
    """The tokens with the words of dates in English, and in English order: "la semaine dernière" is "the last week"."""
    found: list[DateToken] = []
    inner = [
        one
        for before, one, after in zip([NO_TOKEN, *tokens], tokens, [*tokens[1:], NO_TOKEN], strict=False)
        if one.text not in _JOINERS or (before.kind, after.kind) != ("word", "word")  # l'année, avant-hier
    ]
    number = 0
    while number < len(inner):
        for size in (3, 2, 1):
            some = inner[number : number + size]
            if len(some) == size and (english := known.get(tuple(one.word for one in some))):
                break
        else:
            english = some[0].word
        found.append(some[0]._replace(word=english, end=some[-1].end, text=some[0].text))
        number += len(some)
    for at in range(len(found) - 1):
        one, other = found[at].word, found[at + 1].word
        is_count = one in words.NUMBERS or one in words.FEW or found[at].kind == "number"
        if other in words.WHICH and (one in words.TIME_WORDS or is_count):
            found[at], found[at + 1] = (
                found[at]._replace(kind="word", word=other),
                found[at + 1]._replace(kind=found[at].kind, word=one, text=found[at].text),
            )
    return found


class DateMatch(NamedTuple):
    """A date that a rule found: its period, and the number of the next token."""

    period: Period
    next: int
    floats: bool = True
    """The period depends on the clock."""


class DateRules(Tokens):
    """Each rule returns the date that begins at token n. `sure` says that the words before announce a date. A rule
    raises ValueError or OverflowError if there is no such time."""

    def range_at(self, n: int, clock: Clock) -> DateMatch | None:
        """One period, or a range: between X and Y, from X to Y, since X, before X, May 3-7."""
        word = self.word(n)
        if word in words.BETWEEN or word in words.FROM:
            first, joiners = self.date_at(n + 1, clock, sure=True), words.AND if word in words.BETWEEN else words.TO
            if found := self._two_dates(n + 1, clock, first, joiners, sure=True):
                return found
        if word == "vor" and (ago := self._ago(n, clock)):
            return ago
        if (opener := words.OPENERS.get(word)) and (found := self._open_range(n + 1, clock, opener)):
            return found
        one = self.date_at(n, clock)
        return self._two_dates(n, clock, one, words.TO) or one

    def date_at(self, n: int, clock: Clock, sure: bool = False) -> DateMatch | None:
        """A single period."""
        kind = self.at(n).kind
        if kind in ("iso", "dotted", "slashed"):
            return self._numeric(n, clock, sure)
        if kind == "sign":
            return None
        return (
            self._day_and_month(n, clock)
            or self._month_name(n, clock, sure)
            or self._relative(n, clock)
            or self._season(n, clock)
            or self._numbered(n, clock)
            or self._weekday(n, clock, sure)
            or self._day_of_month(n, clock)
            or self._year(n, sure)
        )

    # Ranges

    def _open_range(self, n: int, clock: Clock, opener: str) -> DateMatch | None:
        if self.word(n) in words.ARTICLES and self.word(n) != "the":
            n += 1
        found = self._count_at(n) if opener == "since" else None
        if found and (unit := words.UNITS.get(self.word(found[2]))):  # seit zwei Wochen
            return DateMatch(periods.past(unit, found[1], clock), found[2] + 1)
        inner = self.date_at(n, clock, sure=True)
        if inner is None:
            return None
        begin, end = inner.period
        tomorrow = clock.today + DAY
        match opener:
            case "since":
                period = begin, tomorrow if begin < tomorrow else EVER[1]
            case "after":
                period = end, tomorrow if end < tomorrow else EVER[1]
            case "before":
                period = EVER[0], begin
            case _:
                period = EVER[0], end
        return inner._replace(period=period)

    def _two_dates(
        self, n: int, clock: Clock, first: DateMatch | None, joiners: frozenset[str], sure: bool = False
    ) -> DateMatch | None:
        """Two dates with a word or a dash between them. `first` is the date at n, if there is one."""
        number = None if first else self._bare_day(n)
        after = first.next if first else number[1] if number else n
        is_dash = self.at(after).text in ("-", "–", "—") and after > n
        if not is_dash and self.word(after) not in joiners:
            return None
        at = self.skip(after + 1, ("the", "dem", "den", "zum"))
        second = self.date_at(at, clock, sure=True)
        if second is None and first and (last := self._bare_day(at)) and (sure or is_dash):
            return self._until_day(first, *last)  # May 3-7
        if second is None:
            return None
        if first is None:  # 3 to 7 May
            begin, end = second.period
            is_range = number is not None and (sure or is_dash)
            return second._replace(period=(begin.replace(day=number[0]), end)) if number and is_range else None
        # Where one of them has no year, it is that of the other.
        begin, end = first.period[0], second.period[1]
        if not first.floats:
            second = self.date_at(at, Clock(begin, is_future=True), sure=True) or second
            end = second.period[1]
        elif not second.floats or end <= begin:
            begin = (self.date_at(n, Clock(second.period[0]), sure) or first).period[0]
        return DateMatch((begin, end), second.next, first.floats and second.floats)

    def _bare_day(self, n: int) -> tuple[int, int] | None:
        """A day without its month, inside a range."""
        return self.day_at(n) if self.at(n).kind in ("number", "ordinal") else None

    def _until_day(self, first: DateMatch, day: int, after: int) -> DateMatch:
        """A range that ends on a day of the same month: May 3-7, 2023."""
        year, after = self._with_year(after)
        begin = first.period[0]
        begin = begin.replace(year=year or begin.year)
        end = begin.replace(day=day, hour=0, minute=0) + DAY
        return DateMatch((begin, end), after, first.floats and year is None)

    # Dates of the calendar

    def _numeric(self, n: int, clock: Clock, sure: bool) -> DateMatch | None:
        """2023-05-08, 5/23/2023, 3.5.2023, am 3.5."""
        one = self.at(n)
        numbers = [int(part) for part in re.findall(r"\d+", one.text)]
        if one.kind == "iso":
            return DateMatch(self._iso(one.text), n + 1, floats=False)
        if one.kind == "slashed":
            if numbers[0] > 31:
                return DateMatch(periods.day_of(*numbers), n + 1, floats=False)
            month, day = numbers[:2] if numbers[1] > 12 or numbers[0] <= 12 else (numbers[1], numbers[0])
            return DateMatch(periods.day_of(numbers[2], month, day), n + 1, floats=False)
        day, month, *years = numbers
        if years and years[0] > 99:
            return DateMatch(periods.day_of(years[0], month, day), n + 1, floats=False)
        if not sure and self.word(n - 1) not in words.ANNOUNCE:
            return None
        if years:
            return DateMatch(periods.day_of(2000 + years[0], month, day), n + 1, floats=False)
        return DateMatch(periods.yearly(lambda year: periods.day_of(year, month, day), clock), n + 1)

    def _iso(self, text: str) -> Period:
        if "W" in text:
            return periods.week_of(int(text[:4]), int(text[-2:]))
        if len(text) == 7:
            return periods.month_of(int(text[:4]), int(text[5:]))
        moment = datetime.fromisoformat(text.upper())
        if len(text) == 10:
            return moment, moment + DAY
        has_seconds = text.count(":") > 1 and text[16:17] == ":"
        begin = self.local(moment) if moment.tzinfo else moment
        return begin, begin + (timedelta(seconds=1) if has_seconds else timedelta(minutes=1))

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

    def _in_year(self, n: int, clock: Clock, period_of: Callable[[int], Period], which: int | None = None) -> DateMatch:
        """A period that comes once a year: in the year at token n, or else in the one that fits the clock."""
        year, after = self._with_year(n)
        if year:
            return DateMatch(period_of(year), after, floats=False)
        return DateMatch(periods.yearly(period_of, clock, which), after)

    def _day_and_month(self, n: int, clock: Clock) -> DateMatch | None:
        """3 May 2023, the 3rd of May, 3. Mai, May 3rd, May 3, 2023."""
        start = self.skip(n, words.ARTICLES) if self.word(n) in ("the", "den", "dem") else n
        if found := self.day_at(start):
            day, after = found
            after = self.skip(after, ("of", "des", "im")) + 1
            month = self._month_at(after - 1)
            if month is None:
                return None
        else:
            month = self._month_at(n)
            found = self.day_at(self.skip(n + 1, ("the", "."))) if month and start == n else None
            if month is None or found is None or self.word(n + 1) in words.NUMBERS:
                return None
            day, after = found
            is_verb = self.word(n) in ("may", "march", "mar") and self.at(after - 1).kind == "number"
            if is_verb and not (self.ends_phrase(after) or self._with_year(after)[0]):
                return None
        return self._in_year(after, clock, lambda year: periods.day_of(year, month, day))

    def _month_name(self, n: int, clock: Clock, sure: bool) -> DateMatch | None:
        """May 2023, last March, in May."""
        which, start = self._which_at(n)
        month = self._month_at(start)
        if month is None:
            return None
        if not self._with_year(start + 1)[0]:
            if len(self.word(start)) == 3 and self.at(start).text.isupper():  # an abbreviation of something else
                return None
            before, follows = self.word(n - 1), self.word(n - 2) in words.MONTHS  # in March and April
            is_announced = sure or which is not None or before in words.IN or (follows and before in words.OR)
            if not is_announced and self.word(start) in words.UNSURE_MONTHS:
                return None
        return self._in_year(start + 1, clock, lambda year: periods.month_of(year, month), which)

    def _which_at(self, n: int) -> tuple[int | None, int]:
        """Last, this or next, if the token says so, and the number of the next token."""
        which = words.WHICH.get(self.word(n))
        return which, n if which is None else n + 1

    def _season(self, n: int, clock: Clock) -> DateMatch | None:
        """Last summer, summer 2023, im Sommer."""
        which, start = self._which_at(n)
        number = words.SEASONS.get(self.word(start))
        if number is None:
            return None
        before = self.word(start - 1)
        is_in = before in words.IN or (before == "the" and self.word(start - 2) in words.IN | {"over", "for"})
        is_announced = is_in and (self.word(start) not in words.UNSURE_SEASONS or before == "the")
        if which is None and not is_announced and not self._with_year(start + 1)[0]:
            return None
        return self._in_year(start + 1, clock, lambda year: periods.season_of(year, number), which)

    def _numbered(self, n: int, clock: Clock) -> DateMatch | None:
        """Q3 2025, the third quarter of 2025, KW 34, week 34 of 2023."""
        start = self.skip(n, ("the",))
        one, found = self.at(start), self.day_at(start)
        number: int | None
        if one.kind == "coded":
            number, after = int(one.text.lstrip("QqKkCcWw")), start + 1
            period_of = periods.quarter_of if one.word[0] == "q" else periods.week_of
        elif found and found[0] <= 4 and words.UNITS.get(self.word(found[1])) == "quarter":
            number, after, period_of = found[0], found[1] + 1, periods.quarter_of
        elif one.word in ("kw", "cw", "week") and self.at(start + 1).kind == "number":
            number, after, period_of = self.number_at(start + 1, 53), start + 2, periods.week_of
        else:
            return None
        if number is None:
            return None
        if self.at(after).text == "/" and self.year_at(after + 1):
            after += 1
        return self._in_year(after, clock, lambda year: period_of(year, number))

    def _day_of_month(self, n: int, clock: Clock) -> DateMatch | None:
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
        return DateMatch(periods.monthly(day, clock), after) if self.ends_phrase(after) else None

    def _year(self, n: int, sure: bool) -> DateMatch | None:
        """2023, with a preposition or at the end of a phrase."""
        year, one, before, after = self.year_at(n), self.at(n), self.at(n - 1), self.at(n + 1)
        if year is None or before.word in words.NOT_YEARS:
            return None
        is_joined = before.kind == "sign" and before.end == one.begin and before.text not in words.BEFORE_QUOTED
        if is_joined and not (sure and before.text == "-"):
            return None
        ends_here = after.text in words.AFTER_YEAR and self.at(n + 2).kind != "number"
        if after.begin == one.end and after.kind and not ends_here:
            return None
        is_likely = 1990 <= year <= self.this_year + 5 and self.ends_phrase(n + 1)
        is_meant = sure or before.word in words.BEFORE_YEAR or is_likely
        return DateMatch(periods.year_of(year), n + 1, floats=False) if is_meant else None

    # Dates that are counted from now

    def _relative(self, n: int, clock: Clock) -> DateMatch | None:
        """Yesterday, last night, two weeks ago, the past three days, this month, the week before last."""
        word, day = self.word(n), partial(periods.calendar_unit, "day", clock)
        if word == "the" and self.word(n + 1) == "day" and self.word(n + 2) in ("before", "after"):
            step = {"yesterday": -2, "tomorrow": 2}.get(self.word(n + 3))
            return DateMatch(day(step), n + 4) if step else None
        if word == "tonight":
            return DateMatch(periods.hours_of(day(0), (17, 30)), n + 1)
        if word == "morgen":  # tomorrow; in capitals, or after "am" and "guten", it is the morning
            is_tomorrow = self.at(n).text == "morgen" and self.word(n - 1) not in words.NOT_TOMORROW
            return self._with_part(day(1), n + 1) if is_tomorrow else None
        if word in words.DAYS:
            return self._with_part(day(words.DAYS[word]), n + 1)
        which, hours = words.WHICH.get(word), words.PARTS.get(self.word(n + 1))
        if which is not None and hours:
            is_meant = which == 0 or (which == -1 and hours == words.PARTS["night"])
            return DateMatch(periods.hours_of(day(which), hours), n + 2) if is_meant else None
        return self._ago(n, clock) or self._past_units(n, clock) or self._unit(n, clock)

    def _with_part(self, day: Period, n: int) -> DateMatch:
        """A day, or the part of it that is named at token n: gestern Abend."""
        hours = words.PARTS.get(self.word(n))
        return DateMatch(periods.hours_of(day, hours), n + 1) if hours else DateMatch(day, n)

    def _count_at(self, n: int) -> tuple[float, float, int] | None:
        """How many: the least, the most, and the number of the next token."""
        n = self.skip(n, words.ABOUT)
        if self.word(n) in ("a", "ein") and self.word(n + 1) in words.FEW:
            n += 1
        if self.word(n) in words.FEW:
            return *words.FEW[self.word(n)], self.skip(n + 1, ("of",))
        count = self.number_at(n)
        return (count, count, n + 1) if count else None

    def _ago(self, n: int, clock: Clock) -> DateMatch | None:
        """Two weeks ago, vor zwei Wochen, in two weeks (only for the future)."""
        is_german, is_coming = self.word(n) == "vor", self.word(n) == "in"
        found = self._count_at(n + 1 if is_german or is_coming else n)
        unit = words.UNITS.get(self.word(found[2])) if found else None
        if found is None or unit is None:
            return None
        least, most, at = found
        if is_coming:
            is_meant = self.is_future(n) and least == most
            return DateMatch(periods.about(unit, most, clock), at + 1) if is_meant else None
        if self.word(at + 1) == "from" and self.word(at + 2) == "now" and least == most:
            return DateMatch(periods.about(unit, most, clock), at + 3)
        if not is_german and self.word(at + 1) != "ago":
            return None
        period = periods.about(unit, -most, clock) if least == most else periods.a_few_ago(unit, least, most, clock)
        return DateMatch(period, at + 1 if is_german else at + 2)

    def _past_units(self, n: int, clock: Clock) -> DateMatch | None:
        """The past three days, in the last week, die letzten zehn Tage."""
        start = self.skip(n, ("the",))
        if self.word(start) not in words.LAST:
            return None
        is_rolling = self.word(start) == "past" or (self.word(start - 1) == "the" and self.word(start - 2) == "in")
        counted = self._count_at(start + 1)
        _, most, at = counted or (1, 1, start + 1)
        unit = words.UNITS.get(self.word(at))
        return DateMatch(periods.past(unit, most, clock), at + 1) if unit and (counted or is_rolling) else None

    def _unit(self, n: int, clock: Clock) -> DateMatch | None:
        """This week, letzten Monat, next year, over the weekend, the week before last."""
        start = self.skip(n, ("the",))
        word, unit = self.word(start), words.UNITS.get(self.word(start + 1))
        if word in words.WHICH and unit in ("week", "weekend", "month", "quarter", "year"):
            return DateMatch(periods.calendar_unit(unit, clock, words.WHICH[word]), start + 2)
        unit = words.UNITS.get(word)
        is_before_last = (self.word(start + 1), self.word(start + 2)) == ("before", "last")
        if is_before_last and unit in ("week", "weekend", "month", "year", "day"):
            return DateMatch(periods.calendar_unit(unit, clock, -2), start + 3)
        if unit == "weekend" and self.word(start - 1) in words.BEFORE_WEEKEND:
            return DateMatch(periods.weekend(clock), start + 1)
        return None

    def _weekday(self, n: int, clock: Clock, sure: bool) -> DateMatch | None:
        """Monday, last Tuesday, am Dienstag, Friday night."""
        which, start = self._which_at(n)
        word = self.word(start)
        if self.word(start - 1) in words.NOT_A_DAY:
            return None
        if word in words.WEEKDAYS_WITH_PARTS:
            number, part = words.WEEKDAYS_WITH_PARTS[word]
            return DateMatch(periods.hours_of(periods.weekday(number, which, clock), words.PARTS[part]), start + 1)
        day_number = words.WEEKDAYS.get(word)
        if day_number is None and (which is not None or sure or self.word(n - 1) in ("on", "since")):
            day_number = words.SHORT_WEEKDAYS.get(word)
        return None if day_number is None else self._with_part(periods.weekday(day_number, which, clock), start + 1)
