"""An excerpt: the passages around an anchor, cut to the mode and the budget of a request."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from palaver.errors import Refused
from palaver.model.people import Caller
from palaver.model.search import FoundPassage, GetResponse, Loc
from palaver.search.present import result_item
from palaver.search.question import any_of
from palaver.search.snippet import cut_around, match_place, passage_snippet, snippet_at
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader
from palaver.text.passages import Piece
from palaver.text.query import Phrase

BETWEEN = "\n\n"
MATCH = 60
"""Characters that belong to a match, if only its beginning is known."""
FARTHEST_PLACE = 2**40
FULL_PAGE = 1_000_000
LEAST_SHARED = 12
"""A shorter overlap of two chunks may be chance."""
MOST_SHARED = 4_000
_BLANK = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to open and where, with every default filled in."""

    mode: Literal["snippet", "chunk", "chunk_with_siblings", "full"]
    snippet_length: int
    budget: int
    """Characters."""
    has_budget: bool
    reach: int
    """Passages on each side of the anchor that may be included."""
    chunk: tuple[int, int] | None
    """Size and overlap of chunks to cut; None for the stored ones."""
    prefers_given: bool
    """Use the chunks that a media item came with, if it has some."""
    loc: Loc | None
    terms: tuple[Phrase, ...]
    """The terms of the request's query."""
    recent: tuple[Phrase, ...]
    """The terms of the caller's last search."""
    cursor: str | None

    @property
    def page_size(self) -> int:
        """Characters of a page of the full text."""
        return min(FULL_PAGE, self.budget) if self.has_budget else FULL_PAGE


class Opening(NamedTuple):
    """A document that is being opened."""

    read: Reader
    caller: Caller
    at: FoundPassage
    plan: Plan

    def response(self, at: FoundPassage, content: str, *, truncated: bool, **more: Any) -> GetResponse:
        snippet = content if self.plan.mode == "snippet" else None
        loc = self.plan.loc or SOURCES[at.source].loc(at, 0)
        return GetResponse(result_item(self.read, at, snippet, loc), content, truncated=truncated, **more)


@dataclass
class Excerpt:
    """Passages in order, with the number of the anchor among them."""

    anchor: int
    texts: Sequence[str]
    labels: Sequence[str] = ()
    """Who said each text, in a conversation."""
    whole: str = ""
    """The whole text, if the passages are pieces of one."""
    pieces: Sequence[Piece] = ()
    heading: str = ""
    place: int | None = None
    """Where the match is in the anchor, or in the heading."""

    @property
    def count(self) -> int:
        return len(self.pieces) or len(self.texts)

    def alone(self) -> str:
        """The text of the anchor."""
        if not self.count:
            return ""
        return self.between(self.anchor, self.anchor) if self.pieces else self.texts[self.anchor]

    def between(self, first: int, last: int) -> str:
        if self.pieces:
            return self.whole[self.pieces[first].start : self.pieces[last].end]
        if self.labels:
            return BETWEEN.join(f"{self.labels[n]}: {self.texts[n]}" for n in range(first, last + 1))
        return join_chunks(list(self.texts[first : last + 1]), BETWEEN)

    def cost(self, first: int, last: int) -> int:
        """At most how many characters `between` returns."""
        if self.pieces:
            return self.pieces[last].end - self.pieces[first].start
        return self._ends[last + 1] - self._ends[first] - len(BETWEEN)

    @cached_property
    def _ends(self) -> list[int]:
        costs = [len(text) + len(BETWEEN) for text in self.texts]
        if self.labels:
            costs = [cost + len(label) + 2 for cost, label in zip(costs, self.labels, strict=True)]
        return list(accumulate(costs, initial=0))


class Cut(NamedTuple):
    content: str
    is_truncated: bool
    first: int
    last: int
    """The numbers of the first and the last passage in the content."""


def cut(excerpt: Excerpt, plan: Plan) -> Cut:
    """Cut an excerpt to the mode and the budget of the plan."""
    anchor, alone = excerpt.anchor, excerpt.heading + excerpt.alone()
    # The request's terms show which part matters; the last search's do where the request names no place.
    choices = [plan.terms, plan.recent if excerpt.place is None else ()]
    terms = next((terms for terms in choices if terms and match_place(alone, any_of(terms))), ())
    place = match_place(alone, any_of(terms)) if terms else None
    if place is None and excerpt.place is not None:
        place = excerpt.place, min(excerpt.place + MATCH, len(alone))
    if plan.mode == "snippet":
        length = min(plan.snippet_length, plan.budget) if plan.has_budget else plan.snippet_length
        if terms:
            snippet = passage_snippet(alone, any_of(terms), length=length)
        elif place:
            snippet = snippet_at(alone, place[0], length)
        else:
            text = alone if excerpt.heading else _from_anchor(excerpt, plan)
            snippet = " ".join(text[: 4 * length].split())[:length].strip()
        return Cut(snippet, False, anchor, anchor)
    if excerpt.heading or plan.mode == "chunk" or not excerpt.count:
        content = cut_around(alone, plan.budget, place)
        return Cut(content, len(content) < len(alone), anchor, anchor)
    first, last = spread(anchor, excerpt.count, plan.reach, plan.budget, excerpt.cost)
    text = alone if first == last else excerpt.between(first, last)
    if first == last and excerpt.labels and len(labelled := excerpt.between(first, last)) <= plan.budget:
        text = labelled
    content = cut_around(text, plan.budget, place if text == alone else None)
    return Cut(content, len(content) < len(text), first, last)


def _from_anchor(excerpt: Excerpt, plan: Plan) -> str:
    """The text from the anchor on, for a snippet that is longer than the anchor."""
    if excerpt.pieces and not excerpt.texts:
        return excerpt.whole[excerpt.pieces[excerpt.anchor].start :][: 8 * plan.snippet_length]
    if excerpt.count and not excerpt.labels and plan.loc is None:
        return excerpt.between(excerpt.anchor, min(excerpt.anchor + plan.snippet_length, excerpt.count - 1))
    return excerpt.alone()


def number_in(loc: Loc, key: str) -> int:
    """The whole number at a key of a `loc`, limited to a sensible range."""
    value = loc[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or (isinstance(value, float) and value % 1):
        raise Refused(f"retrieval.loc.{key}: must be a whole number.")
    return int(min(max(value, -FARTHEST_PLACE), FARTHEST_PLACE))


def place_in(text: str, place: int) -> int | None:
    """The place, if it is inside the text."""
    return place if 0 <= place < len(text) else None


def parse_cursor(cursor: str | None, kind: str, count: int) -> tuple[int, ...] | None:
    if cursor is None:
        return None
    name, *numbers = cursor.split(":")
    if name != kind or len(numbers) != count or not all(n.isascii() and n.isdigit() and len(n) < 16 for n in numbers):
        raise Refused("retrieval.cursor: this is not a cursor. Use the next_cursor of an answer, unchanged.")
    return tuple(map(int, numbers))


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
