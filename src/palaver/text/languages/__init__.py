"""Languages: words that say nothing about the topic, words that show what is asked for, and words of dates.

Each language is a TOML file beside this one. In `[dates]`, each English word has the words that mean the same; words
of a phrase are joined by `_`. "vor" and "vorgestern" are German for "ago", which comes first, and two days ago.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from palaver.text.tokenize import words


class Language(NamedTuple):
    """Words of a language, folded."""

    name: str
    stop_words: frozenset[str]
    question_words: frozenset[str]
    """The first words of questions."""
    first_person: frozenset[str]
    second_person: frozenset[str]
    requests: frozenset[str]
    """Before a word for "you" they ask for something now: "can you suggest", "what do you think"."""
    reminders: frozenset[str]
    elisions: frozenset[str]
    """Short words that are joined to the next one by an apostrophe, as in "l'accès"."""
    dates: Mapping[tuple[str, ...], str]
    """The English word for each word of a date, or for some words one after another."""
    known: frozenset[str]
    """All words by which the language is recognised."""


WORD_LISTS = Language._fields[1:8]
TABLES = {
    name: tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))
    for name in ("english", "german", "french", "portuguese", "spanish", "italian")
}


def _read(name: str) -> Language:
    table = TABLES[name]
    dates = {
        tuple(words(phrase)): english
        for english, phrases in table.get("dates", {}).items()
        for phrase in phrases.split()
    }
    lists = {field: frozenset(words(table.get(field, ""))) for field in WORD_LISTS}
    known = lists["stop_words"] | lists["elisions"] | {phrase[0] for phrase in dates if len(phrase) == 1}
    return Language(name=name, **lists, dates=dates, known=known)


def in_all_languages(field: str) -> frozenset[str]:
    """The words of one list of every language."""
    return frozenset(word for table in TABLES.values() for word in words(table.get(field, "")))


def _any_pattern(field: str) -> re.Pattern[str]:
    """The patterns of one name of every language, as one."""
    patterns = (re.sub(r"\n\s*", "", table[field].strip()) for table in TABLES.values() if field in table)
    return re.compile(rf"\b(?:{'|'.join(patterns)})\b", re.IGNORECASE)


ENGLISH, *OTHERS = map(_read, TABLES)
UNKNOWN = Language("", *(frozenset[str](),) * 7, dates={}, known=frozenset())
"""A language that is not written in Latin letters, such as Chinese. No words of it are known here."""
WHEN, LATEST, GATHERS = map(_any_pattern, ("when", "latest", "gathers"))
"""Patterns for texts that ask for a time, for the latest, and for several messages: a list, a number, an order."""
_ALSO_ENGLISH = frozenset(words(TABLES["english"]["also_english"]))
"""Words of other languages that are English words or names too, and no stop words there: "die", "war", "Han"."""


def language_of(folded: Iterable[str], least: int = 1) -> Language:
    """The language of a text, given its folded words. It is English unless more words are known from another
    language than from English, at least `least` of them. Words like "die" are in both and count half."""
    said = frozenset(folded)
    english = said & ENGLISH.stop_words
    best, most = ENGLISH, 0
    for one in OTHERS:
        found = said & one.known
        foreign = found - ENGLISH.stop_words
        weight = len(foreign) - len(foreign & _ALSO_ENGLISH) / 2
        if weight >= least and weight > len(english - found) and len(found) > most:
            best, most = one, len(found)
    return best
