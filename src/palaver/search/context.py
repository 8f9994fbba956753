"""Evidence for an answer, packed: the best passages from everywhere as one text that fits a budget.

Passages are taken by their score as long as they fit, long ones cut around what matters; those of one conversation
stand together under its name, in their order, and a fence goes around all of them. The budget holds for the whole
answer as it is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson

from palaver.model.answers import OmitsDefaults
from palaver.model.search import Standing
from palaver.model.times import iso
from palaver.search import results as finding
from palaver.search.budget import cut_around
from palaver.search.followups import Following
from palaver.search.snippet import match_place
from palaver.search.sources import SOURCES
from palaver.text.fence import fenced, mark_for
from palaver.text.query import Query as Wanted

LOOKED_AT = 80
WITH_LATER = 10
"""So many of the best are shown with what took them back; only the very best with what answered it. More answers would
take the room of other evidence."""
LONGEST_PART = 700
"""Characters of one passage; of a longer one the part around the match. With more, fewer passages have room."""
SHORTEST_PART = 250
SHOWN_FULLY = 2
"""The best are shown so far in any case. Of the others less where the budget is small,"""
HAVE_ROOM = 16
"""so that about so many have room."""
PER_TOKEN = 4
UNFENCED = 16
"""Characters that may be shown where a fence has no room."""


@dataclass(frozen=True)
class Context(OmitsDefaults):
    """Evidence: passages with where they stand, between two lines with a mark made for this answer. `hits` are in
    `text`; `more` says that others did not fit. Where there is no evidence, `hint` says why."""

    omit_if_default = ("hint",)

    text: str
    hits: int
    more: bool
    matched: finding.Matched
    hint: str | None = None

    @property
    def length(self) -> int:
        """Characters of the answer as it is sent."""
        return len(orjson.dumps(self).decode())


def with_company(shown: list[Standing], beside: Mapping[int, Following]) -> list[Standing]:
    """Each passage once: the best right before what answers it, and those that were taken back before what did so."""
    found: dict[int, Standing] = {}
    for number, at in enumerate(shown):
        found.setdefault(at.passage_id, at)
        answer, later = beside.get(at.passage_id, Following())
        for other in (answer if number == 0 else None, later):
            if other:
                found.setdefault(other.passage_id, other)
    return list(found.values())


def packed(
    passages: list[Standing],
    query: Wanted | None,
    budget: int,
    matched: finding.Matched,
) -> Context:
    """As many of the passages, best first, as fit in so many characters of JSON: one at least, if there is any."""
    chosen: list[tuple[Standing, str]] = []
    mark = mark_for(*(_text([(at, at.text)]) for at in passages))
    best = Context("", 0, False, matched)
    usual = min(LONGEST_PART, max(SHORTEST_PART, budget // HAVE_ROOM))
    for number, at in enumerate(passages):
        part = _part(at, query, LONGEST_PART if number < SHOWN_FULLY else usual)
        more = number + 1 < len(passages)
        fuller = Context(fenced(_text([*chosen, (at, part)]), mark), len(chosen) + 1, more, matched)
        if fuller.length > budget and not chosen:
            best = _squeezed(at, query, budget, more, matched, mark)
            chosen.append((at, best.text))
            break
        if fuller.length <= budget:
            chosen.append((at, part))
            best = fuller
    has_more = len(chosen) < len(passages)
    final = Context(best.text, best.hits, has_more, matched)
    return final if final.length <= budget or not chosen else best


def _squeezed(
    at: Standing, query: Wanted | None, budget: int, more: bool, matched: finding.Matched, mark: str
) -> Context:
    """One passage in very little room: with its name if that leaves most of the room for what it says. Where there is
    no room even for a fence, a few characters of it are shown and no more."""
    size = len(" ".join(at.text.split()))
    for has_name, has_fence in ((True, True), (False, True), (False, False)):
        room = budget if has_fence else min(budget, UNFENCED)
        while room > 0:
            part = _part(at, query, room)
            text = _text([(at, part)]) if has_name else part
            if has_name:
                least = min(len(text), size) // 2
            else:
                least = min(UNFENCED, size) if has_fence else 0
            context = Context(fenced(text, mark) if has_fence else text, 1, more, matched)
            if context.length <= budget and len(part) >= least:
                return context
            room -= max(1, min(context.length - budget, room // 2)) if context.length > budget else room
    return Context("", 1, more, matched)


def _part(at: Standing, query: Wanted | None, most: int) -> str:
    text = " ".join(at.text.split())
    if len(text) <= most:
        return text
    place = match_place(text, query) if query else None
    cut = cut_around(text, max(0, most - 2), place)
    return ("" if text.startswith(cut) else "…") + cut + ("" if text.endswith(cut) else "…")


def _text(chosen: Iterable[tuple[Standing, str]]) -> str:
    """Grouped by where they stand; the best group first, inside it in order."""
    groups: dict[int, list[tuple[Standing, str]]] = {}
    for at, part in chosen:
        groups.setdefault(at.document_id, []).append((at, part))
    blocks = []
    for group in groups.values():
        first = group[0][0]
        lines = [_heading(first)]
        lines += [_line(at, part) for at, part in sorted(group, key=lambda one: one[0].position)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _heading(at: Standing) -> str:
    uri = SOURCES[at.source].uri_of(at.document, at.native_id, 0)
    day = iso(at.created_at or at.document_created)[:10]
    return f"# {at.title} ({uri}, {day})" if at.title else f"# {uri}, {day}"


def _line(at: Standing, part: str) -> str:
    if not SOURCES[at.source].is_said or not at.position:
        return part
    return f"[{at.position}] {SOURCES[at.source].sender_of(at) or 'somebody'}: {part}"
