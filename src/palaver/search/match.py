"""Match an expression: bm25 search in one source, for messages of the bus and turns of sessions.

`search` ranks passages for a question. These searches return exactly the passages that match, in the order of bm25.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from palaver.model.library import is_unique
from palaver.model.sessions import Turn
from palaver.store.bus import messages
from palaver.store.bus.messages import FoundPost
from palaver.store.engines.database import Lookup, RankedPassage, Reader, Scope
from palaver.store.sessions import sessions
from palaver.text.query import AllOf, Query, apart, together

PHRASE_BONUS = 1_000.0
"""Added to the score of a passage with all words side by side, in order. It is more than any bm25 score."""
BELOW = 0.99
"""The best score of a passage with joined words apart, as a share of the worst score of one with them together."""
MOST_EQUALS = 1_000
"""Matches with the same score that are sorted by time."""


@dataclass(frozen=True, slots=True)
class RankedPage:
    """A page of matches, best first. `capped`: only the newest matches were ranked, because there were too many."""

    hits: list[RankedPassage]
    has_more: bool
    capped: bool


def match_messages(read: Reader, query: Query, scope: Scope, limit: int) -> tuple[list[FoundPost], RankedPage]:
    """The best messages of the bus. The text is read for one page only."""
    page = match(read, query, scope, limit)
    return messages.by_passages(read, [hit.passage_id for hit in page.hits]), page


def match_turns(read: Reader, query: Query, scope: Scope, limit: int) -> tuple[list[Turn], bool]:
    """The best turns of sessions; turns of the same score are sorted newest first. A turn that a fork copied is found
    once. Also whether only the newest matches were ranked."""
    ranked = limit + MOST_EQUALS  # ranking takes long, but more hits of it cost little
    while True:
        page = match(read, query, scope, ranked)
        found: dict[tuple[str, ...], Turn] = {}
        end = 0
        while len(found) < limit and end < len(page.hits):  # some may be copies
            begin, end = end, end + limit
            # The engine does not sort by time, so all turns with the score of the last one are read.
            while end < len(page.hits) and page.hits[end].score == page.hits[end - 1].score:
                end += 1
            some = page.hits[begin:end]
            turns = sessions.turns_by_passage(read, [hit.passage_id for hit in some])
            for hit in sorted(some, key=lambda hit: (-hit.score, -turns[hit.passage_id].ts.timestamp())):
                turn = turns[hit.passage_id]
                own = (turn.agent_id, turn.id, turn.content)  # a fork copies its first turns, with their ids
                found.setdefault(own if is_unique(turn.id) else (*own, turn.session_id), turn)
        if len(found) >= limit or not page.has_more:
            return list(found.values())[:limit], page.capped
        ranked *= 20


def match(read: Reader, query: Query, scope: Scope, limit: int) -> RankedPage:
    """The best matches by bm25. After them come passages in which words that a sign joins (TCP/IP) are apart."""
    page = _match_phrase_first(read, query, scope, limit)
    loose = None if page.has_more else apart(query)
    if loose is None:
        return page
    known = {hit.passage_id for hit in page.hits}
    also = _match_phrase_first(read, loose, scope, limit + len(known))
    others = [hit for hit in also.hits if hit.passage_id not in known]
    scale = BELOW * page.hits[-1].score / max(others[0].score, 1e-9) if known and others else 1.0
    hits = page.hits + [RankedPassage(hit.passage_id, hit.score * scale) for hit in others]
    return RankedPage(hits[:limit], has_more=also.has_more or len(hits) > limit, capped=page.capped or also.capped)


def _match_phrase_first(read: Reader, query: Query, scope: Scope, limit: int) -> RankedPage:
    """The best matches by bm25. Passages with all words side by side, in order, come first."""
    phrase = together(query)
    if phrase is None:
        return _best(read, query, scope, limit)
    best = _best(read, AllOf((query, phrase)), scope, limit)
    first = [RankedPassage(hit.passage_id, hit.score + PHRASE_BONUS) for hit in best.hits]
    if best.has_more:
        return replace(best, hits=first, capped=best.capped or _best(read, query, scope, 0).capped)
    others = _best(read, query, scope, limit + len(first))
    known = {hit.passage_id for hit in first}
    hits = first + [hit for hit in others.hits if hit.passage_id not in known]
    return RankedPage(hits[:limit], has_more=len(hits) > limit or others.has_more, capped=others.capped)


def _best(read: Reader, query: Query, scope: Scope, limit: int) -> RankedPage:
    found = read.look_up(Lookup(scope, limit, query=query, order="best"))
    return RankedPage(found.hits, found.has_more, found.is_capped)
