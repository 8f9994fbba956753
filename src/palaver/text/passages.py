"""Cut a long text into passages, at the ends of sentences and with an overlap.

The overlap lets a search find a sentence that is on a cut. Passages are spans of the text, so neighbours are joined by
taking one longer span: nothing is doubled.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

SIZE = 1_200
OVERLAP = 150

# The end of a sentence: after its full stop and closing marks, or at the end of a line.
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]+[”’」』）]*|\n+")
_BLANK = re.compile(r"\s")


class Piece(NamedTuple):
    """text[start:end]"""

    start: int
    end: int


def pieces(text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[Piece]:
    """The passages of a text in order. Together they cover it, and none is longer than `size`."""
    if not text:
        return []
    size = max(size, 1)
    overlap = min(max(overlap, 0), size // 2)
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    found = [Piece(0, _end(text, ends, 0, 0, size))]
    while (done := found[-1].end) < len(text):
        start = _start(text, ends, done, overlap, found[-1].start)
        found.append(Piece(start, _end(text, ends, start, done, size)))
    return found


def holding(found: Sequence[Piece], offset: int) -> int:
    """The index of the last passage that begins at or before this offset."""
    return max(bisect_right([piece.start for piece in found], offset) - 1, 0)


def _end(text: str, ends: list[int], start: int, done: int, size: int) -> int:
    """The end of a passage that begins at `start`. It must be beyond `done`."""
    limit = start + size
    if limit >= len(text):
        return len(text)
    last = bisect_right(ends, limit) - 1
    if last >= 0 and ends[last] > max(done, start + size // 4):
        return ends[last]
    for place in range(limit, max(done, start + size // 2), -1):
        if _BLANK.match(text[place - 1]):
            return place
    return limit


def _start(text: str, ends: list[int], done: int, overlap: int, previous: int) -> int:
    """The start of the next passage: one sentence back if that is short enough, else some words back."""
    earliest = max(done - overlap, previous + 1)
    at = bisect_left(ends, earliest)
    if at < len(ends) and ends[at] < done:
        return ends[at]
    for place in range(earliest, done):
        if _BLANK.match(text[place]) and place + 1 < done:
            return place + 1
    return done
