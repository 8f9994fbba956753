"""Evidence for an answer: the best passages as one text within a budget.

Passages are added by score while they fit; long ones are cut around the match. Passages of one conversation are
grouped under its title, in order, with a fence around all of them. The budget holds for the whole answer as it is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from palaver.model import visibility
from palaver.model.answers import OmitsDefaults
from palaver.model.search import FoundPassage
from palaver.model.times import iso
from palaver.search import search
from palaver.search.ask import Ask
from palaver.search.followups import FollowUps, find_followups
from palaver.search.present import passages_to_show
from palaver.search.results import Matched
from palaver.search.snippet import cut_around, match_place
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader
from palaver.text.fence import fenced, mark_for
from palaver.text.query import Query

MOST_RESULTS = 80
"""Results that evidence is chosen from."""
WITH_FOLLOWUPS = 10
"""The best results that are shown with a later correction. Only the first is shown with its answer too."""
LONGEST_PART = 700
"""Characters of one passage; a longer one is cut around the match."""
SHORTEST_PART = 250
SHOWN_FULLY = 2
"""The best passages that always get `LONGEST_PART` characters."""
HAVE_ROOM = 16
"""About how many passages a small budget is divided among."""
UNFENCED = 16
"""Characters that may be shown where a fence has no room."""
ROOM_OF_NAME = len(',"read_as":')


@dataclass(frozen=True)
class Context(OmitsDefaults):
    """Evidence: passages with their places, between two lines with a random mark. `hits` counts the passages in `text`;
    `more` says that others did not fit. `read_as` are words that no passage has, each with the similar word that was
    searched instead. If there is no evidence, `hint` says why."""

    omit_if_default = ("read_as", "hint")

    text: str
    hits: int
    more: bool
    matched: Matched
    read_as: dict[str, str] | None = None
    hint: str | None = None

    @property
    def length(self) -> int:
        """Characters of the answer as it is sent."""
        return len(orjson.dumps(self).decode())


def evidence_for(read: Reader, ask: Ask, budget: int) -> Context:
    """Search, and pack the best passages into `budget` characters."""
    caller, question = ask.caller, ask.question
    results = search(read, question, ask.readable, "relevance", MOST_RESULTS)
    best = results.ranked[:MOST_RESULTS]
    places = passages_to_show(read, results, best)
    shown = [at for one in best if (at := places.get(one.best.passage_id)) and not visibility.is_hidden(caller, at)]
    followups = find_followups(read, caller, results, shown[:WITH_FOLLOWUPS])
    passages: dict[int, FoundPassage] = {}
    for number, at in enumerate(shown):
        passages.setdefault(at.passage_id, at)
        answer, later = followups.get(at.passage_id, FollowUps())
        for other in (answer if number == 0 else None, later):
            if other:
                passages.setdefault(other.passage_id, other)
    matched = replace(results, ranked=best).matched
    query, chosen = question.any_term if question.terms else None, list(passages.values())
    if read_as := dict(question.read_as):
        room = budget - len(orjson.dumps(read_as)) - ROOM_OF_NAME
        told = replace(pack(chosen, query, room, matched), read_as=read_as)
        if told.length <= budget:
            return told
    return pack(chosen, query, budget, matched)


def pack(passages: Sequence[FoundPassage], query: Query | None, budget: int, matched: Matched) -> Context:
    """Pack as many passages, best first, as fit into `budget` characters of JSON; at least one, if there is any."""
    chosen: list[tuple[FoundPassage, str]] = []
    mark = mark_for(*(_text([(at, at.text)]) for at in passages))
    best = Context("", 0, False, matched)
    usual = min(LONGEST_PART, max(SHORTEST_PART, budget // HAVE_ROOM))
    for number, at in enumerate(passages):
        part = _part(at, query, LONGEST_PART if number < SHOWN_FULLY else usual)
        more = number + 1 < len(passages)
        fuller = Context(fenced(_text([*chosen, (at, part)]), mark), len(chosen) + 1, more, matched)
        if fuller.length > budget and not chosen:
            best = _squeeze(at, query, budget, more, matched, mark)
            chosen.append((at, best.text))
            break
        if fuller.length <= budget:
            chosen.append((at, part))
            best = fuller
    has_more = len(chosen) < len(passages)
    final = Context(best.text, best.hits, has_more, matched)
    return final if final.length <= budget or not chosen else best


def _squeeze(at: FoundPassage, query: Query | None, budget: int, more: bool, matched: Matched, mark: str) -> Context:
    """One passage in very little room. It gets a heading only if most of the room is left for the text, and a few
    characters only if there is no room for a fence."""
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


def _part(at: FoundPassage, query: Query | None, most: int) -> str:
    text = " ".join(at.text.split())
    if len(text) <= most:
        return text
    place = match_place(text, query) if query else None
    cut = cut_around(text, max(0, most - 2), place)
    return ("" if text.startswith(cut) else "…") + cut + ("" if text.endswith(cut) else "…")


def _text(chosen: Iterable[tuple[FoundPassage, str]]) -> str:
    """Passages grouped by document: the best group first, and in order inside a group."""
    groups: dict[int, list[tuple[FoundPassage, str]]] = {}
    for at, part in chosen:
        groups.setdefault(at.document_id, []).append((at, part))
    blocks = []
    for group in groups.values():
        first = group[0][0]
        source = SOURCES[first.source]
        place = f"{source.uri_of(first.document, first.native_id, 0)}, "
        place += iso(first.created_at or first.document_created)[:10]
        lines = [f"# {first.title} ({place})" if first.title else f"# {place}"]
        for at, part in sorted(group, key=lambda one: one[0].position):
            is_message = source.is_conversation and at.position
            lines.append(f"[{at.position}] {source.sender_of(at) or 'unknown'}: {part}" if is_message else part)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
