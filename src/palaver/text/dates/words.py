"""The words of dates and times in English and German, folded: in lower case and without accents."""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import combining, normalize

from palaver.text.languages import OTHERS


def fold(word: str) -> str:
    """A word in lower case without accents."""
    folded = word.casefold()
    return folded if folded.isascii() else "".join(c for c in normalize("NFKD", folded) if not combining(c))


def _spellings(words: str) -> Iterator[str]:
    """The words, folded; those with an umlaut also in the spelling with e (Maerz)."""
    for word in words.split():
        yield fold(word)
        yield fold(word.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue"))


def _numbered(groups: str, first: int = 1) -> dict[str, int]:
    """A number for each word. All words of a group have the same number; semicolons separate groups."""
    return {word: number for number, group in enumerate(groups.split(";"), first) for word in _spellings(group)}


def any_of(words: str) -> frozenset[str]:
    """The words of a text, in all their spellings."""
    return frozenset(_spellings(words))


MONTHS = _numbered("""
    january januar jänner jan; february februar feber feb; march märz mar mrz; april apr; may mai; june juni jun;
    july juli jul; august aug; september sept sep; october oktober oct okt; november nov; december dezember dec dez
    """)
UNSURE_MONTHS = any_of("may march mar jan april apr june august jun jul sep dec nov mai")
"""Months that are also other words or names. They need a day, a year or a preposition."""
WEEKDAYS = _numbered(
    """
    monday montag; tuesday dienstag; wednesday mittwoch; thursday donnerstag; friday freitag; saturday samstag
    sonnabend; sunday sonntag
    """,
    first=0,
)
SHORT_WEEKDAYS = {"mon": 0, "tue": 1, "tues": 1, "wed": 2, "thu": 3, "thur": 3, "thurs": 3, "fri": 4}
WEEKDAYS_WITH_PARTS = {
    fold(day + part): (WEEKDAYS[day], part)
    for day in ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")
    for part in ("morgen", "vormittag", "mittag", "nachmittag", "abend", "nacht")
}
SEASONS = _numbered("spring frühling frühjahr; summer sommer; autumn fall herbst; winter", first=0)
UNSURE_SEASONS = any_of("spring fall")
UNITS = {
    word: unit
    for unit, words in {
        "minute": "minute minutes minuten",
        "hour": "hour hours stunde stunden",
        "day": "day days tag tage tagen",
        "week": "week weeks woche wochen",
        "weekend": "weekend weekends wochenende wochenenden wochenendes",
        "month": "month months monat monate monaten monats",
        "quarter": "quarter quarters quartal quartale quartalen quartals",
        "year": "year years jahr jahre jahren jahres",
    }.items()
    for word in _spellings(words)
}
NUMBERS = _numbered("""
    one a an ein eine einem einer einen eins; two zwei; three drei; four vier; five fünf; six sechs; seven sieben;
    eight acht; nine neun; ten zehn; eleven elf; twelve zwölf; thirteen dreizehn; fourteen vierzehn; fifteen
    fünfzehn; sixteen sechzehn; seventeen siebzehn; eighteen achtzehn; nineteen neunzehn; twenty zwanzig
    """)
ORDINALS = _numbered("""
    first ersten erstes erste erster; second zweiten zweites zweite zweiter; third dritten drittes dritte dritter;
    fourth vierten viertes vierte vierter; fifth fünften fünfte fünfter; sixth sechsten; seventh siebten siebenten;
    eighth achten; ninth neunten; tenth zehnten; eleventh elften; twelfth zwölften; thirteenth dreizehnten;
    fourteenth vierzehnten; fifteenth fünfzehnten; sixteenth sechzehnten; seventeenth siebzehnten; eighteenth
    achtzehnten; nineteenth neunzehnten; twentieth zwanzigsten
    """)
DAYS = {
    word: days
    for days, words in {
        0: "today heute",
        -1: "yesterday gestern",
        -2: "vorgestern",
        1: "tomorrow",
        2: "übermorgen",
    }.items()
    for word in _spellings(words)
}
PARTS = {
    word: hours
    for hours, words in {
        (5, 12): "morning morgen früh vormittag",
        (11, 14): "noon mittag",
        (12, 18): "afternoon nachmittag",
        (17, 24): "evening abend",
        (18, 30): "night nacht",
    }.items()
    for word in _spellings(words)
}
"""The parts of a day, in hours. A night ends on the next day."""


def _inflected(stem: str) -> str:
    return " ".join(stem + ending for ending in ("e", "er", "en", "es", "em"))


WHICH = {
    word: which
    for which, words in {
        -2: _inflected("vorletzt"),
        -1: "last previous " + " ".join(map(_inflected, ("letzt", "vorig", "vergangen"))),
        0: "this " + _inflected("dies"),
        1: "next coming " + " ".join(map(_inflected, ("nächst", "kommend"))),
    }.items()
    for word in _spellings(words)
}
"""Words that say which of several: the last, this or the next."""
LAST = frozenset(word for word, which in WHICH.items() if which == -1) | {"past"}
FEW: dict[str, tuple[float, float]] = {
    "few": (1.5, 5.5),
    "couple": (1, 3),
    "paar": (1, 5),
    **dict.fromkeys(any_of("several some einige einigen wenige wenigen mehreren mehrere"), (1.5, 8)),
}
"""Words for a small number: the least and the most."""
ABOUT = any_of("about around almost nearly roughly over circa etwa ungefähr rund fast knapp über gut")
OPENERS = {
    **dict.fromkeys(any_of("since seit seitdem"), "since"),
    **dict.fromkeys(any_of("before vor"), "before"),
    **dict.fromkeys(any_of("after nach"), "after"),
    **dict.fromkeys(any_of("until till bis"), "until"),
}
TO = any_of("to until till through bis")
AND = any_of("and und")
OR = AND | any_of("or oder")
BETWEEN = any_of("between zwischen")
FROM = any_of("from von vom")
ARTICLES = any_of("the der die das den dem des zum zur im am")
IN = any_of(
    "in im of during since seit until till bis last this next early mid late anfang mitte ende ab back beginning"
) | frozenset(WHICH)
"""Words before a name that make it a month or a season."""
ANNOUNCE = ARTICLES | FROM | OPENERS.keys() | {"on"}
"""Words before a number with points that make it a date."""
NOT_A_DAY = any_of("a an any every each jeden jeder einem einen black good ash cyber")
"""Words before a weekday that show that no single one is meant, or that it is a name."""
BEFORE_DAY = any_of("am vom zum dem den")
BEFORE_NUMBER = BEFORE_DAY | {"kw", "cw"}
"""Words before a number that make it a day or a week."""
BEFORE_WEEKEND = any_of("the am at over this on")
NOT_TOMORROW = any_of("am guten jeden heute gestern")
"""Words before "morgen" that show that it is the morning."""
BEFORE_YEAR = any_of("in of year jahr jahre im since seit before after until bis by during the my our der die das from")
NOT_YEARS = any_of("port error id issue pr version code room line page number nr no")
FOLLOWERS = any_of(
    """a about and are as at be because been before by can did do does for from go had has have he her his how i if in
    is it me my of on or our she so that the their they this to until us was we were what when where which who why will
    with you your aber als am an auf aus bei das dass dem den der des die du er es für hat ich ihr im ist mit nach oder
    sie um und uns unser vom von war was wenn wer wie wir wo zu zum"""
)
"""Words that may follow a date. Other words show that a number counts them, as in "on the 3rd floor"."""
BEFORE_QUOTED, AFTER_YEAR = frozenset("(\"'“„«"), frozenset(".,?!;:)\"'”“»’")
"""Signs that may be beside a year without a space."""
VERBS = any_of("i we you he she it they be have not the also never always only still contain cause lead")
"""Words after "may" and "march" that show that they are verbs."""
PAST = any_of(
    """did was were had has have been said went told got made came took met bought saw gave happened ago yesterday war
    waren hat habe haben hatte hatten wurde wurden gab ging sagte gestern"""
)
FUTURE = any_of("will shall ll gonna going upcoming planning plan plans wird werden werde soon tomorrow")

TIME_WORDS = frozenset().union(
    *(MONTHS, WEEKDAYS, SHORT_WEEKDAYS, WEEKDAYS_WITH_PARTS, SEASONS, DAYS, UNITS, PARTS, ("tonight",))
)
"""Every date has one of these words or a digit."""
ALL_TIME_WORDS = TIME_WORDS | {
    word for one in OTHERS for phrase, english in one.dates.items() if english in TIME_WORDS for word in phrase
}
"""The same, with the words of all languages."""
STARTS = frozenset().union(
    *(MONTHS, WEEKDAYS, SHORT_WEEKDAYS, WEEKDAYS_WITH_PARTS, SEASONS, DAYS, WHICH, LAST, OPENERS, BETWEEN, FROM),
    *(NUMBERS, ORDINALS, FEW, ABOUT, any_of("the in tonight morgen kw cw den dem week weekend wochenende")),
)
"""Words that can begin a date."""
