"""Rules for parts of periods and for ranges: early May, around Easter, since Monday, between 3 and 7 May."""

from __future__ import annotations

from palaver.text.dates import words
from palaver.text.dates.periods import DAY, EVER, Clock, Period, calendar_unit, part_of, past, wider
from palaver.text.dates.rules import DateRules
from palaver.text.dates.tokens import DateMatch


class RangeRules(DateRules):
    """Each rule returns the date or range that begins at token n."""

    def qualified_at(self, n: int, sure: bool = False) -> DateMatch | None:
        """A date with a word that narrows or widens it: early May, Ende letzter Woche, around Easter."""
        word = self.word(n)
        if word in words.THIRDS:
            after = self.skip(n + 1, ("-",))
            if word in words.NEED_OF and self.word(after) not in words.OF:
                return None
            after = self.skip(self.skip(after, words.OF), ("the",))
            # "end of the week" means this week.
            if (unit := words.UNITS.get(self.word(after))) in ("week", "month", "year", "quarter") and after > n + 1:
                inner = DateMatch(lambda clock: calendar_unit(unit or "", clock, 0), after + 1, floats=True)
            else:
                found = self.date_at(after, sure=True)
                if found is None:
                    return None
                inner = found
            return DateMatch(part_of(inner.resolve, words.THIRDS[word], 3), inner.next, inner.floats)
        start = self.skip(n, ("the", "der"))
        if (half := words.ORDINALS.get(self.word(start), 3)) <= 2 and self.word(start + 1) in words.HALVES:
            after = self.skip(self.skip(start + 2, ("of", "des", "von")), ("the",))
            whole = self.date_at(after, sure=True)
            return DateMatch(part_of(whole.resolve, half - 1, 2), whole.next, whole.floats) if whole else None
        if word in words.AROUND:
            near = self.date_at(self.skip(n + 1, ("den", "die")), sure=self.word(n + 1) != "the")
            return DateMatch(wider(near.resolve), near.next, near.floats) if near else None
        return self.date_at(n, sure)

    def range_at(self, n: int) -> DateMatch | None:
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

    def _open_range(self, n: int, opener: str) -> DateMatch | None:
        after = n + 1
        if self.word(after) in words.ARTICLES and self.word(after) != "the":
            after += 1
        found = self._count_at(after) if opener == "since" else None
        if found and (unit := words.UNITS.get(self.word(found[2]))):  # seit zwei Wochen
            return DateMatch(past(unit, found[1]), found[2] + 1, floats=True)
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

        return DateMatch(resolve, inner.next, inner.floats)

    def _two_dates(self, n: int, joiners: frozenset[str], *found: DateMatch | None) -> DateMatch | None:
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

            return DateMatch(from_day, second.next, second.floats) if sure or is_dash else None
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

        return DateMatch(resolve, second.next, first.floats and second.floats)

    def _bare_day(self, n: int) -> tuple[int, int] | None:
        """A day without its month, inside a range."""
        return self.day_at(n) if self.at(n).kind in ("number", "ordinal") else None

    def _until_day(self, first: DateMatch, day: int, after: int) -> DateMatch:
        """A range that ends on a day of the same month: May 3-7, 2023."""
        year, after = self._with_year(after)

        def resolve(clock: Clock) -> Period:
            begin, _ = first.resolve(clock)
            begin = begin.replace(year=year or begin.year)
            return begin, begin.replace(day=day, hour=0, minute=0) + DAY

        return DateMatch(resolve, after, first.floats and year is None)
