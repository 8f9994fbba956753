"""BM25: the formula, and scores computed from the matches alone, for callers who may not read everything.

Passages that the caller may not read have no influence on those scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import NamedTuple

from palaver.store.engines.database import RankedPassage, Scope
from palaver.text.query import Query, count_phrases

RANKED_AT_MOST, FEW_RANKED = 20_000, 5_000
"""How many of the newest matches are ranked; and for such callers, while words are typed, and where texts are read to
see whether words are near each other."""
FEWEST_RANKED = 500
"""At least this many of the newest matches are ranked, however many phrases a query has."""
K1, B = 1.2, 0.75  # the values of FTS5's bm25


class MatchCounts(NamedTuple):
    """A match: its length in tokens, and how often each phrase of the query occurs in it."""

    passage_id: int
    length: int
    times: Sequence[float]


def ranked_at_most(query: Query, scope: Scope, lookups: int, *, is_slow: bool = False) -> int:
    """How many of the newest matches are ranked. There are fewer if each has many phrases to count: `lookups` is how
    often all phrases together are counted."""
    most = FEW_RANKED if scope.is_blind or scope.is_typed or is_slow else RANKED_AT_MOST
    return min(most, max(FEWEST_RANKED, lookups // max(1, count_phrases(query))))


def score(terms: Iterable[tuple[float, float]], length: float = 1.0) -> float:
    """The BM25 score of a text, from how rare each term is and how often it occurs. `length` is a share of the usual
    length."""
    slow = K1 * (1 - B + B * length)
    return sum([rare * count * (K1 + 1) / (count + slow) for rare, count in terms])


def rank_among_matches(matches: Sequence[MatchCounts]) -> list[RankedPassage]:
    """Rank matches, best first. Rarity of phrases and average length are those among these matches."""
    if not matches:
        return []
    usual = sum(one.length for one in matches) / len(matches) or 1.0
    having = [sum(map(bool, column)) for column in zip(*(one.times for one in matches), strict=True)]
    rarity = [log(1 + (len(matches) + 0.5) / (count + 0.5)) for count in having]
    found = []
    for passage_id, length, times in matches:
        found.append(RankedPassage(passage_id, score(zip(rarity, times, strict=True), length / usual)))
    return sorted(found, key=lambda hit: (-hit.score, -hit.passage_id))
