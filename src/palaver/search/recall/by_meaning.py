"""Candidates by meaning: the passages whose vectors are nearest to the question, besides those that have its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from palaver.search.question import Question
from palaver.search.recall.hits import Hits
from palaver.search.vectors import meaning, nearest
from palaver.search.vectors import words as word_vectors
from palaver.store.engines.database import Reader, Scope

NEAREST = 200
"""The nearest passages, which become candidates."""
LEAST_SIMILAR = 0.2
"""Passages that are less similar are no candidates: the nearest of unrelated texts answer nothing. Of messages that
answer a question 14 % are below, and most of these have words of it; of others in its conversations 72 %."""
ENOUGH_KNOWN = 0.5
"""The share of its words that the model must know. It knows English."""


def add_nearest(read: Reader, question: Question, scopes: Sequence[Scope], hits: Hits) -> Hits:
    """Add the passages that are nearest in meaning to a question. Keywords are found by their words only."""
    if not question.is_asked or word_vectors.share_known(question.terms) < ENOUGH_KNOWN:
        return hits
    vector = meaning.question_vector(read, question.text)
    if vector is None:
        return hits
    near = nearest.nearest(read, vector)
    if near is None:
        return replace(hits, vector=vector)
    best = tuple(near.in_scope(read, scopes, NEAREST, LEAST_SIMILAR))
    without_terms = set(best) - hits.among(best)
    by_terms = {**hits.by_terms, 0: hits.by_terms.get(0, set()) | without_terms} if without_terms else hits.by_terms
    return replace(hits, by_terms=by_terms, vector=vector, near=near, nearest=best)
