"""Fit text into a budget: choose neighbours of an anchor, and cut around a place."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from palaver.text.passages import Piece

LEAST_SHARED = 12
"""A shorter overlap of two chunks may be chance."""
MOST_SHARED = 4_000
_BLANK = re.compile(r"\s*")


def characters(tokens: int, per_token: float) -> int:
    """The number of characters of a number of tokens, at most."""
    return max(0, math.floor(tokens * per_token))


def spread(anchor: int, count: int, reach: int, budget: int, cost: Callable[[int, int], int]) -> tuple[int, int]:
    """Add neighbours of the anchor on both sides, one at a time, while all of them fit the budget.

    Returns the first and the last; the anchor is always included. `reach` is the limit on each side.
    """
    first = last = anchor
    can_grow = [True, True]
    while any(can_grow):
        for side in (0, 1):  # the passage after usually says more than the one before
            if not can_grow[side]:
                continue
            wider = (first, last + 1) if side == 0 else (first - 1, last)
            is_inside = max(0, anchor - reach) <= wider[0] and wider[1] <= min(count - 1, anchor + reach)
            if is_inside and cost(*wider) <= budget:
                first, last = wider
            else:
                can_grow[side] = False
    return first, last


def locate_chunks(chunks: Sequence[str], text: str) -> list[Piece] | None:
    """The places of chunks that were cut from a text, in order; None if the text does not have all of them.

    Each chunk is expected where the one before ends. If that fails, each is taken as early as possible.
    """
    return _locate(chunks, text, adjoining=True) or _locate(chunks, text, adjoining=False)


def _locate(chunks: Sequence[str], text: str, *, adjoining: bool) -> list[Piece] | None:
    found: list[Piece] = []
    least = end = 0
    for chunk in chunks:
        blank = _BLANK.match(text, end) if adjoining else None
        at = blank.end() if blank and text.startswith(chunk, blank.end()) else text.find(chunk, least)
        if at < 0 or not chunk:
            return None
        end = at + len(chunk)
        found.append(Piece(at, end))
        least = at + 1
    return found


def join_chunks(chunks: list[str], separator: str = "\n\n") -> str:
    """Join chunks that overlap: text that two neighbours share appears once."""
    whole = chunks[0] if chunks else ""
    for chunk in chunks[1:]:
        tail, head = whole[-MOST_SHARED:], chunk[:LEAST_SHARED]
        at = tail.find(head) if len(chunk) >= LEAST_SHARED else -1
        while at >= 0 and not chunk.startswith(tail[at:]):
            at = tail.find(head, at + 1)
        whole += chunk[len(tail) - at :] if at >= 0 else separator + chunk
    return whole
