"""Taking as much of a thing as fits a budget: the passage that was asked for, then its neighbours on both sides."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from palaver.text.passages import Piece


def characters(tokens: int, per_token: float) -> int:
    """How many characters so many tokens are, at most."""
    return max(0, math.floor(tokens * per_token))


def spread(anchor: int, count: int, reach: int, budget: int, cost: Callable[[int, int], int]) -> tuple[int, int]:
    """From the anchor to both sides, one passage at a time, as long as the whole costs no more than the budget.

    Returns the first and the last; the anchor is always among them. `reach` is how far it goes on each side.
    """
    first = last = anchor
    can_grow = [True, True]
    while any(can_grow):
        for side in (0, 1):  # what follows usually says more than what came before
            if not can_grow[side]:
                continue
            wider = (first, last + 1) if side == 0 else (first - 1, last)
            is_inside = max(0, anchor - reach) <= wider[0] and wider[1] <= min(count - 1, anchor + reach)
            if is_inside and cost(*wider) <= budget:
                first, last = wider
            else:
                can_grow[side] = False
    return first, last


def cut_around(text: str, budget: int, place: tuple[int, int] | None) -> str:
    """At most `budget` characters of a text, with the place in it that matters: at a word's edge where one is near."""
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


_BLANK = re.compile(r"\s*")


def located(chunks: Sequence[str], text: str) -> list[Piece] | None:
    """Where chunks stand that somebody cut from a text, one after the other; None if they are not all in it.

    Each where the one before ends, if it stands there; where that leads nowhere, each as early as it can.
    """
    return _located(chunks, text, adjoining=True) or _located(chunks, text, adjoining=False)


def _located(chunks: Sequence[str], text: str, *, adjoining: bool) -> list[Piece] | None:
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


def joined(chunks: list[str], separator: str = "\n\n") -> str:
    """Chunks as somebody cut them, put together: what two neighbours share at their edges stands once."""
    whole = chunks[0] if chunks else ""
    for chunk in chunks[1:]:
        shared = _shared(whole, chunk)
        whole += chunk[shared:] if shared else separator + chunk
    return whole


LEAST_SHARED = 12
MOST_SHARED = 4_000


def _shared(before: str, after: str) -> int:
    """How many characters at the end of one text are the beginning of the other; a few are chance."""
    tail = before[-MOST_SHARED:]
    if len(after) < LEAST_SHARED:
        return 0
    head = after[:LEAST_SHARED]
    at = tail.find(head)
    while at >= 0:
        if after.startswith(tail[at:]):
            return len(tail) - at
        at = tail.find(head, at + 1)
    return 0
