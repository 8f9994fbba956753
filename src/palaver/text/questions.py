"""What a question asks for: its meaningful words.

People and agents ask whole sentences. The words every sentence has say nothing about what is wanted, so they are left
out, unless there are no others.
"""

from __future__ import annotations

from palaver.text.query import AllOf, Nothing, Phrase, plain

MOST_TERMS = 64

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
    match plain(text):
        case Nothing():
            return ()
        case AllOf(parts):
            typed = tuple(part for part in parts if isinstance(part, Phrase))
        case Phrase() as one:
            typed = (one,)
        case _:
            raise AssertionError("plain words are phrases")
    meaningful = tuple(phrase for phrase in typed if not STOP_WORDS.issuperset(phrase.words))
    return (meaningful or typed)[:MOST_TERMS]
