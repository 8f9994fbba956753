"""bm25 of matches among themselves: quick, and only what matched has a part in it. So it is what callers get who may
not read everything."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

from palaver.store.engines.database import RankedPassage

RANKED_AT_MOST = 5_000
K1, B = 1.2, 0.75  # as in FTS5's bm25


class MatchCounts(NamedTuple):
    """A match: its length in tokens, and how often it has each phrase of the query."""

    passage_id: int
    length: int
    times: Sequence[float]


def rank_among_matches(matches: Sequence[MatchCounts]) -> list[RankedPassage]:
    """bm25, in which a phrase is as rare, and a text as long, as it is among these matches; best first."""
    if not matches:
        return []
    usual = sum(one.length for one in matches) / len(matches) or 1.0
    having = [sum(map(bool, column)) for column in zip(*(one.times for one in matches), strict=True)]
    rarity = [log(1 + (len(matches) + 0.5) / (count + 0.5)) for count in having]
    found = []
    for passage_id, length, times in matches:
        slow = K1 * (1 - B + B * length / usual)
        score = sum(
            rare * count * (K1 + 1) / (count + slow) for rare, count in zip(rarity, times, strict=True) if count
        )
        found.append(RankedPassage(passage_id, score))
    return sorted(found, key=lambda hit: (-hit.score, -hit.passage_id))
