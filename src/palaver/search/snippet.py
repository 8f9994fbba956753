"""Snippets: the only place that cuts text around a match and marks matched words.

`excerpts` cuts by words and marks the matches, `passage_snippet` cuts by characters, `cut_around` cuts to a budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from html import escape as html_escape
from unicodedata import category

from palaver.search.phrase_positions import Phrases, Place, View, best_view, end_before, phrases_of
from palaver.search.relevant_parts import relevant_parts
from palaver.text.query import Phrase, Query, wanted_phrases
from palaver.text.tokenize import plain, stem, tokens

CUT = "…"
LONGEST_EXCERPT = 600
"""Characters. Between two words there can be pages of punctuation."""
BEGIN, END = "\ue000", "\ue001"
"""Marks around each match, replaced when the excerpt is shown. They are private characters, which texts do not use."""
_OWN_MARKS = str.maketrans("", "", BEGIN + END)


def as_text(marked: str) -> str:
    """An excerpt as text, with <mark> around the matches."""
    return marked.replace(BEGIN, "<mark>").replace(END, "</mark>")


def as_html(marked: str) -> str:
    """An excerpt as HTML: everything but the <mark> tags is escaped."""
    return as_text(html_escape(marked))


def excerpt(text: str, query: Query, *, length: int = 20) -> str:
    """Up to `length` words around the matches, each match between BEGIN and END."""
    return excerpts(query, length=length)(text)


def excerpts(query: Query, *, length: int = 20) -> Callable[[str], str]:
    """A function that cuts an excerpt from a text, for many texts and one query."""
    wanted = phrases_of(query, max(length, 1), stemmed=False)
    only = wanted.phrases[0] if len(wanted.phrases) == 1 else None
    if only:
        first, *others = only.words
        may_overlap = first in others or (only.prefix and bool(others) and first.startswith(others[-1]))
        if len(only.words) > length or may_overlap or only.first:  # matches that overlap must be merged
            only = None

    def excerpt(text: str) -> str:
        if only and (cut := _around_one(text, only, length)):
            return _marked(text, *cut)
        return _general_excerpt(text, wanted)

    return excerpt


def _general_excerpt(text: str, wanted: Phrases) -> str:
    view = best_view(text, wanted)
    where = view.finder()
    start = where(view.first, view.last)[0] if view.first > 0 else 0
    is_cut = view.last < len(view.reading.words) or view.reading.is_partial
    end = where(view.last - 1, view.last)[1] if is_cut else len(text)
    marks = list(_marks(view, where))
    if end - start > LONGEST_EXCERPT:
        start, end = _around(marks[0] if marks else (start, start), text, start, end)
    return _marked(text, start, end, marks)


def _around_one(text: str, phrase: Phrase, length: int) -> tuple[int, int, list[Place]] | None:
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
    last = place + (end_before(tail, after[-1]) if len(after) > length else len(tail.rstrip()))
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
        end = place + end_before(tail, tail.split(None, shown)[-1])
    if end - start > LONGEST_EXCERPT:
        start, end = _around(marks[0], text, start, end)
    return start, end, marks


@lru_cache(maxsize=256)
def _pattern(phrase: Phrase) -> re.Pattern[bytes]:
    """A pattern for the phrase with a blank before it."""
    return re.compile(
        b" " + b" +".join(word.encode() for word in phrase.words) + (b"[^ ]*" if phrase.prefix else b"(?= )")
    )


def passage_snippet(text: str, query: Query, *, length: int = 300) -> str:
    """At most `length` characters around the matches of stemmed words, on one line, without marks."""
    return snippet_and_place(text, query, length=length)[0]


def snippet_and_place(text: str, query: Query, *, length: int = 300) -> tuple[str, Place | None]:
    """A passage snippet, and the place of the matches in it."""
    # Close matches are shown together: a word and its space take about eight characters.
    wanted = phrases_of(query, max(length // 8, 1), stemmed=True)
    parts = relevant_parts(text, (word for phrase in wanted_phrases(query) for word in phrase.words))
    place = best_view(parts.text, wanted).place
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


def _marks(view: View, where: Callable[[int, int], Place]) -> Iterator[tuple[int, int]]:
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


def match_place(text: str, query: Query) -> Place | None:
    """The place of the densest matches of stemmed words in a text: from the first to the last of them."""
    return best_view(text, phrases_of(query, 40, stemmed=True)).place


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
