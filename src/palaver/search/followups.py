"""What belongs to a message that was found: the turn that answers it, if it asks, and a later one that takes it back.

Two lookups for a whole page: which passages come after the results (no text is read for that), and the texts of the
few among them that may be it. What the index gathered for the question says which of them speak of the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from palaver.model.search import Standing
from palaver.search.recall import Gathered
from palaver.search.sources import SOURCES
from palaver.search.turns import asks, asks_in_return, takes_back
from palaver.store.engines.database import Reader
from palaver.store.search import found_passages
from palaver.text.query import Phrase
from palaver.text.tokenize import stem

NEXT = 4
"""An answer comes within so many turns;"""
FAR = 400
"""what takes something back may come much later."""
MOST_LATER = 20
"""So many messages about the same thing are read for one result, the latest of them,"""
MOST_READ = 150
"""and so many for a page."""
SAME = 0.3
"""How much of what a result covers of the question another must cover to be about the same thing."""

_ANSWERERS = frozenset({"assistant", "ai", "model", "bot", "system", "tool"})
_NOT_TALKING = frozenset({"system", "tool"})


class Following(NamedTuple):
    answer: Standing | None = None
    later: Standing | None = None


def following(
    read: Reader,
    results: Iterable[Standing],
    terms: Sequence[Phrase],
    gathered: Gathered | None,
    is_hidden: Callable[[Standing], bool],
) -> dict[int, Following]:
    """By passage: what belongs to it, if anything. `is_hidden` tells what the one who asks may not read."""
    said = [at for at in results if SOURCES[at.source].is_said and at.position and not is_hidden(at)]
    if not said:
        return {}
    after = found_passages.passage_ids_in(read, [(at.document_id, at.position + 1, at.position + FAR) for at in said])
    answering = {at.passage_id: _next_ones(at, after) for at in said if _is_asking(at)}
    topics = {at.passage_id: _topic(at, gathered) for at in said}
    about = {at.passage_id: _about_the_same(at, after, topics[at.passage_id], gathered) for at in said}
    wanted = dict.fromkeys(id for ids in [*answering.values(), *about.values()] for id in ids)
    texts = found_passages.by_ids(read, list(wanted)[:MOST_READ]) if wanted else {}
    shown = {id: at for id, at in texts.items() if not is_hidden(at)}
    found = {}
    for at in said:
        answer = _answer(at, [shown[id] for id in answering.get(at.passage_id, ()) if id in shown])
        later = _later([shown[id] for id in about[at.passage_id] if id in shown], topics[at.passage_id], terms)
        if answer or later:
            found[at.passage_id] = Following(answer, later)
    return found


def _is_asking(at: Standing) -> bool:
    return _speaker(at).lower() not in _ANSWERERS and asks(at.text)


def _speaker(at: Standing) -> str:
    """In a session all turns have one author, the agent whose session it is: there the role tells who speaks."""
    return (at.role if at.source == "sessions" else at.author or at.role) or ""


def _next_ones(at: Standing, after: Mapping[int, Mapping[int, int]]) -> list[int]:
    ids = after.get(at.document_id, {})
    return [ids[place] for place in range(at.position + 1, at.position + 1 + NEXT) if place in ids]


def _answer(question: Standing, next_ones: Sequence[Standing]) -> Standing | None:
    """Who was answered says so; else the next one of somebody else that says something."""
    for at in next_ones:
        if at.marks.get("reply_to_msg_id") == question.native_id:
            return at
    for at in next_ones:
        is_other = _speaker(at) != _speaker(question) and (at.role or "").lower() not in _NOT_TALKING
        replies_elsewhere = at.marks.get("reply_to_msg_id") is not None
        if is_other and not replies_elsewhere and at.text.strip() and not asks_in_return(at.text):
            return at
    return None


def _topic(at: Standing, gathered: Gathered | None) -> int:
    """Which words of the question it has itself, as a mask."""
    if gathered is None:
        return 0
    return gathered.mask_of(at.passage_id) & ((1 << len(gathered.worth.rarity)) - 1)


def _about_the_same(
    at: Standing, after: Mapping[int, Mapping[int, int]], topic: int, gathered: Gathered | None
) -> list[int]:
    if gathered is None or not topic:
        return []
    worth, enough = gathered.worth, SAME * gathered.worth.of(topic)
    same = [ids for mask, ids in gathered.alike.items() if mask & topic and worth.of(mask & topic) >= enough]
    later = [id for place, id in after.get(at.document_id, {}).items() if place > at.position]
    found = set[int]().union(*(ids.intersection(later) for ids in same))
    later = [id for id in later if id in found]
    return later[-MOST_LATER:]


def _later(candidates: Sequence[Standing], topic: int, terms: Sequence[Phrase]) -> Standing | None:
    """The last one that takes something back: what holds now."""
    words = frozenset(stem(word) for number, term in enumerate(terms) if topic >> number & 1 for word in term.words)
    for at in sorted(candidates, key=lambda at: -at.position):
        if takes_back(at.text, words):
            return at
    return None
