"""The part of a text that shows why it was found: one algorithm, from the text and the query, for both engines."""

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

from palaver.text.fold import LONGEST, plain, stem, stems, stretches, tokens, words
from palaver.text.query import Phrase, Query, wanted_phrases
from palaver.text.sought import Sought

CUT = "…"
LONGEST_EXCERPT = 600
"""Characters: between two words there may be pages of punctuation."""
MOST_MATCHES = 5_000
"""So many matches of a phrase are compared to find the best place."""
AT_FIRST = 16_000
"""So many characters of a text are looked at before the rest of it is."""


_ASCII_WORD = re.compile(f"[A-Za-z0-9]{{1,{LONGEST}}}")
_Place = tuple[int, int]
"""Where a word begins in the text, and where it ends."""

BEGIN, END = "\ue000", "\ue001"
"""Around each match, until whoever shows it decides how marks look there. Private characters: no text means them."""
_OWN_MARKS = str.maketrans("", "", BEGIN + END)


def as_text(marked: str) -> str:
    """An excerpt for those who read text: <mark> around the matches, everything else as it was written."""
    return marked.replace(BEGIN, "<mark>").replace(END, "</mark>")


def as_html(marked: str) -> str:
    """An excerpt for a page: everything but the <mark> tags is escaped."""
    return as_text(html_escape(marked))


def excerpt(text: str, query: Query, *, length: int = 20, stemmed: bool = False) -> str:
    """Up to `length` words around the matches, each match between BEGIN and END."""
    return excerpts(query, length=length, stemmed=stemmed)(text)


def excerpts(query: Query, *, length: int = 20, stemmed: bool = False) -> Callable[[str], str]:
    """The same for many texts: what cuts them."""
    wanted = _wanted(query, max(length, 1), stemmed)
    only = wanted.phrases[0] if len(wanted.phrases) == 1 and not stemmed else None
    if only and (len(only.words) > length or _may_overlap_itself(only)):
        only = None

    def excerpt(text: str) -> str:
        if only and (cut := _around_one(text, only, length)):
            return _marked(text, *cut)
        return _general_excerpt(text, wanted)

    return excerpt


def _general_excerpt(text: str, wanted: _Wanted) -> str:
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
    """The same for one phrase in plain ASCII, which is most of what is asked: only words around it are looked at.

    It is done on bytes in lower case with a blank for whatever is no letter or digit, and one blank more before them:
    what stands at a place in there is one place further than in the text.
    """
    pattern = _pattern(phrase)
    folded = plain(text)
    found = pattern.search(line := b" " + folded + b" ") if folded is not None else None
    if found is None:
        return None
    place = found.start()
    head, tail = line[: place + 1], line[place + 1 :]
    after = tail.split(None, length)  # so many words, and what is left if there are more
    last = place + (_end_before(tail, after[-1]) if len(after) > length else len(tail.rstrip()))
    marks = []
    best = place
    for match in pattern.finditer(line, place):
        if match.start() >= last:
            break
        marks.append((match.start(), match.end() - 1))
        best = match.end() if match.end() <= last + 1 else best  # what ends later is marked as far as it is shown
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
    """The phrase with a blank before it: where that stands, the phrase stands in the text."""
    return re.compile(
        b" " + b" +".join(word.encode() for word in phrase.words) + (b"[^ ]*" if phrase.prefix else b"(?= )")
    )


def _may_overlap_itself(phrase: Phrase) -> bool:
    """Could the phrase begin again before it ends? Then its matches must be put together, which is done elsewhere."""
    first, *others = phrase.words
    return first in others or (phrase.prefix and bool(others) and first.startswith(others[-1]))


def passage_snippet(text: str, query: Query, *, length: int = 300, stemmed: bool = False) -> str:
    """At most `length` characters around the matches, on one line and without marks."""
    # Matches are shown together when they are close: a word and its space take six characters or so.
    view = _best_view(text, _wanted(query, max(length // 8, 1), stemmed))
    return _cut_around(text, _place_of(view) or (0, 0), length)


def snippet_and_place(text: str, query: Query, *, length: int = 300) -> tuple[str, _Place | None]:
    """The same whatever the endings of the words, and where the matches stand that it shows."""
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
    """At most `length` characters of how a text begins, on one line."""
    line = _on_one_line(text[: 4 * length]).strip()
    if len(line) <= length and len(text) <= 4 * length:
        return line
    return line[: _word_end(line, length - len(CUT), 0)].rstrip() + CUT


class _Match(NamedTuple):
    """A phrase, by its number, and the words it matches: from `first` up to and without `last`."""

    first: int
    last: int
    phrase: int


class _Piece(NamedTuple):
    """A piece of a text, where it stands there, and how many words come before it; folded, if it is easy to read."""

    text: str
    offset: int
    counted: int
    folded: bytes | None

    def places(self, first: int, last: int) -> list[_Place]:
        """Where some of the words stand, counted in the whole text; others may be in the next piece."""
        offset, first, last = self.offset, max(first - self.counted, 0), last - self.counted
        if self.folded is None:
            return [(start + offset, end + offset) for _, start, end in tokens(self.text, first, last)]
        spans = [found.span() for found in _ASCII_WORD.finditer(self.text, *_within(self.folded, first, last))]
        return [(start + offset, end + offset) for start, end in spans] if offset else spans

    def place(self, first: int, last: int) -> _Place | None:
        """From the beginning of the first of them to the end of the last."""
        if self.folded is None:
            places = self.places(first, last)
            return (places[0][0], places[-1][1]) if places else None
        start, end = _within(self.folded, max(first - self.counted, 0), last - self.counted)
        return (start + self.offset, end + self.offset) if end > start else None


def _within(folded: bytes, first: int, last: int) -> _Place:
    """Where some of the words stand in a text in which blanks are between them."""
    rest = (folded.split(None, first) or [b""])[-1] if first else folded.lstrip()
    shown = rest.split(None, last - first)
    start = len(folded) - len(rest)
    return start, start + (_end_before(rest, shown[-1]) if len(shown) > last - first else len(rest.rstrip()))


@dataclass(slots=True)  # not frozen, and neither is the next one: that takes four times as long
class _Reading:
    """The words of a text, or of its beginning, and the pieces it was read in, to find the words' places."""

    words: list[str]
    pieces: list[_Piece]
    is_partial: bool = False

    def places(self, first: int, last: int) -> list[_Place]:
        """Where some of the words stand; the others are never given places, which takes longer than finding them."""
        pieces = self._pieces(first, last)
        return (
            pieces[0].places(first, last)
            if len(pieces) == 1
            else [p for one in pieces for p in one.places(first, last)]
        )

    def place(self, first: int, last: int) -> _Place | None:
        """From the beginning of the first word to the end of the last of some."""
        shown = [place for piece in self._pieces(first, last) if (place := piece.place(first, last))]
        return (shown[0][0], shown[-1][1]) if shown else None

    def _pieces(self, first: int, last: int) -> list[_Piece]:
        """The pieces that these words stand in."""
        if len(self.pieces) == 1:
            return self.pieces
        number = max(0, bisect_right(self.pieces, first, key=attrgetter("counted")) - 1)
        return list(takewhile(lambda piece: piece.counted < last, self.pieces[number:]))


@dataclass(slots=True)
class _View:
    """The words to show, the matches among them, and the best of these: the ones it was chosen for."""

    reading: _Reading
    first: int
    last: int
    matches: Sequence[_Match]
    best: Sequence[_Match]

    def finder(self) -> Callable[[int, int], _Place]:
        """What tells where some of the words to show stand."""
        pieces, first = self.reading.pieces, self.first
        if len(pieces) == 1 and pieces[0].folded is not None:
            return partial(_within, pieces[0].folded)
        shown = self.reading.places(first, self.last)
        return lambda begin, end: (shown[begin - first][0], shown[end - 1 - first][1])


class _Wanted:
    """What is looked for in many texts: phrases, of which as many as can be are shown within `length` words."""

    def __init__(self, phrases: tuple[Phrase, ...], length: int, stemmed: bool) -> None:
        self.phrases, self.length, self._stemmed = phrases, length, stemmed
        self._shown = [phrase.words[:length] for phrase in phrases]
        self._has_prefix = any(phrase.prefix for phrase in phrases)
        self._sought = Sought(self._shown)
        self._begun_by: defaultdict[str, list[int]] = defaultdict(list)
        for number, phrase in enumerate(phrases):
            self._begun_by[phrase.words[0]].append(number)

    def matches(self, found: Sequence[str]) -> list[_Match]:
        """Every place where a phrase stands, in order; of a phrase longer than `length` the beginning is enough."""
        if self._has_prefix:
            return self._matches_of_forms(found)
        if self._stemmed:
            places = self._sought.places(found, MOST_MATCHES)
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
def _wanted(query: Query, length: int, stemmed: bool) -> _Wanted:
    return _Wanted(wanted_phrases(query), length, stemmed)


def _in_order(match: _Match) -> tuple[int, int]:
    return match.first, match.phrase


def _best_view(text: str, wanted: _Wanted) -> _View:
    length = wanted.length
    # Most texts show everything that was asked for near their beginning.
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


def _read(text: str, limit: int) -> _Reading:
    """The words of a text, or of as much of it. What is hard to read is cut small, so that places are found soon."""
    size = AT_FIRST if text.isascii() else 300
    if len(text) <= max(1_000, size):
        folded = plain(text)
        return _Reading(words(text) if folded is None else folded.decode().split(), [_Piece(text, 0, 0, folded)])
    found: list[str] = []
    pieces: list[_Piece] = []
    for offset, piece in stretches(text, size):
        if offset >= limit:
            return _Reading(found, pieces, is_partial=True)
        pieces.append(_Piece(piece, offset, len(found), plain(piece)))
        found.extend(words(piece))
    return _Reading(found, pieces)


def _forms(
    vocabulary: AbstractSet[str], phrases: tuple[Phrase, ...], stemmed: bool
) -> Iterator[list[AbstractSet[str]]]:
    """For each word of each phrase, the words of the text that match it."""
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
            # No word goes on with the last of all characters: it is always a word of its own.
            forms[-1] = {*ordered[bisect_left(ordered, prefix) : bisect_left(ordered, prefix + "\U0010ffff")]}
        yield forms


def _follows(found: Sequence[str], place: int, forms: Sequence[AbstractSet[str]]) -> bool:
    window = found[place : place + len(forms)]
    return len(window) == len(forms) and all(word in form for word, form in zip(window, forms, strict=True))


def _densest(matches: Sequence[_Match], length: int) -> Sequence[_Match]:
    """The matches that fit into `length` words and are of most different phrases; the earliest such."""
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
    """The places of the matches in the text, where those that overlap are one."""
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
    """The best part of text[start:end] that is short enough."""
    spare = max(0, LONGEST_EXCERPT - (mark[1] - mark[0]))
    begin = max(start, min(mark[0] - spare // 2, end - LONGEST_EXCERPT))
    return _whole_after(text, begin), _whole_before(text, begin + LONGEST_EXCERPT)


def _marked(text: str, start: int, end: int, marks: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []  # what is no match, and what is one, in turns
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
    """With one blank for whatever stands between the words, also before the first and after the last one."""
    line = " ".join(text.split())
    before, after = text[:1].isspace(), text[-1:].isspace()
    return f"{' ' * before}{line}{' ' * after}" if line else " " * before


def _word_start(line: str, place: int, latest: int) -> int:
    """Where the next word begins, if that is not far; else the next whole character."""
    space = line.find(" ", place - 1, min(place + 20, latest))
    return space + 1 if space >= 0 else _whole_after(line, place)


def _word_end(line: str, place: int, earliest: int) -> int:
    """Where the word before ends, if that is not far; else the last whole character."""
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
    """Whether what one sees as one character would be cut here: an accent, a joined emoji, a skin tone."""
    if not 0 < place < len(text) or text[place].isascii():
        return False
    return category(text[place]) in ("Mn", "Mc", "Me", "Sk") or "\u200d" in text[place - 1 : place + 1]


def match_place(text: str, query: Query, *, stemmed: bool = True) -> _Place | None:
    """Where the densest matches stand in the text: from the first to the last of them."""
    return _place_of(_best_view(text, _wanted(query, 40, stemmed)))


def _place_of(view: _View) -> _Place | None:
    """Where the best matches stand, from the first to the last of them."""
    if not view.best:
        return None
    return view.reading.place(view.best[0].first, max(match.last for match in view.best))
