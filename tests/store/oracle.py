"""What an expression means, in the plainest Python: the judge of both engines."""

from __future__ import annotations

from itertools import product

from palaver.text.query import AllOf, AnyOf, Near, Nothing, Phrase, Query, Without
from palaver.text.tokenize import words


def matches(query: Query, text: str) -> bool:
    return _matches(query, words(text))


def _matches(query: Query, said: list[str]) -> bool:
    match query:
        case Phrase():
            return bool(_starts(query, said))
        case Near(phrases, distance):
            # Any order; between the end of each and the beginning of the last there are at most `distance` words.
            return any(
                max(chosen) - (start + len(phrase.words)) <= distance
                for chosen in product(*(_starts(phrase, said) for phrase in phrases))
                for start, phrase in [
                    min(zip(chosen, phrases, strict=True), key=lambda pair: pair[0] + len(pair[1].words))
                ]
            )
        case AllOf(parts):
            return all(_matches(part, said) for part in parts)
        case AnyOf(parts):
            return any(_matches(part, said) for part in parts)
        case Without(wanted, unwanted):
            return _matches(wanted, said) and not _matches(unwanted, said)
        case Nothing():
            pass
    return False


def _starts(phrase: Phrase, said: list[str]) -> list[int]:
    """The places where the phrase begins."""
    *whole, last = phrase.words
    size = len(phrase.words)
    return [
        at
        for at in range(len(said) - size + 1)[: 1 if phrase.first else None]
        if said[at : at + size - 1] == whole
        and (said[at + size - 1].startswith(last) if phrase.prefix else said[at + size - 1] == last)
    ]
