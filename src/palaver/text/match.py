"""Where phrases are in a text, and whether a text matches a query.

A text is given as a line: its folded words with a blank before and after each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from palaver.text.query import AllOf, AnyOf, Beginning, Near, Phrase, Preferring, Query, Without
from palaver.text.tokenize import stem, stems, words

KEPT, LONGEST_KEPT = 250, 5_000
"""The texts of which a finder keeps the matches, and their longest, in characters."""


class PhraseMatches(NamedTuple):
    """Matches in a text as (number of the first word, number of the phrase), in order: all, and those as typed."""

    places: list[tuple[int, int]]
    typed: list[tuple[int, int]]


class TextMatches(NamedTuple):
    """The number of words of a text, and the matches in it."""

    size: int
    places: Sequence[tuple[int, int]]
    typed: Sequence[tuple[int, int]]


def line_of(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


class PhraseFinder:
    """Finds phrases by the stems of their words in many texts. A phrase with a prefix at its end is also found as it
    was typed, before all words that begin so."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self._begun_by: defaultdict[str, list[tuple[int, list[str]]]] = defaultdict(list)
        self._typed: list[str] = []
        self._unfinished: list[tuple[int, str]] = []
        firsts = []
        for number, phrase in enumerate(phrases):
            first, *rest = stems(phrase.words)
            self._begun_by[first].append((number, rest))
            self._typed.append(line_of(phrase.words))
            if phrase.prefix or isinstance(phrase.words[-1], Beginning):
                self._unfinished.append((number, f" {' '.join(phrase.words)}"))
                firsts.append(phrase.words[0])
        self._known: dict[str, TextMatches] = {}
        self._firsts = tuple(firsts)
        self._beginnings = _beginnings(self._begun_by, firsts)

    def in_text(self, text: str, line: str | None = None, most: int | None = None) -> TextMatches:
        """The matches in a text; `line` is its line, if it is known. They are kept: what is ranked is shown next."""
        known = self._known.get(text)
        if known is None:
            line = line_of(words(text)) if line is None else line
            is_short = len(text) <= LONGEST_KEPT
            found = self.matches(line, None if is_short else most)
            known = TextMatches(0 if line.isspace() else line.count(" ") - 1, *found)
            if is_short:
                if len(self._known) >= KEPT:
                    self._known.clear()
                self._known[text] = known
        return known

    def matches(self, line: str, most: int | None = None) -> PhraseMatches:
        """Only words that begin like one of the stems are looked at. `most` limits how many of those are, for each
        beginning."""
        begun_by, firsts, find = self._begun_by, self._firsts, line.find
        likely = []
        for beginning in self._beginnings:
            at, left = find(beginning), len(line) if most is None else most
            while at >= 0 and left:
                end = find(" ", at + 1)
                one = stem(line[at + 1 : end])
                if one in begun_by or (firsts and line.startswith(firsts, at + 1)):
                    likely.append((at, end, one))
                    left -= 1
                at = find(beginning, end)
        likely.sort()
        found, typed = [], []
        place = counted = 0
        for at, end, one in likely:
            place, counted = place + line.count(" ", counted, at), at
            here = [
                number
                for number, rest in begun_by.get(one, ())
                if not rest or _next_stems(line, end, len(rest)) == rest
            ]
            for number, begun in self._unfinished:
                if number not in here and line.startswith(begun, at):
                    here.append(number)
            for number in here:
                found.append((place, number))
                if line.startswith(self._typed[number], at):
                    typed.append((place, number))
        return PhraseMatches(found, typed)


@lru_cache(maxsize=4)
def finder_of(phrases: tuple[Phrase, ...]) -> PhraseFinder:
    """The finder of some phrases, with the matches that it keeps."""
    return PhraseFinder(phrases)


def _next_stems(line: str, at: int, count: int) -> list[str]:
    """The stems of the next words after a blank."""
    found: list[str] = []
    while len(found) < count and (end := line.find(" ", at + 1)) >= 0:
        found.append(stem(line[at + 1 : end]))
        at = end
    return found


def _beginnings(wanted: Iterable[str], unfinished: Iterable[str]) -> list[str]:
    """How words with these stems begin. The last letters of a stem may differ (happy/happi, dying/die)."""
    found = {" " + one[: max(2, len(one) - 2)] for one in wanted} | {f" {one}" for one in unfinished}
    found |= {f" {one[0]}y" for one in wanted if one[1:2] == "i" and len(one) < 5}
    return [one for one in found if not any(one != other and one.startswith(other) for other in found)]


def exact_places(phrase: Phrase, line: str) -> Iterator[int]:
    """The number of the first word of each match of a phrase as it was typed."""
    typed = f" {' '.join(phrase.words)}{'' if phrase.prefix else ' '}"
    if phrase.first:
        if line.startswith(typed):
            yield 0
        return
    place = counted = 0
    at = line.find(typed)
    while at >= 0:
        place, counted = place + line.count(" ", counted, at), at
        yield place
        at = line.find(typed, at + 1)


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
    return _is_match(query, line_of(words))


def _is_match(query: Query, line: str) -> bool:
    match query:
        case Phrase():
            return any(True for _ in exact_places(query, line))
        case Near(phrases, distance):
            return _is_near([(list(exact_places(one, line)), len(one.words)) for one in phrases], distance)
        case AllOf(parts):
            return all(_is_match(part, line) for part in parts)
        case AnyOf(parts):
            return any(_is_match(part, line) for part in parts)
        case Without(wanted, unwanted):
            return _is_match(wanted, line) and not _is_match(unwanted, line)
        case Preferring(wanted, _):
            return _is_match(wanted, line)
    return False


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
