"""What a question asks for: its meaningful words.

People and agents ask whole sentences. The words every sentence has say nothing about what is wanted, so they are left
out, unless there are no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from palaver.text.query import AllOf, Nothing, Phrase, plain

MOST_TERMS = 64
LONGEST_NAME = 4
"""Characters that are words of their own, as in Chinese: more of them in a row are not one name any more."""

_LISTED = re.compile(r"(?<!\d)[,;]|[,;](?!\d)")
"""What stands between the words of a list; in a number it belongs to it."""

_COMMON = """
    a about after again all also am an and any are aren as at be because been before being between both but by can
    cannot could couldn d did didn do does doesn doing don down during each few for from further get give had hadn has
    hasn have haven having he her here hers him his how i if in into is isn it its just know let like ll m may me
    might more most must my no nor not now of off on once only or other our out over own please re s same shall she
    should shouldn show so some such t tell than that the their theirs them then there these they this those through
    to too under until up upon us ve very was wasn we were weren what when where which while who whom whose why will
    with won would wouldn you your yours
"""

STOP_WORDS = frozenset(_COMMON.split())


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
    meaningful = tuple(phrase for phrase in typed if not STOP_WORDS.issuperset(phrase.words))
    spread = dict.fromkeys(part for phrase in meaningful or typed for part in _spread(phrase))
    return tuple(spread)[:MOST_TERMS]


def _spread(phrase: Phrase) -> Iterator[Phrase]:
    """Of a sentence written without blanks, each two neighbours: no text that answers it has all of it in one piece."""
    if len(phrase.words) <= LONGEST_NAME or not any(map(_is_alone, phrase.words)):
        yield phrase
        return
    for is_alone, run in groupby(phrase.words, key=_is_alone):
        words = tuple(run)
        if is_alone and len(words) > LONGEST_NAME:
            yield from map(Phrase, pairwise(words))
        else:
            yield Phrase(words)


def _is_alone(word: str) -> bool:
    return len(word) == 1 and not word.isascii()
