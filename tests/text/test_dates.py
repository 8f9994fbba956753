"""The dates of a text, in English and five other languages."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palaver.text import dates
from palaver.text.dates import EARLIEST, LATEST, find, may_name_time
from palaver.text.tokenize import words

NOW = datetime(2023, 6, 14, 15, 30, tzinfo=UTC)
"""A Wednesday."""
EVER = "0001-01-01"


def ranges(text: str, now: datetime = NOW) -> list[tuple[str, str, str]]:
    """What was found, with times without seconds, and dates without midnight."""

    def short(moment: datetime) -> str:
        return moment.isoformat()[:16].removesuffix("T00:00")

    return [(one.text, short(one.begin), short(one.end)) for one in find(text, now, UTC)]


EXAMPLES = {
    # Full dates
    "2023-05-08": ("2023-05-08", "2023-05-08", "2023-05-09"),
    "at 2023-05-08T10:00": ("2023-05-08T10:00", "2023-05-08T10:00", "2023-05-08T10:01"),
    "at 2023-05-08 10:00+02:00?": ("2023-05-08 10:00+02:00", "2023-05-08T08:00", "2023-05-08T08:01"),
    "2023-05": ("2023-05", "2023-05-01", "2023-06-01"),
    "2023-W05": ("2023-W05", "2023-01-30", "2023-02-06"),
    "2023/05/08": ("2023/05/08", "2023-05-08", "2023-05-09"),
    "5/23/2023": ("5/23/2023", "2023-05-23", "2023-05-24"),
    "23/5/2023": ("23/5/2023", "2023-05-23", "2023-05-24"),
    "3 May 2022": ("3 May 2022", "2022-05-03", "2022-05-04"),
    "1 February, 2022": ("1 February, 2022", "2022-02-01", "2022-02-02"),
    "on December 1,2022 taken": ("December 1,2022", "2022-12-01", "2022-12-02"),
    "the 3rd of May 2022": ("the 3rd of May 2022", "2022-05-03", "2022-05-04"),
    "Aug 15th, 2022": ("Aug 15th, 2022", "2022-08-15", "2022-08-16"),
    "am 3.5.2022": ("3.5.2022", "2022-05-03", "2022-05-04"),
    "3. Mai 2022": ("3. Mai 2022", "2022-05-03", "2022-05-04"),
    "May 2022": ("May 2022", "2022-05-01", "2022-06-01"),
    "März 2022": ("März 2022", "2022-03-01", "2022-04-01"),
    "in 2021?": ("2021", "2021-01-01", "2022-01-01"),
    "sales 2021": ("2021", "2021-01-01", "2022-01-01"),
    "im Jahr 2021": ("2021", "2021-01-01", "2022-01-01"),
    "Q3 2025": ("Q3 2025", "2025-07-01", "2025-10-01"),
    "the third quarter of 2022": ("the third quarter of 2022", "2022-07-01", "2022-10-01"),
    "im dritten Quartal 2022": ("dritten Quartal 2022", "2022-07-01", "2022-10-01"),
    "KW34/2022": ("KW34/2022", "2022-08-22", "2022-08-29"),
    "summer 2021": ("summer 2021", "2021-06-01", "2021-09-01"),
    # Without a year: the last one that began
    "on May 3rd": ("May 3rd", "2023-05-03", "2023-05-04"),
    "on Aug 15th?": ("Aug 15th", "2022-08-15", "2022-08-16"),
    "on August 15": ("August 15", "2022-08-15", "2022-08-16"),
    "am dritten Mai": ("dritten Mai", "2023-05-03", "2023-05-04"),
    "am 3.5.": ("3.5.", "2023-05-03", "2023-05-04"),
    "on 29 February": ("29 February", "2020-02-29", "2020-03-01"),
    "on the 3rd": ("the 3rd", "2023-06-03", "2023-06-04"),
    "on the 20th?": ("the 20th", "2023-05-20", "2023-05-21"),
    "am 3. war": ("3.", "2023-06-03", "2023-06-04"),
    "in May": ("May", "2023-05-01", "2023-06-01"),
    "im Mai": ("Mai", "2023-05-01", "2023-06-01"),
    "in June": ("June", "2023-06-01", "2023-07-01"),
    "im Juli": ("Juli", "2022-07-01", "2022-08-01"),
    "last March": ("last March", "2023-03-01", "2023-04-01"),
    "last June": ("last June", "2022-06-01", "2022-07-01"),
    "KW 34": ("KW 34", "2022-08-22", "2022-08-29"),
    "im Sommer": ("Sommer", "2023-06-01", "2023-09-01"),
    "last summer": ("last summer", "2022-06-01", "2022-09-01"),
    "letzten Winter": ("letzten Winter", "2022-12-01", "2023-03-01"),
    # The future
    "What will happen in August?": ("August", "2023-08-01", "2023-09-01"),
    "Was wird am Freitag?": ("Freitag", "2023-06-16", "2023-06-17"),
    "next May": ("next May", "2024-05-01", "2024-06-01"),
    "next Friday": ("next Friday", "2023-06-16", "2023-06-17"),
    "tomorrow": ("tomorrow", "2023-06-15", "2023-06-16"),
    "was ist morgen?": ("morgen", "2023-06-15", "2023-06-16"),
    "übermorgen": ("übermorgen", "2023-06-16", "2023-06-17"),
    "in two weeks we will go": ("in two weeks", "2023-06-25", "2023-07-02"),
    "nächstes Jahr": ("nächstes Jahr", "2024-01-01", "2025-01-01"),
    # Days
    "today": ("today", "2023-06-14", "2023-06-15"),
    "heute": ("heute", "2023-06-14", "2023-06-15"),
    "yesterday": ("yesterday", "2023-06-13", "2023-06-14"),
    "vorgestern": ("vorgestern", "2023-06-12", "2023-06-13"),
    "the day before yesterday": ("the day before yesterday", "2023-06-12", "2023-06-13"),
    "tonight": ("tonight", "2023-06-14T17:00", "2023-06-15T06:00"),
    "this morning": ("this morning", "2023-06-14T05:00", "2023-06-14T12:00"),
    "heute Morgen": ("heute Morgen", "2023-06-14T05:00", "2023-06-14T12:00"),
    "gestern Abend": ("gestern Abend", "2023-06-13T17:00", "2023-06-14"),
    "last night": ("last night", "2023-06-13T18:00", "2023-06-14T06:00"),
    "on Monday": ("Monday", "2023-06-12", "2023-06-13"),
    "on Wednesday": ("Wednesday", "2023-06-07", "2023-06-08"),
    "last Tuesday": ("last Tuesday", "2023-06-13", "2023-06-14"),
    "last Fri": ("last Fri", "2023-06-09", "2023-06-10"),
    "am Dienstag": ("Dienstag", "2023-06-13", "2023-06-14"),
    "letzten Freitag": ("letzten Freitag", "2023-06-09", "2023-06-10"),
    "this Friday": ("this Friday", "2023-06-16", "2023-06-17"),
    "Friday evening": ("Friday evening", "2023-06-09T17:00", "2023-06-10"),
    "am Montagabend": ("Montagabend", "2023-06-12T17:00", "2023-06-13"),
    # Weeks, months, years
    "this week": ("this week", "2023-06-12", "2023-06-19"),
    "last week": ("last week", "2023-06-05", "2023-06-12"),
    "the week before last": ("the week before last", "2023-05-29", "2023-06-05"),
    "letzte Woche": ("letzte Woche", "2023-06-05", "2023-06-12"),
    "in der vorletzten Woche": ("vorletzten Woche", "2023-05-29", "2023-06-05"),
    "last weekend": ("last weekend", "2023-06-10", "2023-06-12"),
    "over the weekend": ("the weekend", "2023-06-10", "2023-06-12"),
    "am Wochenende": ("Wochenende", "2023-06-10", "2023-06-12"),
    "diesen Monat": ("diesen Monat", "2023-06-01", "2023-07-01"),
    "next month": ("next month", "2023-07-01", "2023-08-01"),
    "last quarter": ("last quarter", "2023-01-01", "2023-04-01"),
    "this year": ("this year", "2023-01-01", "2024-01-01"),
    "letztes Jahr": ("letztes Jahr", "2022-01-01", "2023-01-01"),
    # Some time ago
    "three days ago": ("three days ago", "2023-06-11", "2023-06-12"),
    "vor drei Tagen": ("vor drei Tagen", "2023-06-11", "2023-06-12"),
    "about 30 days ago": ("about 30 days ago", "2023-05-11", "2023-05-20"),
    "two weeks ago": ("two weeks ago", "2023-05-28", "2023-06-04"),
    "vor drei Wochen": ("vor drei Wochen", "2023-05-21", "2023-05-28"),
    "vor einem Monat": ("vor einem Monat", "2023-04-29", "2023-05-30"),
    "six months ago": ("six months ago", "2022-11-29", "2022-12-30"),
    "a year ago": ("a year ago", "2021-12-16", "2022-12-12"),
    "an hour ago": ("an hour ago", "2023-06-14T14:00", "2023-06-14T15:00"),
    "a few days ago": ("a few days ago", "2023-06-08T12:00", "2023-06-13T12:00"),
    "a couple of weeks ago": ("a couple of weeks ago", "2023-05-24", "2023-06-08"),
    "vor ein paar Wochen": ("vor ein paar Wochen", "2023-05-10", "2023-06-08"),
    "in the past three days": ("the past three days", "2023-06-11", "2023-06-15"),
    "in the last 24 hours": ("the last 24 hours", "2023-06-13T15:30", "2023-06-14T15:31"),
    "in den letzten 10 Tagen": ("letzten 10 Tagen", "2023-06-04", "2023-06-15"),
    "in the last week": ("the last week", "2023-06-07", "2023-06-15"),
    # Ranges
    "since May": ("since May", "2023-05-01", "2023-06-15"),
    "seit Montag": ("seit Montag", "2023-06-12", "2023-06-15"),
    "seit zwei Wochen": ("seit zwei Wochen", "2023-05-31", "2023-06-15"),
    "after last Tuesday": ("after last Tuesday", "2023-06-14", "2023-06-15"),
    "before 2022": ("before 2022", EVER, "2022-01-01"),
    "vor dem 3. Mai": ("vor dem 3. Mai", EVER, "2023-05-03"),
    "between 3 and 7 May": ("between 3 and 7 May", "2023-05-03", "2023-05-08"),
    "between August 11 and August 15 2022": ("between August 11 and August 15 2022", "2022-08-11", "2022-08-16"),
    "zwischen Mai und Juli 2022": ("zwischen Mai und Juli 2022", "2022-05-01", "2022-08-01"),
    "from November to January 2022": ("from November to January 2022", "2021-11-01", "2022-02-01"),
    "from May 2022 to July": ("from May 2022 to July", "2022-05-01", "2022-08-01"),
    "May 3-7, 2022": ("May 3-7, 2022", "2022-05-03", "2022-05-08"),
    "3.-7. Mai 2022": ("3.-7. Mai 2022", "2022-05-03", "2022-05-08"),
    "from Monday to Friday": ("from Monday to Friday", "2023-06-05", "2023-06-10"),
    # Words that narrow a period are left out
    "early May": ("May", "2023-05-01", "2023-06-01"),
    "end of May": ("May", "2023-05-01", "2023-06-01"),
    "Ende letzter Woche": ("letzter Woche", "2023-06-05", "2023-06-12"),
    "the week before 16 November 2022": ("before 16 November 2022", EVER, "2022-11-16"),
    # French
    "qu'a-t-on fait hier soir ?": ("hier soir", "2023-06-13T17:00", "2023-06-14"),
    "aujourd'hui": ("aujourd'hui", "2023-06-14", "2023-06-15"),
    "avant-hier": ("avant-hier", "2023-06-12", "2023-06-13"),
    "la semaine dernière": ("la semaine dernière", "2023-06-05", "2023-06-12"),
    "l'année dernière": ("l'année dernière", "2022-01-01", "2023-01-01"),
    "lundi dernier": ("lundi dernier", "2023-06-12", "2023-06-13"),
    "la semaine prochaine": ("la semaine prochaine", "2023-06-19", "2023-06-26"),
    "il y a deux semaines": ("il y a deux semaines", "2023-05-28", "2023-06-04"),
    "les trois derniers jours": ("les trois derniers jours", "2023-06-11", "2023-06-15"),
    "depuis lundi": ("depuis lundi", "2023-06-12", "2023-06-15"),
    "avant le 3 mai": ("avant le 3 mai", EVER, "2023-05-03"),
    "entre le 3 et le 7 mai": ("entre le 3 et le 7 mai", "2023-05-03", "2023-05-08"),
    "du 3 au 7 mai 2022": ("du 3 au 7 mai 2022", "2022-05-03", "2022-05-08"),
    "au mois d'avril": ("avril", "2023-04-01", "2023-05-01"),
    "le 1er mai": ("le 1er mai", "2023-05-01", "2023-05-02"),
    # Spanish
    "anteayer": ("anteayer", "2023-06-12", "2023-06-13"),
    "el mes pasado": ("el mes pasado", "2023-05-01", "2023-06-01"),
    "el lunes pasado": ("lunes pasado", "2023-06-12", "2023-06-13"),
    "la semana que viene": ("la semana que viene", "2023-06-19", "2023-06-26"),
    "hace tres días": ("hace tres días", "2023-06-11", "2023-06-12"),
    "los últimos tres días": ("los últimos tres días", "2023-06-11", "2023-06-15"),
    "desde el lunes": ("desde el lunes", "2023-06-12", "2023-06-15"),
    "antes del 3 de mayo": ("antes del 3 de mayo", EVER, "2023-05-03"),
    "entre el 3 y el 7 de mayo": ("entre el 3 y el 7 de mayo", "2023-05-03", "2023-05-08"),
    "el 3 de mayo de 2022": ("el 3 de mayo de 2022", "2022-05-03", "2022-05-04"),
    "¿Qué decidimos en agosto?": ("agosto", "2022-08-01", "2022-09-01"),
    # Portuguese
    "ontem": ("ontem", "2023-06-13", "2023-06-14"),
    "no mês passado": ("mês passado", "2023-05-01", "2023-06-01"),
    "na última segunda-feira": ("última segunda-feira", "2023-06-12", "2023-06-13"),
    "na sexta": ("sexta", "2023-06-09", "2023-06-10"),
    "há dois dias": ("há dois dias", "2023-06-12", "2023-06-13"),
    "três dias atrás": ("três dias atrás", "2023-06-11", "2023-06-12"),
    "nos últimos três dias": ("últimos três dias", "2023-06-11", "2023-06-15"),
    "antes de 2022": ("antes de 2022", EVER, "2022-01-01"),
    "3 de maio de 2022": ("3 de maio de 2022", "2022-05-03", "2022-05-04"),
    # Italian
    "ieri sera": ("ieri sera", "2023-06-13T17:00", "2023-06-14"),
    "l'altro ieri": ("altro ieri", "2023-06-12", "2023-06-13"),
    "la settimana scorsa": ("la settimana scorsa", "2023-06-05", "2023-06-12"),
    "due giorni fa": ("due giorni fa", "2023-06-12", "2023-06-13"),
    "negli ultimi tre giorni": ("ultimi tre giorni", "2023-06-11", "2023-06-15"),
    "da lunedì": ("da lunedì", "2023-06-12", "2023-06-15"),
    "prima di maggio": ("prima di maggio", EVER, "2023-05-01"),
    "tra il 3 e il 7 maggio": ("tra il 3 e il 7 maggio", "2023-05-03", "2023-05-08"),
    "a maggio": ("maggio", "2023-05-01", "2023-06-01"),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_date_of_a_text_is_found(text: str):
    assert ranges(text) == [EXAMPLES[text]]


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_quick_check_misses_no_date(text: str):
    assert may_name_time(words(text))


@pytest.mark.parametrize(
    "text",
    [
        "May I ask you something?",
        "What may happen to the march to the sea?",
        "Why this may fail",
        "It may 3 times fail",
        "in the sun for a second",
        "on the 3rd floor",
        "the second try",
        "Jan said the sun sat in Spring Boot",
        "What did I say about Jan?",
        "John's one-year-old child",
        "How long ago was her 18th birthday?",
        "error 2023 on port 2022",
        "#2023 and v2.0.23 of 2023.1",
        "version 1.2.23",
        "at the last minute on the last day",
        "24/7 support for 3 days",
        "Guten Morgen",
        "2023-02-30 and 32.1.2023",
        "Mondays",
        "the rotation on a Sunday",
        "jeden Montag",
        "Black Friday",
        "the SEP and the DEC",
        "w44a30 of May2023 and the 1990s",
        "a30 im",
        "a week",
        "hier steht nichts",
        "the estate is due on mars",
        "três segundas vezes",
        "il a mangé à la table",
        "",
    ],
)
def test_other_words_and_numbers_are_no_dates(text: str):
    assert ranges(text) == []


def test_a_month_beside_another_needs_no_preposition():
    assert [one[:2] for one in ranges("in March and April")] == [("March", "2023-03-01"), ("April", "2023-04-01")]


def test_digits_of_an_identifier_are_no_day():
    assert ranges("ff44a30 im Mai 2023") == [("Mai 2023", "2023-05-01", "2023-06-01")]


def test_a_text_may_have_several_dates():
    found = ranges("Did we meet in March 2022, on 3 May 2022 or in 2021?")
    assert [one[0] for one in found] == ["March 2022", "3 May 2022", "2021"]


def test_a_relative_date_is_relative_to_the_full_date_beside_it():
    text = "What did she finish last Friday, as mentioned on 23 January, 2022?"
    assert [one[:2] for one in ranges(text)] == [("last Friday", "2022-01-21"), ("23 January, 2022", "2022-01-23")]


def test_a_day_begins_at_midnight_of_the_asker():
    (one,) = find("yesterday", NOW, ZoneInfo("Europe/Berlin"))
    assert one.begin == datetime(2023, 6, 12, 22, tzinfo=UTC)
    assert one.end == datetime(2023, 6, 13, 22, tzinfo=UTC)
    (late,) = find("today", datetime(2023, 6, 14, 23, 30, tzinfo=UTC), ZoneInfo("Europe/Berlin"))
    assert late.begin == datetime(2023, 6, 14, 22, tzinfo=UTC)


def test_a_day_on_which_clocks_change_has_another_length():
    spring, autumn = (find(day, NOW, ZoneInfo("Europe/Berlin"))[0] for day in ("26 March 2023", "30 October 2022"))
    assert spring.end - spring.begin == timedelta(hours=23)
    assert autumn.end - autumn.begin == timedelta(hours=25)


def test_without_a_time_zone_it_is_that_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        (one,) = find("yesterday", NOW)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert one.begin == datetime(2023, 6, 13, 4, tzinfo=UTC)


def test_open_ranges_have_no_bound_on_one_side():
    (before,), (after,) = (find(text, NOW, UTC) for text in ("before May", "after next year"))
    assert before.begin == EARLIEST
    assert after.end == LATEST


# Any text

PIECES = st.sampled_from(
    [
        "the",
        "a",
        "on",
        "in",
        "May",
        "march",
        "3",
        "3.",
        "3rd",
        "31",
        "2023",
        "0",
        "99999",
        "12.5.",
        "12.5.2023",
        "2023-05-08",
        "2023-02-30T25:00",
        "since",
        "before",
        "after",
        "between",
        "and",
        "to",
        "-",
        "from",
        "last",
        "next",
        "this",
        "week",
        "weeks",
        "month",
        "year",
        "weekend",
        "ago",
        "two",
        "few",
        "couple",
        "of",
        "vor",
        "dem",
        "letzten",
        "zwei",
        "Wochen",
        "Montag",
        "Freitagabend",
        "Mai",
        "im",
        "Q3",
        "KW",
        "53",
        "early",
        "end",
        "first",
        "second",
        "before.",
        "will",
        "did",
        "?",
        ",",
        "yesterday",
        "gestern",
        "Abend",
        "past",
        "9999",
        "1",
        ".",
        "́",
        "٣",
        "seit",
        "bis",
        "zum",
        "la",
        "semaine",
        "dernière",
        "il",
        "y",
        "'",
        "hier",
        "avant",
        "hace",
        "días",
        "que",
        "viene",
        "sexta",
        "feira",
        "fa",
        "due",
        "giorni",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=30).map(" ".join))
MOMENTS = st.datetimes(timezones=st.just(UTC))
ZONES = st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Apia"), ZoneInfo("Asia/Kathmandu")])


@given(TEXTS, MOMENTS, ZONES)
@example("in 9999", datetime(9999, 12, 31, 23, 59, tzinfo=UTC), ZoneInfo("Europe/Berlin"))
@example("last year", datetime(1, 1, 1, tzinfo=UTC), ZoneInfo("America/New_York"))
@example("2023-03-26 02:30", NOW, ZoneInfo("Europe/Berlin"))
@example("9999 years ago, 9999 weeks from now", NOW, UTC)
def test_every_range_has_a_length_and_is_named_by_the_text(text: str, now: datetime, zone: ZoneInfo):
    found = find(text, now, zone)
    assert all(one.begin < one.end and one.text and one.text in text for one in found)
    assert all(one.begin.tzinfo is UTC and one.end.tzinfo is UTC for one in found)
    assert len(found) <= dates.MOST_RANGES
    assert not found or may_name_time(words(text))
