"""What a question asks for: its meaningful words, and what its other words give away.

People and agents ask whole sentences. The words every sentence has say nothing about what is wanted, so they are left
out, unless there are no others. But they tell who is meant ("I", "you"), and whether a time is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from palaver.text.query import AllOf, Nothing, Phrase, plain
from palaver.text.tokenize import words

MOST_TERMS = 64
LONGEST_NAME = 4
"""Characters that are words of their own, as in Chinese: more of them in a row are not one name any more."""

_LISTED = re.compile(r"(?<!\d)[,;]|[,;](?!\d)")
"""What stands between the words of a list; in a number it belongs to it."""

_COMMON = """
    a about after again all also am an and any are aren as at be because been before being between both but by can
    cannot could couldn d did didn do does doesn doing don down during each ever few for from further get gets getting
    give got had hadn has hasn have haven having he her here hers him his how i if in into is isn it its just know let
    like ll m many may me mention mentioned might more most much must my no nor not now of off on once only or other our
    out over own please re remember remind s same shall she should shouldn show so some such t tell than that the their
    theirs them then there these they this those through to too under until up upon us ve very was wasn we were weren
    what when where which while who whom whose why will with won would wouldn you your yours
"""

STOP_WORDS = frozenset(_COMMON.split())

_ASKING = frozenset(words("what when where which who whom whose why how did do does is are was were can could will"))
_MINE = frozenset({"i", "me", "my", "mine", "myself"})
_YOURS = frozenset({"you", "your", "yours"})
_WHEN = re.compile(
    r"\b(when|date|how long|how (many|much) (days?|weeks?|months?|years?|time)"
    r"|(what|which) (time|day|month|year|week))\b",
    re.IGNORECASE,
)
_LATEST = re.compile(r"\b(latest|newest|current|currently|most recent|now|these days|so far)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Question:
    """What was typed, taken apart."""

    text: str
    words: tuple[str, ...]
    terms: tuple[Phrase, ...]
    is_asked: bool
    """It is a question, not a few keywords."""
    is_mine: bool
    """It is about the one who asks."""
    is_yours: bool
    """It is about what the other side said."""
    wants_time: bool
    wants_latest: bool

    @property
    def is_word(self) -> bool:
        """It is one word, meant as it is; several say of what."""
        return len(self.terms) == 1 and not self.is_asked

    @property
    def phrase(self) -> Phrase | None:
        """Of a few keywords, all of them as they were typed: side by side and in order."""
        return Phrase(self.words) if 1 < len(self.words) <= MOST_TERMS and not self.is_asked else None


def taken_apart(text: str) -> Question:
    folded = words(text[:5_000])
    known = set(folded)
    terms_ = terms(text)
    return Question(
        text=text,
        words=tuple(folded),
        terms=terms_,
        is_asked=len(folded) > 2
        and ("?" in text or folded[0] in _ASKING or (len(terms_) > 2 and _typed(folded, terms_) > 6)),
        is_mine=bool(known & _MINE),
        is_yours=bool(known & _YOURS),
        wants_time=bool(_WHEN.search(text[:5_000])),
        wants_latest=bool(_LATEST.search(text[:5_000])),
    )


def _typed(folded: Sequence[str], terms: Iterable[Phrase]) -> int:
    """How many words were typed: a path or a version is one."""
    joined = (term for term in terms if not any(map(_is_alone, term.words)))
    return len(folded) - sum(len(term.words) - 1 for term in joined)


def terms(text: str) -> tuple[Phrase, ...]:
    """The words to look for, as they were typed. One with punctuation (`node.js`) is a phrase of its parts."""
    match plain(_LISTED.sub(" ", text)):
        case Nothing():
            return ()
        case AllOf(parts):
            typed = tuple(part for part in parts if isinstance(part, Phrase))
        case Phrase() as one:
            typed = (one,)
        case _:
            raise AssertionError("plain words are phrases")
    bare = dict.fromkeys(map(_without_ending, typed))
    meaningful = tuple(phrase for phrase in bare if not STOP_WORDS.issuperset(phrase.words))
    spread = dict.fromkeys(part for phrase in meaningful or typed for part in _spread(phrase))
    return tuple(spread)[:MOST_TERMS]


def _spread(phrase: Phrase) -> Iterator[Phrase]:
    """Of a sentence written without blanks, each two neighbours: no text that answers it has all of it in one piece."""
    if len(phrase.words) <= LONGEST_NAME or not any(map(_is_alone, phrase.words)):
        yield phrase
        return
    for is_alone, run in groupby(phrase.words, key=_is_alone):
        together = tuple(run)
        if is_alone and len(together) > LONGEST_NAME:
            yield from map(Phrase, pairwise(together))
        else:
            yield Phrase(together)


def _is_alone(word: str) -> bool:
    return len(word) == 1 and not word.isascii()


def _without_ending(phrase: Phrase) -> Phrase:
    """Caroline's is Caroline."""
    return Phrase(phrase.words[:-1]) if len(phrase.words) == 2 and phrase.words[1] == "s" else phrase
