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
    when: str
    """A pattern for texts that ask for a time."""
    latest: str
    """A pattern for texts that ask for the latest."""
    dates: Mapping[tuple[str, ...], str]
    """The English word for each word of a date, or for some words one after another."""
    known: frozenset[str]
    """All words by which the language is recognised."""


WORD_LISTS = Language._fields[1:8]


def _read(name: str) -> Language:
    table = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))

    def folded(field: str) -> frozenset[str]:
        return frozenset(words(table.get(field, "")))

    dates = {
        tuple(words(phrase)): english
        for english, phrases in table.get("dates", {}).items()
        for phrase in phrases.split()
    }
    lists = {field: folded(field) for field in WORD_LISTS}
    when, latest = (re.sub(r"\n\s*", "", table[field].strip()) for field in ("when", "latest"))
    known = lists["stop_words"] | lists["elisions"] | {phrase[0] for phrase in dates if len(phrase) == 1}
    return Language(name=name, **lists, when=when, latest=latest, dates=dates, known=known)


ENGLISH = _read("english")
OTHERS = tuple(map(_read, ("german", "french", "portuguese", "spanish", "italian")))
UNKNOWN = Language("", *(frozenset[str](),) * 7, when="", latest="", dates={}, known=frozenset())
"""A language that is not written in Latin letters, such as Chinese. No words of it are known here."""
WHEN, LATEST = (
    re.compile(rf"\b(?:{'|'.join(getattr(one, field) for one in (ENGLISH, *OTHERS))})\b", re.IGNORECASE)
    for field in ("when", "latest")
)
_ALSO_ENGLISH = frozenset(
    words(tomllib.loads((Path(__file__).parent / "english.toml").read_text("utf-8"))["also_english"])
)
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
