"""Find the phrases of a query in a text, and the words around the densest matches."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import takewhile
from operator import attrgetter, contains
from typing import NamedTuple

from palaver.search.word_positions import WordFinder
from palaver.text.query import Phrase, Query, wanted_phrases
from palaver.text.tokenize import LONGEST, plain, stem, stems, stretches, tokens, words

MOST_MATCHES = 5_000
"""Matches of a phrase that are compared to find the best place."""
AT_FIRST = 16_000
"""Characters of a text that are searched before the rest is."""

Place = tuple[int, int]
"""Where a word begins and ends in the text."""
_ASCII_WORD = re.compile(f"[A-Za-z0-9]{{1,{LONGEST}}}")


class Match(NamedTuple):
    """A match of a phrase, given by its number: words `first` to `last`, without `last`."""

    first: int
    last: int
    phrase: int


class _Piece(NamedTuple):
    """A piece of a text, its place, and the number of words before it. `folded` is None unless it is ASCII."""

    text: str
    offset: int
    counted: int
    folded: bytes | None

    def places(self, first: int, last: int) -> list[Place]:
        """The places of words `first` to `last`, if they are in this piece. Words are counted in the whole text."""
        offset, first, last = self.offset, max(first - self.counted, 0), last - self.counted
        if self.folded is None:
            return [(start + offset, end + offset) for _, start, end in tokens(self.text, first, last)]
        spans = [found.span() for found in _ASCII_WORD.finditer(self.text, *_within(self.folded, first, last))]
        return [(start + offset, end + offset) for start, end in spans] if offset else spans

    def place(self, first: int, last: int) -> Place | None:
        """From the beginning of the first word to the end of the last."""
        if self.folded is None:
            places = self.places(first, last)
            return (places[0][0], places[-1][1]) if places else None
        start, end = _within(self.folded, max(first - self.counted, 0), last - self.counted)
        return (start + self.offset, end + self.offset) if end > start else None


def end_before(words: bytes, rest: bytes) -> int:
    """Where the last word before the rest ends."""
    return len(words[: len(words) - len(rest)].rstrip())


def _within(folded: bytes, first: int, last: int) -> Place:
    """The place of words `first` to `last` in a text with blanks between words."""
    rest = (folded.split(None, first) or [b""])[-1] if first else folded.lstrip()
    shown = rest.split(None, last - first)
    start = len(folded) - len(rest)
    return start, start + (end_before(rest, shown[-1]) if len(shown) > last - first else len(rest.rstrip()))


@dataclass(slots=True)  # not frozen, like the next one: that would take four times as long to create
class _WordList:
    """The words of a text, or of its beginning, and the pieces they come from, to find their places."""

    words: list[str]
    pieces: list[_Piece]
    is_partial: bool = False

    def places(self, first: int, last: int) -> list[Place]:
        """The places of words `first` to `last`. Computing all places would take longer than finding words."""
        pieces = self._pieces(first, last)
        return (
            pieces[0].places(first, last)
            if len(pieces) == 1
            else [p for one in pieces for p in one.places(first, last)]
        )

    def place(self, first: int, last: int) -> Place | None:
        """From the beginning of word `first` to the end of word `last`."""
        shown = [place for piece in self._pieces(first, last) if (place := piece.place(first, last))]
        return (shown[0][0], shown[-1][1]) if shown else None

    def _pieces(self, first: int, last: int) -> list[_Piece]:
        """The pieces that have these words."""
        if len(self.pieces) == 1:
            return self.pieces
        number = max(0, bisect_right(self.pieces, first, key=attrgetter("counted")) - 1)
        return list(takewhile(lambda piece: piece.counted < last, self.pieces[number:]))


@dataclass(slots=True)
class View:
    """The words to show, the matches among them, and the densest of these."""

    reading: _WordList
    first: int
    last: int
    matches: Sequence[Match]
    best: Sequence[Match]

    @property
    def place(self) -> Place | None:
        """Where the densest matches are, from the first to the last of them."""
        if not self.best:
            return None
        return self.reading.place(self.best[0].first, max(match.last for match in self.best))

    def finder(self) -> Callable[[int, int], Place]:
        """A function that gives the place of some of the words to show."""
        pieces, first = self.reading.pieces, self.first
        if len(pieces) == 1 and pieces[0].folded is not None:
            return partial(_within, pieces[0].folded)
        shown = self.reading.places(first, self.last)
        return lambda begin, end: (shown[begin - first][0], shown[end - 1 - first][1])


class Phrases:
    """The phrases of a query, to find in many texts. As many as possible are shown within `length` words."""

    def __init__(self, phrases: tuple[Phrase, ...], length: int, stemmed: bool) -> None:
        self.phrases, self.length, self._stemmed = phrases, length, stemmed
        self._shown = [phrase.words[:length] for phrase in phrases]
        self._has_prefix = any(phrase.prefix for phrase in phrases)
        self._finder = WordFinder(self._shown)
        self._begun_by: defaultdict[str, list[int]] = defaultdict(list)
        for number, phrase in enumerate(phrases):
            self._begun_by[phrase.words[0]].append(number)

    def matches(self, found: Sequence[str]) -> list[Match]:
        """All matches in order. Of a phrase longer than `length`, the beginning is enough."""
        matches = self._matches(found)
        if any(phrase.first for phrase in self.phrases):
            matches = [one for one in matches if not one.first or not self.phrases[one.phrase].first]
        return matches

    def _matches(self, found: Sequence[str]) -> list[Match]:
        if self._has_prefix:
            return self._matches_of_forms(found)
        if self._stemmed:
            places = self._finder.places(found, MOST_MATCHES)
            return [Match(place, place + len(self._shown[number]), number) for place, number in places]
        matches = []
        for word, numbers in self._begun_by.items():
            place = -1
            for _ in range(min(found.count(word), MOST_MATCHES)):
                place = found.index(word, place + 1)
                for number in numbers:
                    wanted = self._shown[number]
                    if len(wanted) == 1 or tuple(found[place : place + len(wanted)]) == wanted:
                        matches.append(Match(place, place + len(wanted), number))
        return sorted(matches, key=lambda match: (match.first, match.phrase)) if len(matches) > 1 else matches

    def _matches_of_forms(self, found: Sequence[str]) -> list[Match]:
        forms = [some[: self.length] for some in _forms(set(found), self.phrases, self._stemmed)]
        begun_by: defaultdict[str, list[int]] = defaultdict(list)
        for phrase, (beginnings, *_) in enumerate(forms):
            for word in beginnings:
                begun_by[word].append(phrase)
        matches = []
        for place, word in enumerate(found):
            if word in begun_by:
                for phrase in begun_by[word]:
                    last = place + len(forms[phrase])
                    window = found[place:last]
                    if len(window) == last - place and all(map(contains, forms[phrase], window)):
                        matches.append(Match(place, last, phrase))
            if len(matches) > MOST_MATCHES * len(forms):
                break
        return matches


@lru_cache(maxsize=256)
def phrases_of(query: Query, length: int, stemmed: bool) -> Phrases:
    return Phrases(wanted_phrases(query), length, stemmed)


def best_view(text: str, wanted: Phrases) -> View:
    """The words to show of a text: as many phrases as possible, with words around them."""
    length = wanted.length
    # In most texts all phrases are near the beginning.
    for limit in (AT_FIRST, len(text)):
        reading = _read(text, limit)
        matches = wanted.matches(reading.words)
        best = _densest(matches, length)
        start = best[0].first if best else 0
        if not reading.is_partial:
            break
        if len({match.phrase for match in best}) == len(wanted.phrases) and start + length <= len(reading.words):
            break
    spare = length - (max([match.last for match in best]) - start) if best else 0
    first = max(0, min(start - spare // 2, len(reading.words) - length))
    last = min(first + length, len(reading.words))
    return View(reading, first, last, [match for match in matches if match.first < last and match.last > first], best)


def _read(text: str, limit: int) -> _WordList:
    """The words of a text, up to `limit`. Text that is not ASCII is read in small pieces: places are found faster."""
    size = AT_FIRST if text.isascii() else 300
    if len(text) <= max(1_000, size):
        folded = plain(text)
        return _WordList(words(text) if folded is None else folded.decode().split(), [_Piece(text, 0, 0, folded)])
    found: list[str] = []
    pieces: list[_Piece] = []
    for offset, piece in stretches(text, size):
        if offset >= limit:
            return _WordList(found, pieces, is_partial=True)
        pieces.append(_Piece(piece, offset, len(found), plain(piece)))
        found.extend(words(piece))
    return _WordList(found, pieces)


def _forms(
    vocabulary: AbstractSet[str], phrases: tuple[Phrase, ...], stemmed: bool
) -> Iterator[list[AbstractSet[str]]]:
    """For each word of each phrase, the words of the text that match."""
    ordered = sorted(vocabulary) if any(phrase.prefix for phrase in phrases) else []
    by_stem: dict[str, set[str]] = {}
    if stemmed:
        by_stem = {one: set() for phrase in phrases for one in stems(phrase.words)}
        for word, one in zip(vocabulary, stems(vocabulary), strict=True):
            if one in by_stem:
                by_stem[one].add(word)
    for phrase in phrases:
        forms = [by_stem[stem(word)] if stemmed else vocabulary & {word} for word in phrase.words]
        if phrase.prefix:
            prefix = phrase.words[-1]
            # No word contains the last code point.
            forms[-1] = forms[-1] | {
                *ordered[bisect_left(ordered, prefix) : bisect_left(ordered, prefix + "\U0010ffff")]
            }
        yield forms


def _densest(matches: Sequence[Match], length: int) -> Sequence[Match]:
    """The matches within `length` words that have the most different phrases; the earliest such."""
    if len(matches) <= 1 or max([match.last for match in matches]) <= matches[0].first + length:
        return matches
    by_end = sorted(matches, key=lambda match: match.last)
    inside: Counter[int] = Counter()
    entered = left = most = start = 0
    while left < len(matches):
        first = matches[left].first
        while entered < len(matches) and by_end[entered].last <= first + length:
            inside[by_end[entered].phrase] += 1
            entered += 1
        if len(inside) > most:
            most, start = len(inside), first
        while left < len(matches) and matches[left].first == first:
            phrase = matches[left].phrase
            inside[phrase] -= 1
            if not inside[phrase]:
                del inside[phrase]
            left += 1
    return [match for match in matches if match.first >= start and match.last <= start + length]
