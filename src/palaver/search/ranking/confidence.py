"""Confidence: how likely an answer is among the first ten results, from 0 to 1.

A logistic regression over a few signs. Only what the caller may read counts: the passages that were read, and which
terms they have. The weights were learned from questions with and without an answer (docs/guides/ranking.md).
"""

from __future__ import annotations

from functools import reduce
from heapq import nlargest
from math import exp, log, log1p
from operator import or_
from statistics import median
from typing import NamedTuple

from palaver.search.hits import Hits, only
from palaver.search.question import Question
from palaver.search.ranking.score import SOFTNESS, Ranking, weights
from palaver.text.languages import ENGLISH

FIRST = 10
"""The results among which an answer is looked for."""
UNLIKELY = 0.2
"""Below this an answer is probably not in memory."""
_LEAST_SCORE = 1e-4


class Signs(NamedTuple):
    """What speaks for an answer. The weights in weights.toml have the same names."""

    points: float
    """The most points of a passage, as weighed by its features."""
    ahead: float
    """By how many points it is ahead of the median of the passages that were read."""
    stands_out: float
    """The same, as a multiple of their standard deviation."""
    second: float
    """How many points the second result is behind the first."""
    fifth: float
    """How many points the fifth result is behind the first."""
    missing: float
    """The share of the question that no passage has; rare terms count more."""
    cover: float
    """The most that a result covers of the question."""
    near: float
    """The most that a result covers of it within twenty words."""
    document_cover: float
    """How much the conversation of the first result covers."""
    words_like: float
    """How similar the words of the first result are to the terms."""
    meaning: float
    """How similar the first result is in meaning."""
    clear: float
    """How much more similar the most similar passage is than the median."""
    has_all: float
    """1 if a result has all terms."""
    is_asked: float
    is_word: float
    is_foreign: float
    """1 if the question is not in English."""
    is_assistant: float
    """1 if the first result is from talk with an assistant."""
    terms: float
    read: float
    """The logarithm of the number of passages that were read."""
    matches: float
    """The logarithm of the number of passages that were found. By chance more match in a larger memory."""
    length: float
    """The length of the first result. A long one covers more by chance."""
    always: float = 1.0


def confidence(question: Question, hits: Hits, ranking: Ranking) -> float:
    """How likely an answer is among the first results."""
    if not ranking.points:
        return 0.0
    signs = signs_of(question, hits, ranking)._asdict()
    without, with_meaning = (
        sum(weight * signs[name] for name, weight in weights()[table].items())
        for table in ("confidence", "confidence with meaning")
    )
    return round(1 / (1 + exp(-without - ranking.share_known * (with_meaning - without))), 3)


def signs_of(question: Question, hits: Hits, ranking: Ranking) -> Signs:
    points, usual, mean = max(ranking.points), median(ranking.points), sum(ranking.points) / len(ranking.points)
    spread = (sum((one - mean) ** 2 for one in ranking.points) / len(ranking.points)) ** 0.5
    read = [one for one in ranking.passages if one.features]
    first = nlargest(FIRST, read, key=lambda one: one.score)
    best, meanings = first[0].features, [one.features.meaning for one in read if one.features]
    assert best is not None
    known = reduce(or_, hits.by_terms, sum(map(only, {*hits.too_common, *hits.truncated})))
    rarity = hits.weights.rarity

    def behind(place: int, most: float) -> float:
        return -SOFTNESS * log(max(first[place].score / first[0].score, _LEAST_SCORE)) if place < len(first) else most

    return Signs(
        points=points,
        ahead=points - usual,
        stands_out=(points - usual) / (spread + 0.3),
        second=behind(1, 4.0),
        fifth=behind(4, 6.0),
        missing=sum(rare for n, rare in enumerate(rarity) if not known & only(n)) / (sum(rarity) or 1.0),
        cover=max(one.features.cover for one in first if one.features),
        near=max(one.features.near for one in first if one.features),
        document_cover=best.document_cover,
        words_like=best.words_like,
        meaning=best.meaning,
        clear=max(meanings) - median(meanings),
        has_all=float(any(one.has_all for one in first)),
        is_asked=float(question.is_asked),
        is_word=float(question.is_word),
        is_foreign=float(question.language is not ENGLISH),
        is_assistant=float(ranking.is_assistant),
        terms=min(len(question.terms), 12) / 12,
        read=log1p(len(read)),
        matches=log1p(hits.count),
        length=best.length,
    )
