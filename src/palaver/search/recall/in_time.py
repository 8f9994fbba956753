"""Candidates by time: the passages of a period that the question names are looked at before others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from palaver.model.times import micros
from palaver.search.question import Question
from palaver.search.recall.hits import Hits
from palaver.store.engines.database import Lookup, Reader, Scope
from palaver.store.search import found_passages

WIDEST = timedelta(days=370)
"""Longer periods do not change which passages are looked at."""
WIDEST_WITHOUT_TERMS = timedelta(days=32)
"""Passages without any term are looked at only for periods up to this length."""
MOST_CHECKED = 2_000
"""The best hits whose time is looked up."""
FEW = 20
"""If fewer hits are from the period, its other passages are looked at too."""
MOST_WITHOUT_TERMS = 100
MOST_IN_PERIOD = 300
"""Passages of a period that are collected; some of them may have terms."""
LOOKED_AT = 3_000
"""The newest passages of a period that are looked at for those that the caller may read."""


def prefer_periods(read: Reader, question: Question, scopes: Sequence[Scope], hits: Hits) -> Hits:
    """Mark the hits that are from a period of the question. If there are few, add other passages of the period."""
    periods = [one for one in question.times if one.end - one.begin <= WIDEST]
    if not periods:
        return hits
    checked = hits.best_first(MOST_CHECKED)
    in_time = set[int]()
    for one in periods:
        in_time |= found_passages.timed_among(read, checked, micros(one.begin), micros(one.end) - 1)
    names_only_time = question.time_terms.issuperset(question.terms)
    if not names_only_time and not (question.is_asked and len(in_time) < FEW):
        return replace(hits, in_time=frozenset(in_time))
    others: dict[int, None] = {}
    for one in periods:
        if one.end - one.begin <= WIDEST_WITHOUT_TERMS:
            for scope in scopes:
                others |= dict.fromkeys(_passages_of(read, scope, micros(one.begin), micros(one.end) - 1))
    added = [id for id in others if id not in checked][:MOST_WITHOUT_TERMS]
    if not added:
        return replace(hits, in_time=frozenset(in_time))
    known = hits.among(added)
    by_terms = {**hits.by_terms, 0: hits.by_terms.get(0, set()) | (set(added) - known)}
    return replace(hits, by_terms=by_terms, in_time=frozenset({*in_time, *added}))


def _passages_of(read: Reader, scope: Scope, since: int, until: int) -> list[int]:
    """The newest passages of a scope in a period. A title says nothing about the time."""
    narrowed = replace(scope, titles=False, since=max(since, scope.since), until=min(until, scope.until))
    if not scope.bodies or narrowed.since > narrowed.until:
        return []
    return read.look_up(Lookup(narrowed, MOST_IN_PERIOD, order="latest", looked_at=LOOKED_AT)).ids
