"""The part of a text that shows why it was found: one algorithm, from the text and the query, for both engines."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from html import escape as html_escape
from typing import NamedTuple
from unicodedata import category

from palaver.text.fold import LONGEST, plain, stem, stems, stretches, tokens, words
from palaver.text.query import Phrase, Query, wanted_phrases
from palaver.text.sought import Sought

CUT = "…"
LONGEST_EXCERPT = 600
"""Characters: between two words there may be pages of punctuation."""


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
    phrases = wanted_phrases(query)
    only = phrases[0] if len(phrases) == 1 and not stemmed else None
    if only and (len(only.words) > length or _may_overlap_itself(only)):
        only = None

    def excerpt(text: str) -> str:
        if only and (cut := _around_one(text, only, length)):
            return _marked(text, *cut)
        return _general_excerpt(text, phrases, length, stemmed)

    return excerpt


def _general_excerpt(text: str, phrases: tuple[Phrase, ...], length: int, stemmed: bool) -> str:
    view = _best_view(text, phrases, max(length, 1), stemmed)
    shown = view.reading.places(view.first, view.last)
    start = shown[0][0] if view.first > 0 else 0
    end = shown[-1][1] if view.last < len(view.reading.words) or view.reading.is_partial else len(text)
    marks = list(_marks(view, shown))
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
    view = _best_view(text, _wanted(query), max(length // 8, 1), stemmed)
    return _cut_around(text, _place_of(view) or (0, 0), length)


def snippet_and_place(text: str, query: Query, *, length: int = 300) -> tuple[str, _Place | None]:
    """The same whatever the endings of the words, and where the matches stand that it shows."""
    place = _place_of(_best_view(text, _wanted(query), max(length // 8, 1), stemmed=True))
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


@dataclass(frozen=True, slots=True)
class _Reading:
    """The words of a text, or of its beginning, and the pieces it was read in, to find the words' places."""

    words: list[str]
    pieces: list[str]
    offsets: list[int]
    counted: list[int]  # how many words come before each piece
    is_partial: bool

    def places(self, first: int, last: int) -> list[_Place]:
        """Where some of the words stand; the others are never given places, which takes longer than finding them."""
        return [place for piece in self._pieces(first, last) for place in _places(*piece)]

    def place(self, first: int, last: int) -> _Place | None:
        """From the beginning of the first word to the end of the last of some."""
        shown = [place for piece in self._pieces(first, last) if (place := _place(*piece))]
        return (shown[0][0], shown[-1][1]) if shown else None

    def _pieces(self, first: int, last: int) -> Iterator[tuple[str, int, int, int]]:
        """The pieces that these words stand in, with their offsets and which of their own words these are."""
        number = max(0, bisect_right(self.counted, first) - 1)
        while number < len(self.pieces) and (before := self.counted[number]) < last:
            yield self.pieces[number], self.offsets[number], max(first - before, 0), last - before
            number += 1


def _places(text: str, offset: int, first: int, last: int) -> list[_Place]:
    """Where some of the words of a piece of text stand; there may be fewer."""
    if (folded := plain(text)) is None:
        return [(start + offset, end + offset) for _, start, end in tokens(text)[first:last]]
    spans = [found.span() for found in _ASCII_WORD.finditer(text, *_within(folded, first, last))]
    return [(start + offset, end + offset) for start, end in spans] if offset else spans


def _place(text: str, offset: int, first: int, last: int) -> _Place | None:
    if (folded := plain(text)) is None:
        places = _places(text, offset, first, last)
        return (places[0][0], places[-1][1]) if places else None
    start, end = _within(folded, first, last)
    return (start + offset, end + offset) if end > start else None


def _within(folded: bytes, first: int, last: int) -> _Place:
    """Where some of the words stand in a text in which blanks are between them."""
    rest = (folded.split(None, first) or [b""])[-1] if first else folded.lstrip()
    shown = rest.split(None, last - first)
    start = len(folded) - len(rest)
    return start, start + (_end_before(rest, shown[-1]) if len(shown) > last - first else len(rest.rstrip()))


@lru_cache(maxsize=256)
def _wanted(query: Query) -> tuple[Phrase, ...]:
    """Asked anew for every text that is shown, and so are the next two."""
    return wanted_phrases(query)


@lru_cache(maxsize=256)
def _sought(phrases: tuple[Phrase, ...], length: int) -> Sought:
    return Sought(phrase.words[:length] for phrase in phrases)


@lru_cache(maxsize=256)
def _beginnings(phrases: tuple[Phrase, ...]) -> dict[str, list[int]]:
    """Which phrases, by their numbers, a word may begin."""
    begun_by: defaultdict[str, list[int]] = defaultdict(list)
    for number, phrase in enumerate(phrases):
        begun_by[phrase.words[0]].append(number)
    return dict(begun_by)


@dataclass(frozen=True, slots=True)
class _View:
    """The words to show, the matches among them, and the best of these: the ones it was chosen for."""

    reading: _Reading
    first: int
    last: int
    matches: Sequence[_Match]
    best: Sequence[_Match]


def _best_view(text: str, phrases: tuple[Phrase, ...], length: int, stemmed: bool) -> _View:
    # Most texts show everything that was asked for near their beginning.
    for limit in (16_000, len(text)):
        reading = _read(text, limit)
        matches = _matches(reading.words, phrases, length, stemmed)
        best = _densest(matches, length)
        start = best[0].first if best else 0
        has_all = len({match.phrase for match in best}) == len(phrases)
        if not reading.is_partial or (has_all and start + length <= len(reading.words)):
            break
    spare = length - (max(match.last for match in best) - start) if best else 0
    first = max(0, min(start - spare // 2, len(reading.words) - length))
    last = min(first + length, len(reading.words))
    return _View(reading, first, last, [match for match in matches if match.first < last and match.last > first], best)


def _read(text: str, limit: int) -> _Reading:
    size = 16_000 if text.isascii() else 300
    if len(text) <= max(1_000, size):
        return _Reading(words(text), [text], [0], [0], is_partial=False)
    found: list[str] = []
    pieces: list[str] = []
    offsets: list[int] = []
    counted: list[int] = []
    for offset, piece in stretches(text, size):
        if offset >= limit:
            return _Reading(found, pieces, offsets, counted, is_partial=True)
        counted.append(len(found))
        offsets.append(offset)
        pieces.append(piece)
        found.extend(words(piece))
    return _Reading(found, pieces, offsets, counted, is_partial=False)


def _matches(found: Sequence[str], phrases: tuple[Phrase, ...], length: int, stemmed: bool) -> list[_Match]:
    """Every place where a phrase stands, in order; of a phrase longer than `length` the beginning is enough."""
    if not any(phrase.prefix for phrase in phrases):
        return _matches_of_stems(found, phrases, length) if stemmed else _exact_matches(found, phrases, length)
    forms = [phrase_forms[:length] for phrase_forms in _forms(set(found), phrases, stemmed)]
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
    return matches


def _matches_of_stems(found: Sequence[str], phrases: tuple[Phrase, ...], length: int) -> list[_Match]:
    places = _sought(phrases, length).places(found)
    return [_Match(place, place + min(len(phrases[number].words), length), number) for place, number in places]


def _in_order(match: _Match) -> tuple[int, int]:
    return match.first, match.phrase


def _exact_matches(found: Sequence[str], phrases: tuple[Phrase, ...], length: int) -> list[_Match]:
    """The same, in the common case that words are to be found as they are."""
    matches = []
    for word, numbers in _beginnings(phrases).items():
        place = -1
        for _ in range(found.count(word)):
            place = found.index(word, place + 1)
            for number in numbers:
                wanted = phrases[number].words[:length]
                last = place + len(wanted)
                if len(wanted) == 1 or tuple(found[place:last]) == wanted:
                    matches.append(_Match(place, last, number))
    return sorted(matches, key=_in_order) if len(matches) > 1 else matches


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
    if len(matches) <= 1 or max(match.last for match in matches) <= matches[0].first + length:
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


def _marks(view: _View, shown: Sequence[_Place]) -> Iterator[tuple[int, int]]:
    """The places of the matches in the text, where those that overlap are one."""
    held: tuple[int, int] | None = None
    for match in view.matches:
        start = shown[max(match.first - view.first, 0)][0]
        end = shown[min(match.last, view.last) - view.first - 1][1]
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
    return _place_of(_best_view(text, _wanted(query), 40, stemmed))


def _place_of(view: _View) -> _Place | None:
    """Where the best matches stand, from the first to the last of them."""
    if not view.best:
        return None
    return view.reading.place(view.best[0].first, max(match.last for match in view.best))
