"""Rules for a single period: 3 May 2023, last March, two weeks ago, Q3 2025, the Sunday before 3 May."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from palaver.text.dates import words
from palaver.text.dates.periods import (
    DAY,
    HOLIDAYS,
    Clock,
    Period,
    a_few_ago,
    about,
    calendar_unit,
    day_of,
    fixed,
    hours_of,
    month_of,
    monthly,
    past,
    quarter_of,
    season_of,
    shift,
    week_of,
    weekday,
    year_of,
    yearly,
    yearly_day,
)
from palaver.text.dates.tokens import DateMatch, Tokens


class DateRules(Tokens):
    """Each rule returns the date that begins at token n. `sure` says that the words before announce a date."""

    _depth = 0
    """How many dates depend on each other: "the week before two days before 3 May"."""

    def date_at(self, n: int, sure: bool = False) -> DateMatch | None:
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

    def _numeric(self, n: int, sure: bool) -> DateMatch | None:
        one = self.at(n)
        if one.kind == "iso":
            if "W" in one.text:
                return DateMatch(fixed(*week_of(int(one.text[:4]), int(one.text[-2:]))), n + 1)
            if len(one.text) == 7:
                return DateMatch(fixed(*month_of(int(one.text[:4]), int(one.text[5:]))), n + 1)
            moment = datetime.fromisoformat(one.text.upper())
            if len(one.text) == 10:
                return DateMatch(fixed(moment, moment + DAY), n + 1)
            begin = self.local(moment) if moment.tzinfo else moment
            length = (
                timedelta(seconds=1) if one.text.count(":") > 1 and one.text[16:17] == ":" else timedelta(minutes=1)
            )
            return DateMatch(fixed(begin, begin + length), n + 1)
        numbers = [int(part) for part in re.findall(r"\d+", one.text)]
        if one.kind == "slashed":
            if numbers[0] > 31:
                return DateMatch(fixed(*day_of(*numbers)), n + 1)
            month, day = numbers[:2] if numbers[1] > 12 or numbers[0] <= 12 else (numbers[1], numbers[0])
            return DateMatch(fixed(*day_of(numbers[2], month, day)), n + 1)
        if len(numbers) == 3 and numbers[2] > 99:
            return DateMatch(fixed(*day_of(numbers[2], numbers[1], numbers[0])), n + 1)
        if not sure and self.word(n - 1) not in words.ANNOUNCE:
            return None
        if len(numbers) == 3:
            return DateMatch(fixed(*day_of(2000 + numbers[2], numbers[1], numbers[0])), n + 1)
        day_of(2024, numbers[1], numbers[0])  # refuses other numbers
        return DateMatch(yearly(yearly_day(numbers[1], numbers[0], 1)), n + 1, floats=True)

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

    def _day_and_month(self, n: int, sure: bool) -> DateMatch | None:
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
            return DateMatch(fixed(*day_of(year, month, day)), after)
        day_of(2024, month, day)  # refuses 31 April
        return DateMatch(yearly(yearly_day(month, day, 1)), after, floats=True)

    def _month_name(self, n: int, sure: bool) -> DateMatch | None:
        """May 2023, last March, in May."""
        which = words.WHICH.get(self.word(n))
        start = n + 1 if which is not None else n
        month = self._month_at(start)
        if month is None:
            return None
        year, after = self._with_year(start + 1)
        if year:
            return DateMatch(fixed(*month_of(year, month)), after)
        if len(self.word(start)) == 3 and self.at(start).text.isupper():  # an abbreviation of something else
            return None
        before, follows = self.word(n - 1), self.word(n - 2) in words.MONTHS  # in March and April
        is_announced = sure or which is not None or before in words.IN or (follows and before in words.OR)
        if not is_announced and self.word(start) in words.UNSURE_MONTHS:
            return None
        return DateMatch(yearly(lambda year: month_of(year, month), which), after, floats=True)

    def _relative(self, n: int, sure: bool) -> DateMatch | None:
        """Yesterday, last night, two weeks ago, the past three days, this month, the week before last."""
        word = self.word(n)
        if word == "the" and (self.word(n + 1), self.word(n + 2)) in (("day", "before"), ("day", "after")):
            step = {"yesterday": -2, "tomorrow": 2}.get(self.word(n + 3))
            return DateMatch(lambda clock: calendar_unit("day", clock, step or 0), n + 4, floats=True) if step else None
        if word == "tonight":
            return DateMatch(hours_of(lambda clock: calendar_unit("day", clock, 0), (17, 30)), n + 1, floats=True)
        if word == "morgen":  # tomorrow; in capitals, or after "am" and "guten", it is the morning
            is_tomorrow = self.at(n).text == "morgen" and self.word(n - 1) not in words.NOT_TOMORROW
            return self._day_from_today(n, 1) if is_tomorrow else None
        if word in words.DAYS:
            return self._day_from_today(n, words.DAYS[word])
        which = words.WHICH.get(word)
        if which is not None and (part := words.PARTS.get(self.word(n + 1))):
            is_last_night = part == words.PARTS["night"] and which == -1
            if which == 0 or is_last_night:
                return DateMatch(hours_of(lambda clock: calendar_unit("day", clock, which), part), n + 2, floats=True)
            return None
        return self._ago(n) or self._past_units(n) or self._unit(n)

    def _day_from_today(self, n: int, days: int) -> DateMatch:
        """Yesterday, gestern Abend."""

        def day(clock: Clock) -> Period:
            return calendar_unit("day", clock, days)

        part = words.PARTS.get(self.word(n + 1))
        return DateMatch(hours_of(day, part) if part else day, n + 2 if part else n + 1, floats=True)

    def _count_at(self, n: int) -> tuple[float, float, int] | None:
        """How many: the least, the most, and the number of the next token."""
        n = self.skip(n, words.ABOUT)
        if self.word(n) in ("a", "ein") and self.word(n + 1) in words.FEW:
            n += 1
        if self.word(n) in words.FEW:
            return *words.FEW[self.word(n)], self.skip(n + 1, ("of",))
        count = self.number_at(n)
        return (count, count, n + 1) if count else None

    def _ago(self, n: int) -> DateMatch | None:
        """Two weeks ago, vor zwei Wochen, in two weeks (only for the future)."""
        is_german, is_coming = self.word(n) == "vor", self.word(n) == "in"
        found = self._count_at(n + 1 if is_german or is_coming else n)
        unit = words.UNITS.get(self.word(found[2])) if found else None
        if found is None or unit is None:
            return None
        least, most, at = found
        if is_coming:
            return DateMatch(about(unit, most), at + 1, floats=True) if self.is_future(n) and least == most else None
        if self.word(at + 1) == "from" and self.word(at + 2) == "now" and least == most:
            return DateMatch(about(unit, most), at + 3, floats=True)
        if not is_german and self.word(at + 1) == "before" and least == most:
            return self._before_date(at + 2, unit, int(most))
        if not is_german and self.word(at + 1) != "ago":
            return None
        after = at + 1 if is_german else at + 2
        return DateMatch(about(unit, -most) if least == most else a_few_ago(unit, least, most), after, floats=True)

    def _base(self, n: int) -> DateMatch | None:
        """A date that another date depends on. It may depend on a third, but no further."""
        if self._depth > 1:
            return None
        self._depth += 1
        try:
            return self.date_at(n, sure=True)
        finally:
            self._depth -= 1

    def _before_date(self, n: int, unit: str, count: int) -> DateMatch | None:
        """Two weeks before another date."""
        base = self._base(n)
        if base is None:
            return None
        back = about(unit, -count)
        return DateMatch(lambda clock: back(clock._replace(now=base.resolve(clock)[0])), base.next, base.floats)

    def _past_units(self, n: int) -> DateMatch | None:
        """The past three days, in the last week, die letzten zehn Tage."""
        start = self.skip(n, ("the",))
        if self.word(start) not in words.LAST:
            return None
        if found := self._count_at(start + 1):
            unit = words.UNITS.get(self.word(found[2]))
            return DateMatch(past(unit, found[1]), found[2] + 1, floats=True) if unit else None
        unit = words.UNITS.get(self.word(start + 1))
        is_rolling = self.word(start) == "past" or (self.word(start - 1) == "the" and self.word(start - 2) == "in")
        return DateMatch(past(unit, 1), start + 2, floats=True) if unit and is_rolling else None

    def _unit(self, n: int) -> DateMatch | None:
        """This week, letzten Monat, next year, over the weekend, the week before 3 May, the second week of May."""
        start = self.skip(n, ("the",))
        word = self.word(start)
        unit = words.UNITS.get(self.word(start + 1))
        if word in words.WHICH and unit in ("week", "weekend", "month", "quarter", "year"):
            step = words.WHICH[word]
            if step == -1 and self.word(start + 2) == "before" and (found := self._unit_before_date(start + 3, unit)):
                return found
            return DateMatch(lambda clock: calendar_unit(unit, clock, step), start + 2, floats=True)
        if words.UNITS.get(word) in ("week", "weekend", "month", "year", "day") and self.word(start + 1) == "before":
            if self.word(start + 2) == "last":
                return DateMatch(lambda clock: calendar_unit(words.UNITS[word], clock, -2), start + 3, floats=True)
            return self._unit_before_date(start + 2, words.UNITS[word])
        if words.UNITS.get(word) == "weekend" and self.word(start - 1) in words.BEFORE_WEEKEND:
            return DateMatch(self._weekend, start + 1, floats=True)
        if (number := self.day_at(start)) and self.word(number[1]) in ("week", "woche"):
            after = self.skip(self.skip(number[1] + 1, ("of", "im", "des", "in")), ("the",))
            month = self._month_name(after, sure=True)
            if month and 1 <= number[0] <= 5:
                week = 7 * (number[0] - 1) * DAY

                def week_of_month(clock: Clock) -> Period:
                    begin, end = month.resolve(clock)
                    return begin + week, min(begin + week + 7 * DAY, end)

                return DateMatch(week_of_month, month.next, month.floats)
        return None

    @staticmethod
    def _weekend(clock: Clock) -> Period:
        is_now = clock.is_future or clock.now.weekday() > 4
        return calendar_unit("weekend", clock, 0 if is_now else -1)

    def _unit_before_date(self, n: int, unit: str) -> DateMatch | None:
        """The unit that ends where another date begins: the week before 3 May."""
        base = self._base(n)
        if base is None:
            return None

        def resolve(clock: Clock) -> Period:
            end = base.resolve(clock)[0]
            return (calendar_unit(unit, Clock(end), -1)) if unit == "weekend" else (shift(end, unit, -1), end)

        return DateMatch(resolve, base.next, base.floats)

    def _named(self, n: int, sure: bool) -> DateMatch | None:
        """Seasons and holidays: last summer, summer 2023, im Sommer, around Easter."""
        which = words.WHICH.get(self.word(n))
        start = n + 1 if which is not None else n
        word, before = self.word(start), self.word(start - 1)
        if word in words.SEASONS:
            year, after = self._with_year(start + 1)
            number = words.SEASONS[word]
            if year:
                return DateMatch(fixed(*season_of(year, number)), after)
            is_in = before in words.IN or (before == "the" and self.word(start - 2) in words.IN | {"over", "for"})
            if which is None and not (is_in and (word not in words.UNSURE_SEASONS or before == "the")):
                return None
            return DateMatch(yearly(lambda year: season_of(year, number), which), start + 1, floats=True)
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
            return DateMatch(fixed(*period_of(year)), after)
        is_sure = sure or which is not None or before in words.AT
        return DateMatch(yearly(period_of, which), after, floats=True) if is_sure else None

    def _numbered(self, n: int, sure: bool) -> DateMatch | None:
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
            return DateMatch(fixed(*period_of(year, number)), after)
        return DateMatch(yearly(lambda year: period_of(year, number)), after, floats=True)

    def _weekday(self, n: int, sure: bool) -> DateMatch | None:
        """Monday, last Tuesday, am Dienstag, Friday night, the Sunday before 3 May."""
        which = words.WHICH.get(self.word(n))
        start = n + 1 if which is not None else n
        word = self.word(start)
        part: str | None
        if self.word(start - 1) in words.NOT_A_DAY:
            return None
        if word in words.WEEKDAYS_WITH_PARTS:
            number, part = words.WEEKDAYS_WITH_PARTS[word]
            return DateMatch(hours_of(weekday(number, which), words.PARTS[part]), start + 1, floats=True)
        day_number = words.WEEKDAYS.get(word)
        if day_number is None and (which is not None or sure or self.word(n - 1) in ("on", "since")):
            day_number = words.SHORT_WEEKDAYS.get(word)
        if day_number is None:
            return None
        if self.word(start + 1) in ("before", "vor") and (base := self._base(self.skip(start + 2, ("dem",)))):
            back = weekday(day_number, -1)
            return DateMatch(lambda clock: back(Clock(base.resolve(clock)[0])), base.next, base.floats)
        day = weekday(day_number, which)
        if hours := words.PARTS.get(self.word(start + 1)):
            return DateMatch(hours_of(day, hours), start + 2, floats=True)
        return DateMatch(day, start + 1, floats=True)

    def _day_of_month(self, n: int, sure: bool) -> DateMatch | None:
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
        return DateMatch(monthly(day), after, floats=True) if self.ends_phrase(after) else None

    def _year(self, n: int, sure: bool) -> DateMatch | None:
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
        return (
            DateMatch(fixed(*year_of(year)), n + 1) if sure or before.word in words.BEFORE_YEAR or is_likely else None
        )
