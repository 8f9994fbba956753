"""The parts of a very long text that are about a question. Ranking and snippets read these instead of the whole."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple
from unicodedata import normalize

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
