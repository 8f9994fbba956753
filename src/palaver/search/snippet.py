"""Snippets: the only place that cuts text around a match and marks matched words.

`excerpt` cuts by words and marks the matches, `passage_snippet` cuts by characters, `cut_around` cuts to a budget.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape as html_escape
from itertools import accumulate, groupby, islice
from typing import NamedTuple
from unicodedata import category, normalize

from palaver.text.match import exact_places, finder_of, line_of
from palaver.text.query import Phrase, Query, wanted_phrases
from palaver.text.tokenize import stem, stretches, tokens, words

Place = tuple[int, int]
"""Where a part of a text begins and ends."""

CUT = "…"
LONGEST_EXCERPT = 600
"""Characters. Between two words there can be pages of punctuation."""
MOST_MATCHES = 5_000
"""Matches of a phrase that are compared to find the best place."""
AT_FIRST = 16_000
"""Characters of a text that are searched before the rest is."""
BEGIN, END = "\ue000", "\ue001"
"""Marks around each match, replaced when the excerpt is shown. They are private characters, which texts do not use."""
_OWN_MARKS = str.maketrans("", "", BEGIN + END)


def as_text(marked: str) -> str:
    """An excerpt as text, with <mark> around the matches."""
    return marked.replace(BEGIN, "<mark>").replace(END, "</mark>")


def as_html(marked: str) -> str:
    """An excerpt as HTML: everything but the <mark> tags is escaped."""
    return as_text(html_escape(marked))


class _Match(NamedTuple):
    """A match of a phrase, given by its number: words `first` to `last`, without `last`."""

    first: int
    last: int
    phrase: int


class _Wanted:
    """The phrases of a query, to find in many texts. As many as possible are shown within `length` words."""

    def __init__(self, query: Query, length: int, is_stemmed: bool) -> None:
        self.length = length
        # Of a phrase longer than `length`, the beginning is enough.
        self.phrases = [
            one if len(one.words) <= length else Phrase(one.words[:length], first=one.first)
            for one in wanted_phrases(query)
        ]
        self._is_stemmed = is_stemmed

    def matches(self, text: str) -> tuple[int, list[_Match]]:
        """The number of words of a text, and all matches, in order."""
        places: Sequence[tuple[int, int]]
        if self._is_stemmed:
            size, places, _ = finder_of(tuple(self.phrases)).in_text(text, most=MOST_MATCHES)
        else:
            said = words(text)
            size, line = len(said), line_of(said)
            found = (islice(exact_places(one, line), MOST_MATCHES) for one in self.phrases)
            places = sorted((place, number) for number, some in enumerate(found) for place in some)
        return size, [
            _Match(place, place + len(self.phrases[number].words), number)
            for place, number in places
            if not place or not self.phrases[number].first
        ]


_wanted = lru_cache(maxsize=256)(_Wanted)


class _View(NamedTuple):
    """The words of a text to show, the matches among them, and the densest of these."""

    text: str
    """The text as far as it was read."""
    size: int
    """The number of its words."""
    first: int
    last: int
    matches: Sequence[_Match]
    best: Sequence[_Match]

    @property
    def place(self) -> Place | None:
        """Where the densest matches are, from the first to the last of them."""
        if not self.best:
            return None
        found = tokens(self.text, self.best[0].first, max(match.last for match in self.best))
        return found[0].start, found[-1].end


def _best_view(text: str, wanted: _Wanted) -> _View:
    """The words to show of a text: as many phrases as possible, with words around them."""
    length = wanted.length
    beginning = next(stretches(text, AT_FIRST), (0, ""))[1]
    for part in [beginning, text] if len(beginning) < len(text) else [text]:
        size, matches = wanted.matches(part)
        best = _densest(matches, length)
        start = best[0].first if best else 0
        # In most texts all phrases are near the beginning.
        if len({match.phrase for match in best}) == len(wanted.phrases) and start + length <= size:
            break
    spare = length - (max(match.last for match in best) - start) if best else 0
    first = max(0, min(start - spare // 2, size - length))
    last = min(first + length, size)
    shown = [match for match in matches if match.first < last and match.last > first]
    return _View(part, size, first, last, shown, best)


def _densest(matches: Sequence[_Match], length: int) -> Sequence[_Match]:
    """The matches within `length` words that have the most different phrases; the earliest such."""
    if len(matches) <= 1 or max(match.last for match in matches) <= matches[0].first + length:
        return matches
    by_end = sorted(matches, key=lambda match: match.last)
    inside: Counter[int] = Counter()
    entered = most = start = 0
    for first, begun in groupby(matches, key=lambda match: match.first):
        while entered < len(matches) and by_end[entered].last <= first + length:
            inside[by_end[entered].phrase] += 1
            entered += 1
        if len(inside) > most:
            most, start = len(inside), first
        for match in begun:
            inside[match.phrase] -= 1
            if not inside[match.phrase]:
                del inside[match.phrase]
    return [match for match in matches if match.first >= start and match.last <= start + length]


def excerpt(text: str, query: Query, *, length: int = 20) -> str:
    """Up to `length` words around the matches, each match between BEGIN and END."""
    view = _best_view(text, _wanted(query, max(length, 1), is_stemmed=False))
    shown = tokens(view.text, view.first, view.last)
    start = shown[0].start if view.first > 0 else 0
    is_cut = view.last < view.size or len(view.text) < len(text)
    end = shown[-1].end if is_cut else len(text)
    marks: list[Place] = []
    for match in view.matches:
        first, last = max(match.first, view.first), min(match.last, view.last)
        mark = shown[first - view.first].start, shown[last - view.first - 1].end
        if marks and mark[0] < marks[-1][1]:
            mark = marks[-1][0], max(marks.pop()[1], mark[1])
        marks.append(mark)
    if end - start > LONGEST_EXCERPT:
        start, end = _around(marks[0] if marks else (start, start), text, start, end)
    return _marked(text, start, end, marks)


def passage_snippet(text: str, query: Query, *, length: int = 300) -> str:
    """At most `length` characters around the matches of stemmed words, on one line, without marks."""
    return snippet_and_place(text, query, length=length)[0]


def snippet_and_place(text: str, query: Query, *, length: int = 300) -> tuple[str, Place | None]:
    """A passage snippet, and the place of the matches in it."""
    # Close matches are shown together: a word and its space take about eight characters.
    wanted = _wanted(query, max(length // 8, 1), is_stemmed=True)
    parts = relevant_parts(text, (word for phrase in wanted_phrases(query) for word in phrase.words))
    place = _best_view(parts.text, wanted).place
    place = parts.place_in_whole(place) if place else None
    start, end = place or (0, 0)
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
    return snippet[:length], place


def beginning(text: str, *, length: int = 300) -> str:
    """At most `length` characters of the beginning of a text, on one line."""
    line = _on_one_line(text[: 4 * length]).strip()
    if len(line) <= length and len(text) <= 4 * length:
        return line
    return line[: _word_end(line, length - len(CUT), 0)].rstrip() + CUT


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


def match_place(text: str, query: Query) -> Place | None:
    """The place of the densest matches of stemmed words in a text: from the first to the last of them."""
    return _best_view(text, _wanted(query, 40, is_stemmed=True)).place


def highlights(snippet: str, terms: Sequence[Phrase]) -> list[tuple[int, int]]:
    """Where the words of the terms, in any form, begin and end in a snippet."""
    wanted = {stem(word) for term in terms for word in term.words}
    begun = tuple(term.words[-1] for term in terms if term.prefix)
    found = (token for token in tokens(snippet) if stem(token.word) in wanted or token.word.startswith(begun))
    return [(token.start, token.end) for token in found]


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


# The parts of a very long text that are about a question. Ranking and snippets read these instead of the whole.

LONGEST_WHOLE = 20_000
"""A text with at most this many characters is read whole."""
PART = 2_000
MOST_PARTS = 8
BESIDE = 200
"""Characters before and after a part, so that a phrase at its edge stays whole."""
MOST_PLACES = 500
"""Places of one word that are looked at."""
LEAST_LETTERS = 3
"""A word is looked for without up to this many letters of its ending, but with at least so many letters."""


class RelevantParts(NamedTuple):
    """Parts of a text, joined."""

    text: str
    begins: tuple[int, ...] = (0,)
    """Where each part begins here."""
    begins_in_whole: tuple[int, ...] = (0,)

    def place_in_whole(self, place: tuple[int, int]) -> tuple[int, int]:
        """Where a place in these parts is in the whole text. A place in several parts ends with the first of them."""
        part = bisect_right(self.begins, place[0]) - 1
        moved = self.begins_in_whole[part] - self.begins[part]
        end = min(place[1], self.begins[part + 1] - 1) if part + 1 < len(self.begins) else place[1]
        return place[0] + moved, end + moved


def relevant_parts(text: str, words: Iterable[str]) -> RelevantParts:
    """The beginning of a text and the parts with the most different words, in order. A shorter text stays whole."""
    if len(text) <= LONGEST_WHOLE:
        return RelevantParts(text)
    folded = _folded(text)
    found: Counter[int] = Counter()
    for word in dict.fromkeys(words):
        beginning = word[: max(LEAST_LETTERS, len(word) - LEAST_LETTERS)]
        places, at = set[int](), folded.find(beginning)
        while at >= 0 and len(places) < MOST_PLACES:
            places.add(at // PART)
            at = folded.find(beginning, (at // PART + 1) * PART)
        found.update(places)
    best = sorted({0, *(part for part, _ in found.most_common(MOST_PARTS))})
    starts = [max(0, part * PART - BESIDE) for part in best]
    parts = [text[start : (part + 1) * PART + BESIDE] for start, part in zip(starts, best, strict=True)]
    begins = accumulate((len(part) + 1 for part in parts[:-1]), initial=0)
    return RelevantParts("\n".join(parts), tuple(begins), tuple(starts))


def _folded(text: str) -> str:
    """The text in small letters and without accents. Each character stays one, so that places stay the same."""
    if text.isascii():
        return text.lower()
    return text.translate({ord(one): normalize("NFKD", one).casefold()[:1] or one for one in set(text)})
