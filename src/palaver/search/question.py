"""The parsed query: its terms, and the intent its other words show.

People and agents ask whole sentences. The stop words of their language say nothing about the topic, so they are left
out unless there is nothing else. They do show who is meant ("I", "you") and whether a time is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from itertools import groupby, pairwise

from palaver.model.times import now
from palaver.text import dates
from palaver.text.dates import TimeRange
from palaver.text.languages import ENGLISH, GATHERS, LATEST, UNKNOWN, WHEN, Language, language_of
from palaver.text.query import AllOf, AnyOf, Nothing, Phrase, Query, as_prefix, plain
from palaver.text.tokenize import words

MOST_TERMS = 64
LONGEST_NAME = 4
"""The longest run of single-character words (as in Chinese) that counts as one name."""
LONGEST_READ = 5_000
"""Characters of a query that are read for its intent."""

_GRAMMAR = frozenset("的了吗呢吧啊么是什怎哪")
"""Chinese characters of grammar and questions. In a sentence, pairs with them say nothing about the topic."""
_LIST_SEPARATOR = re.compile(r"(?<!\d)[,;]|[,;](?!\d)")
"""Commas and semicolons between words. Inside a number they belong to the number."""

_FRAME = re.compile(
    r"\b(((can|could|would|will) you )?(please )?(list|walk me through|summari[sz]e|give me)( me)?"
    r"|(an? |the )?(\w+ )?(summary|overview|recap|list)( of)?|(in )?(the )?(\w+ )?order( in which)?"
    r"|(across|in|from) (all )?(of )?(our|my|the|these) (conversation|chat|discussion|session|message)s?)\b",
    re.IGNORECASE,
)
"""Words that ask for a list or a summary. They are not its topic."""


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed query."""

    text: str
    topic: str
    """The text without the words that ask for a list or a summary."""
    words: tuple[str, ...]
    terms: tuple[Phrase, ...]
    is_asked: bool
    """It is a question, not a few keywords."""
    is_mine: bool
    """It is about the person who asks ("my", "I")."""
    is_yours: bool
    """It is about what the assistant said ("you", "your")."""
    wants_time: bool
    """It asks for a time ("when")."""
    wants_latest: bool
    gathers: bool
    """It asks for what several messages say: a list, a number, an order, a summary."""
    times: tuple[TimeRange, ...] = ()
    """The periods that it names ("last week")."""
    zone: tzinfo | None = None
    """The time zone of the person who asks; None is that of the server."""
    time_terms: frozenset[Phrase] = frozenset()
    """The terms that are part of the name of a period."""
    speakers: tuple[str, ...] = ()
    """Names of authors in small letters: it asks for what one of them said."""
    read_as: Mapping[str, str] = field(default_factory=dict)
    """Words that no passage has, and the words as which they are read. The text and the terms have these."""
    language: Language = field(default=ENGLISH, repr=False)

    @property
    def is_word(self) -> bool:
        """It is a single keyword."""
        return len(self.terms) == 1 and not self.is_asked

    @property
    def is_latin(self) -> bool:
        """Most of its words are in Latin letters or digits, which the model of meaning can read."""
        return 2 * sum(word[0] < "\u0250" for word in self.words) > len(self.words)

    @property
    def phrase(self) -> Phrase | None:
        """All keywords as one phrase, in order; None for a question or a single word."""
        if self.is_asked or not 1 < len(self.words) <= MOST_TERMS:
            return None
        return as_prefix(Phrase(self.words)) if self.has_prefix else Phrase(self.words)

    @property
    def has_prefix(self) -> bool:
        """The last term is the beginning of a word."""
        return bool(self.terms) and self.terms[-1].prefix

    @property
    def any_term(self) -> Query:
        """A query that matches any of the terms, for snippets."""
        return any_of(self.terms)


def any_of(terms: Sequence[Phrase]) -> Query:
    return terms[0] if len(terms) == 1 else AnyOf(tuple(terms))


def parse(text: str, as_of: datetime | None = None, zone: tzinfo | None = None, *, is_typed: bool = False) -> Question:
    """Parse a query into terms and intent. It is asked at `as_of` (default: now) in this time zone. `is_typed`: it is
    still being typed. A blank at its end says that the last word is finished."""
    folded = words(text[:LONGEST_READ])
    known, language = set(folded), _language_of(folded, "?" in text)
    terms = terms_of(f"{text}*" if is_typed and text and not text[-1].isspace() else text, language)
    joined = (term for term in terms if not any(map(_is_ideograph, term.words)))
    # A path or a version counts as one typed word.
    typed = len(folded) - sum(len(term.words) - 1 for term in joined)
    times = dates.find(text[:LONGEST_READ], as_of or now(), zone)
    timed = {word for one in times for word in words(one.text)}
    is_asked = len(folded) > 2 and (
        "?" in text or folded[0] in language.question_words or (len(terms) > 2 and typed > 6)
    )
    gathers = is_asked and not is_typed and bool(GATHERS.search(text[:LONGEST_READ]))
    topic = _FRAME.sub(" ", text[:LONGEST_READ]) if gathers else text
    about = set(terms_of(topic, language)).intersection(terms) if gathers else set[Phrase]()
    return Question(
        text=text,
        topic=topic if about else text,
        words=tuple(folded),
        terms=tuple(term for term in terms if term in about) or terms,
        is_asked=is_asked,
        gathers=gathers,
        is_mine=bool(known & language.first_person),
        is_yours=_is_about_answers(folded, language),
        wants_time=bool(WHEN.search(text[:LONGEST_READ])),
        wants_latest=bool(LATEST.search(text[:LONGEST_READ])),
        times=times,
        zone=zone,
        time_terms=frozenset(term for term in terms if timed.issuperset(term.words)),
        language=language,
    )


def _language_of(folded: Sequence[str], has_mark: bool) -> Language:
    """The language of a query. A single word of another language makes only a question one of that language."""
    if sum(map(_is_ideograph, folded)) > len(folded) / 2:
        return UNKNOWN
    return language_of(folded, 1 if has_mark else 2)


def _is_about_answers(folded: Sequence[str], language: Language) -> bool:
    """Whether a question is about what the assistant said: "what did you suggest", "can you remind me"."""
    if not language.reminders.isdisjoint(folded):
        return not language.second_person.isdisjoint(folded)
    pairs = pairwise(("", *folded))
    return any(word in language.second_person and before not in language.requests for before, word in pairs)


def terms_of(text: str, language: Language | None = None) -> tuple[Phrase, ...]:
    """The words to look for. A word with punctuation (`node.js`) is a phrase of its parts, and one with a star at its
    end (`perf*`) the beginning of words."""
    match plain(_LIST_SEPARATOR.sub(" ", text), with_stars=True):
        case Nothing():
            return ()
        case AllOf(parts):
            typed = tuple(part for part in parts if isinstance(part, Phrase))
        case Phrase() as one:
            typed = (one,)
        case _:
            raise AssertionError("plain words are phrases")
    language = language or _language_of(words(text[:LONGEST_READ]), "?" in text)
    # "Caroline's" means "Caroline", and "l'accès" means "accès".
    stripped: Iterable[Phrase] = dict.fromkeys(
        Phrase(one.words[:-1])
        if len(one.words) == 2 and one.words[1] == "s"
        else _without_elision(one, language.elisions)
        for one in typed
    )
    stop_words = language.stop_words
    meaningful = tuple(phrase for phrase in stripped if phrase.prefix or not stop_words.issuperset(phrase.words))
    split = dict.fromkeys(part for phrase in meaningful or typed for part in _split_ideographs(phrase))
    # A phrase of thousands of words would take the index seconds.
    return tuple(
        term if len(term.words) <= MOST_TERMS else Phrase(term.words[:MOST_TERMS]) for term in tuple(split)[:MOST_TERMS]
    )


def _without_elision(phrase: Phrase, elisions: Container[str]) -> Phrase:
    """A phrase without the short word that an apostrophe joins to its beginning, as in "l'accès"."""
    first = phrase.parts[0].words if phrase.parts else phrase.words
    if len(first) < 2 or first[0] not in elisions:
        return phrase
    parts = (Phrase(first[1:]), *phrase.parts[1:]) if phrase.parts else ()
    return replace(phrase, words=phrase.words[1:], parts=parts)


def _split_ideographs(phrase: Phrase) -> Iterator[Phrase]:
    """Split a sentence written without spaces into pairs of neighbours: few texts repeat the whole sentence."""
    if len(phrase.words) <= LONGEST_NAME or not any(map(_is_ideograph, phrase.words)):
        yield phrase
        return
    for is_ideograph, run in groupby(phrase.words, key=_is_ideograph):
        together = tuple(run)
        if is_ideograph and len(together) > LONGEST_NAME:
            pairs = list(pairwise(together))
            yield from map(Phrase, [pair for pair in pairs if _GRAMMAR.isdisjoint(pair)] or pairs)
        else:
            yield Phrase(together)


def _is_ideograph(word: str) -> bool:
    return len(word) == 1 and not word.isascii()
