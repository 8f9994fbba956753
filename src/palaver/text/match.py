"""Match a text against a query expression, for engines that only find candidates."""

from __future__ import annotations

from collections.abc import Sequence

from palaver.text.query import AllOf, AnyOf, Near, Nothing, Phrase, Preferring, Query, Without


def needs_text(query: Query) -> bool:
    """Only the text tells whether the query matches: it has a NEAR, or a phrase that the text must begin with."""
    match query:
        case Near():
            return True
        case Phrase():
            return query.first
        case AllOf(parts) | AnyOf(parts):
            return any(needs_text(part) for part in parts)
        case Without(wanted, unwanted):
            return needs_text(wanted) or needs_text(unwanted)
        case Preferring(wanted, _):
            return needs_text(wanted)
    return False


def is_match(query: Query, words: Sequence[str]) -> bool:
    """`words` are the folded words of the text."""
    match query:
        case Phrase():
            return bool(_starts(query, words))
        case Near(phrases, distance):
            return _is_near([(_starts(phrase, words), len(phrase.words)) for phrase in phrases], distance)
        case AllOf(parts):
            return all(is_match(part, words) for part in parts)
        case AnyOf(parts):
            return any(is_match(part, words) for part in parts)
        case Without(wanted, unwanted):
            return is_match(wanted, words) and not is_match(unwanted, words)
        case Preferring(wanted, _):
            return is_match(wanted, words)
        case Nothing():
            pass
    return False


def _starts(phrase: Phrase, words: Sequence[str]) -> list[int]:
    """The positions where the phrase begins."""
    *whole, last = phrase.words
    size = len(phrase.words)
    places = len(words) - size + 1
    return [
        at
        for at in range(min(places, 1) if phrase.first else places)
        if (words[at + size - 1].startswith(last) if phrase.prefix else words[at + size - 1] == last)
        and list(words[at : at + size - 1]) == whole
    ]


def _is_near(places: list[tuple[list[int], int]], distance: int) -> bool:
    """Whether each phrase has a position with at most `distance` words from the first end to the last start.

    The phrase that ends first moves on until they are close enough or it has nowhere left to go.
    """
    at = [0] * len(places)
    if not all(starts for starts, _ in places):
        return False
    while True:
        chosen = [starts[n] for (starts, _), n in zip(places, at, strict=True)]
        ends = [start + size for start, (_, size) in zip(chosen, places, strict=True)]
        if max(chosen) - min(ends) <= distance:
            return True
        first = ends.index(min(ends))
        at[first] += 1
        if at[first] == len(places[first][0]):
            return False
