"""Snippets: the only place that cuts text around a match and marks matched words.

`excerpts` cuts by words and marks the matches, `passage_snippet` cuts by characters, `cut_around` cuts to a budget.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape as html_escape
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple
from unicodedata import category

from palaver.search.word_positions import WordFinder
from palaver.text.query import Phrase, Query, wanted_phrases
from palaver.text.tokenize import (
    LONGEST,
    plain,
    stem,
    stems,
    stretches,
    tokens,
    words,
)

CUT = "…"
LONGEST_EXCERPT = 600
"""Characters. Between two words there can be pages of punctuation."""
MOST_MATCHES = 5_000
"""Matches of a phrase that are compared to find the best place."""
AT_FIRST = 16_000
"""Characters of a text that are searched before the rest is."""


_ASCII_WORD = re.compile(f"[A-Za-z0-9]{{1,{LONGEST}}}")
_Place = tuple[int, int]
"""Where a word begins and ends in the text."""

BEGIN, END = "\ue000", "\ue001"
"""Marks around each match, replaced when the excerpt is shown. They are private characters, which texts do not use."""
_OWN_MARKS = str.maketrans("", "", BEGIN + END)


def as_text(marked: str) -> str:
    """An excerpt as text, with <mark> around the matches."""
    return marked.replace(BEGIN, "<mark>").replace(END, "</mark>")


def as_html(marked: str) -> str:
    """An excerpt as HTML: everything but the <mark> tags is escaped."""
    return as_text(html_escape(marked))


def excerpt(text: str, query: Query, *, length: int = 20, stemmed: bool = False) -> str:
    """Up to `length` words around the matches, each match between BEGIN and END."""
    return excerpts(query, length=length, stemmed=stemmed)(text)


def excerpts(query: Query, *, length: int = 20, stemmed: bool = False) -> Callable[[str], str]:
    """A function that cuts an excerpt from a text, for many texts and one query."""
    wanted = _wanted(query, max(length, 1), stemmed)
    only = wanted.phrases[0] if len(wanted.phrases) == 1 and not stemmed else None
    if only and (len(only.words) > length or _may_overlap_itself(only)):
        only = None

    def excerpt(text: str) -> str:
        if only and (cut := _around_one(text, only, length)):
            return _marked(text, *cut)
        return _general_excerpt(text, wanted)

    return excerpt


def _general_excerpt(text: str, wanted: _Phrases) -> str:
    view = _best_view(text, wanted)
    where = view.finder()
    start = where(view.first, view.last)[0] if view.first > 0 else 0
    is_cut = view.last < len(view.reading.words) or view.reading.is_partial
    end = where(view.last - 1, view.last)[1] if is_cut else len(text)
    marks = list(_marks(view, where))
    if end - start > LONGEST_EXCERPT:
        start, end = _around(marks[0] if marks else (start, start), text, start, end)
    return _marked(text, start, end, marks)


def _around_one(text: str, phrase: Phrase, length: int) -> tuple[int, int, list[_Place]] | None:
    """An excerpt around one phrase in a plain ASCII text, the most common case. Only words around it are read.

    It works on lower-case bytes with a blank for everything that is not a letter or digit, and one more blank before
    them, so places are one higher than in the text.
    """
    pattern = _pattern(phrase)
    folded = plain(text)
    found = pattern.search(line := b" " + folded + b" ") if folded is not None else None
    if found is None:
        return None
    place = found.start()
    head, tail = line[: place + 1], line[place + 1 :]
    after = tail.split(None, length)  # `length` words, and the rest
    last = place + (_end_before(tail, after[-1]) if len(after) > length else len(tail.rstrip()))
    marks = []
    best = place
    for match in pattern.finditer(line, place):
        if match.start() >= last:
            break
        marks.append((match.start(), match.end() - 1))
        best = match.end() if match.end() <= last + 1 else best  # a match that ends later is marked in part
    best = len(line[place:best].split())
    left = max((length - best) // 2, length - len(after))
    before = head.rsplit(None, left)
    start, end = 0, len(text)
    if len(before) > left:
        start = head.index(before[1], len(before[0])) - 1 if left else place
    shown = length - min(left, len(before))
    if shown < len(after):
        end = place + _end_before(tail, tail.split(None, shown)[-1])
    if end - start > LONGEST_EXCERPT:
        start, end = _around(marks[0], text, start, end)
    return start, end, marks


def _end_before(words: bytes, rest: bytes) -> int:
    """Where the last word before the rest ends."""
    return len(words[: len(words) - len(rest)].rstrip())


@lru_cache(maxsize=256)
def _pattern(phrase: Phrase) -> re.Pattern[bytes]:
    """A pattern for the phrase with a blank before it."""
    return re.compile(
        b" " + b" +".join(word.encode() for word in phrase.words) + (b"[^ ]*" if phrase.prefix else b"(?= )")
    )


def _may_overlap_itself(phrase: Phrase) -> bool:
    """Whether matches of the phrase can overlap. Then they must be merged, which `_general_excerpt` does."""
    first, *others = phrase.words
    return first in others or (phrase.prefix and bool(others) and first.startswith(others[-1]))


def passage_snippet(text: str, query: Query, *, length: int = 300, stemmed: bool = False) -> str:
    """At most `length` characters around the matches, on one line, without marks."""
    # Close matches are shown together: a word and its space take about eight characters.
    view = _best_view(text, _wanted(query, max(length // 8, 1), stemmed))
    return _cut_around(text, _place_of(view) or (0, 0), length)


def snippet_and_place(text: str, query: Query, *, length: int = 300) -> tuple[str, _Place | None]:
    """A snippet of at most `length` characters around the matches of stemmed words, and the place of those matches."""
    place = _place_of(_best_view(text, _wanted(query, max(length // 8, 1), stemmed=True)))
    return _cut_around(text, place or (0, 0), length), place


def _cut_around(text: str, place: _Place, length: int) -> str:
    start, end = place
    # White space shrinks, so take more than can be shown, but not the whole text.
    left, right = max(0, start - 4 * length), min(len(text), start + 4 * length)
    before, after = _on_one_line(text[left:start]), _on_one_line(text[start:right])
    before = before if left else before.lstrip()
    line, anchor = before + (after if right < len(text) else after.rstrip()), len(before)
    focus = min(len(_on_one_line(text[start:end])), max(length - 2 * len(CUT), 0))

    begin = max(0, min(anchor - (length - focus) // 2, len(line) - length))
    stop = min(len(line), begin + length)
    is_cut_before, is_cut_after = left + begin > 0, right < len(text) or stop < len(line)
    if is_cut_before:
        begin = _word_start(line, begin + len(CUT), anchor)
    if is_cut_after:
        stop = _word_end(line, stop - len(CUT), anchor + focus)
    snippet = CUT * is_cut_before + line[begin:stop].strip() + CUT * is_cut_after
    return snippet[:length]


def beginning(text: str, *, length: int = 300) -> str:
    """At most `length` characters of the beginning of a text, on one line."""
    line = _on_one_line(text[: 4 * length]).strip()
    if len(line) <= length and len(text) <= 4 * length:
        return line
    return line[: _word_end(line, length - len(CUT), 0)].rstrip() + CUT


class _Match(NamedTuple):
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

    def places(self, first: int, last: int) -> list[_Place]:
        """The places of words `first` to `last`, if they are in this piece. Words are counted in the whole text."""
        offset, first, last = self.offset, max(first - self.counted, 0), last - self.counted
        if self.folded is None:
            return [(start + offset, end + offset) for _, start, end in tokens(self.text, first, last)]
        spans = [found.span() for found in _ASCII_WORD.finditer(self.text, *_within(self.folded, first, last))]
        return [(start + offset, end + offset) for start, end in spans] if offset else spans

    def place(self, first: int, last: int) -> _Place | None:
        """From the beginning of the first word to the end of the last."""
        if self.folded is None:
            places = self.places(first, last)
            return (places[0][0], places[-1][1]) if places else None
        start, end = _within(self.folded, max(first - self.counted, 0), last - self.counted)
        return (start + self.offset, end + self.offset) if end > start else None


def _within(folded: bytes, first: int, last: int) -> _Place:
    """The place of words `first` to `last` in a text with blanks between words."""
    rest = (folded.split(None, first) or [b""])[-1] if first else folded.lstrip()
    shown = rest.split(None, last - first)
    start = len(folded) - len(rest)
    return start, start + (_end_before(rest, shown[-1]) if len(shown) > last - first else len(rest.rstrip()))


@dataclass(slots=True)  # not frozen, like the next one: that would take four times as long to create
class _WordList:
    """The words of a text, or of its beginning, and the pieces they come from, to find their places."""

    words: list[str]
    pieces: list[_Piece]
    is_partial: bool = False

    def places(self, first: int, last: int) -> list[_Place]:
        """The places of words `first` to `last`. Computing all places would take longer than finding words."""
        pieces = self._pieces(first, last)
        return (
            pieces[0].places(first, last)
            if len(pieces) == 1
            else [p for one in pieces for p in one.places(first, last)]
        )

    def place(self, first: int, last: int) -> _Place | None:
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
class _View:
    """The words to show, the matches among them, and the densest of these."""

    reading: _WordList
    first: int
    last: int
    matches: Sequence[_Match]
    best: Sequence[_Match]

    def finder(self) -> Callable[[int, int], _Place]:
        """A function that gives the place of some of the words to show."""
        pieces, first = self.reading.pieces, self.first
        if len(pieces) == 1 and pieces[0].folded is not None:
            return partial(_within, pieces[0].folded)
        shown = self.reading.places(first, self.last)
        return lambda begin, end: (shown[begin - first][0], shown[end - 1 - first][1])


class _Phrases:
    """The phrases of a query, to find in many texts. As many as possible are shown within `length` words."""

    def __init__(self, phrases: tuple[Phrase, ...], length: int, stemmed: bool) -> None:
        self.phrases, self.length, self._stemmed = phrases, length, stemmed
        self._shown = [phrase.words[:length] for phrase in phrases]
        self._has_prefix = any(phrase.prefix for phrase in phrases)
        self._finder = WordFinder(self._shown)
        self._begun_by: defaultdict[str, list[int]] = defaultdict(list)
        for number, phrase in enumerate(phrases):
            self._begun_by[phrase.words[0]].append(number)

    def matches(self, found: Sequence[str]) -> list[_Match]:
        """All matches in order. Of a phrase longer than `length`, the beginning is enough."""
        if self._has_prefix:
            return self._matches_of_forms(found)
        if self._stemmed:
            places = self._finder.places(found, MOST_MATCHES)
            return [_Match(place, place + len(self._shown[number]), number) for place, number in places]
        matches = []
        for word, numbers in self._begun_by.items():
            place = -1
            for _ in range(min(found.count(word), MOST_MATCHES)):
                place = found.index(word, place + 1)
                for number in numbers:
                    wanted = self._shown[number]
                    if len(wanted) == 1 or tuple(found[place : place + len(wanted)]) == wanted:
                        matches.append(_Match(place, place + len(wanted), number))
        return sorted(matches, key=_in_order) if len(matches) > 1 else matches

    def _matches_of_forms(self, found: Sequence[str]) -> list[_Match]:
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
                    if last - place == 1 or _follows(found, place, forms[phrase]):
                        matches.append(_Match(place, last, phrase))
            if len(matches) > MOST_MATCHES * len(forms):
                break
        return matches


@lru_cache(maxsize=256)
def _wanted(query: Query, length: int, stemmed: bool) -> _Phrases:
    return _Phrases(wanted_phrases(query), length, stemmed)


def _in_order(match: _Match) -> tuple[int, int]:
    return match.first, match.phrase


def _best_view(text: str, wanted: _Phrases) -> _View:
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
    return _View(reading, first, last, [match for match in matches if match.first < last and match.last > first], best)


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
            forms[-1] = {*ordered[bisect_left(ordered, prefix) : bisect_left(ordered, prefix + "\U0010ffff")]}
        yield forms


def _follows(found: Sequence[str], place: int, forms: Sequence[AbstractSet[str]]) -> bool:
    window = found[place : place + len(forms)]
    return len(window) == len(forms) and all(word in form for word, form in zip(window, forms, strict=True))


def _densest(matches: Sequence[_Match], length: int) -> Sequence[_Match]:
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


def _marks(view: _View, where: Callable[[int, int], _Place]) -> Iterator[tuple[int, int]]:
    """The places of the matches in the text; overlapping ones are merged."""
    held: tuple[int, int] | None = None
    for match in view.matches:
        start, end = where(max(match.first, view.first), min(match.last, view.last))
        if held and start < held[1]:
            held = held[0], max(held[1], end)
        else:
            if held:
                yield held
            held = start, end
    if held:
        yield held


def _around(mark: tuple[int, int], text: str, start: int, end: int) -> tuple[int, int]:
    """A part of text[start:end] around the mark that is short enough."""
    spare = max(0, LONGEST_EXCERPT - (mark[1] - mark[0]))
    begin = max(start, min(mark[0] - spare // 2, end - LONGEST_EXCERPT))
    return _whole_after(text, begin), _whole_before(text, begin + LONGEST_EXCERPT)


def _marked(text: str, start: int, end: int, marks: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []  # text between matches and matches, in turn
    done = start
    for mark_start, mark_end in marks:
        if mark_end > start and mark_start < end:
            mark_start, mark_end = max(mark_start, start), min(mark_end, end)
            pieces += text[done:mark_start], text[mark_start:mark_end]
            done = mark_end
    pieces.append(text[done:end])
    if not text.isascii() and (BEGIN in text or END in text):
        pieces = [piece.translate(_OWN_MARKS) for piece in pieces]
    shown = "".join([f"{plain}{BEGIN}{match}{END}" for plain, match in zip(pieces[::2], pieces[1::2], strict=False)])
    return f"{CUT if start > 0 else ''}{shown}{pieces[-1]}{CUT if end < len(text) else ''}"


def _on_one_line(text: str) -> str:
    """The text with one blank for each run of white space."""
    line = " ".join(text.split())
    before, after = text[:1].isspace(), text[-1:].isspace()
    return f"{' ' * before}{line}{' ' * after}" if line else " " * before


def _word_start(line: str, place: int, latest: int) -> int:
    """Where the next word begins, if it is near; else the next whole character."""
    space = line.find(" ", place - 1, min(place + 20, latest))
    return space + 1 if space >= 0 else _whole_after(line, place)


def _word_end(line: str, place: int, earliest: int) -> int:
    """Where the word before ends, if it is near; else the last whole character."""
    space = line.rfind(" ", max(place - 20, earliest), place + 1)
    return space if space >= 0 else _whole_before(line, place)


def _whole_after(text: str, place: int) -> int:
    for _ in range(8):
        if _is_inside(text, place):
            place += 1
    return place


def _whole_before(text: str, place: int) -> int:
    for _ in range(8):
        if _is_inside(text, place):
            place -= 1
    return place


def _is_inside(text: str, place: int) -> bool:
    """Whether a cut here would split a visible character: an accent, a joined emoji, a skin tone."""
    if not 0 < place < len(text) or text[place].isascii():
        return False
    return category(text[place]) in ("Mn", "Mc", "Me", "Sk") or "\u200d" in text[place - 1 : place + 1]


def match_place(text: str, query: Query, *, stemmed: bool = True) -> _Place | None:
    """The place of the densest matches in a text: from the first to the last of them."""
    return _place_of(_best_view(text, _wanted(query, 40, stemmed)))


def _place_of(view: _View) -> _Place | None:
    """Where the best matches stand, from the first to the last of them."""
    if not view.best:
        return None
    return view.reading.place(view.best[0].first, max(match.last for match in view.best))


def highlights(snippet: str, terms: Sequence[Phrase]) -> list[tuple[int, int]]:
    """Where the words of the terms, in any form, begin and end in a snippet."""
    wanted = {stem(word) for term in terms for word in term.words}
    return [(token.start, token.end) for token in tokens(snippet) if stem(token.word) in wanted]


def cut_around(text: str, budget: int, place: tuple[int, int] | None) -> str:
    """At most `budget` characters of a text around a place, cut between words if possible."""
    if len(text) <= budget:
        return text
    if budget <= 0:
        return ""
    start, end = place or (0, 0)
    begin = min(max(0, start - max(0, budget - (end - start)) // 3), len(text) - budget)
    stop = begin + budget
    if begin > 0 and (blank := text.find(" ", begin, min(begin + 20, start))) >= 0:
        begin = blank + 1
    if stop < len(text) and (blank := text.rfind(" ", max(stop - 20, end, begin + 1), stop)) >= 0:
        stop = blank
    return text[begin:stop]


def snippet_at(text: str, place: int, length: int) -> str:
    """At most `length` characters around a place, on one line."""
    begin = max(0, place - length // 3)
    if begin and (blank := text.find(" ", begin, place)) >= 0:
        begin = blank + 1
    return " ".join(text[begin : begin + 4 * length].split())[:length].strip()
