"""A search without words: the newest passages that its operators leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from palaver.model.search import Capped
from palaver.search import results
from palaver.search.question import Question
from palaver.search.ranking.score import ScoredPassage
from palaver.search.results import Results
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader, Scope
from palaver.store.search import found_passages

MOST_LISTED = 1_000
"""Passages that are listed at most."""


def list_newest(read: Reader, question: Question, scopes: Sequence[Scope]) -> Results:
    """All passages of the scopes, newest first. A conversation is listed by its messages, not by its title."""
    ids: dict[int, None] = {}
    for one in scopes:
        for part in _without_titles(one):
            ids |= dict.fromkeys(found_passages.newest(read, part, MOST_LISTED))
    listed = [ScoredPassage(at, 1.0, has_all=True, has_any=True) for at in found_passages.candidates(read, list(ids))]
    capped = Capped(len(listed), []) if len(listed) >= MOST_LISTED else None
    return Results(question, results.group(listed, "recent"), listed=tuple(ids), listed_capped=capped)


def _without_titles(scope: Scope) -> Iterator[Scope]:
    talk = tuple(source for source in scope.sources if SOURCES[source].is_conversation)
    texts = tuple(source for source in scope.sources if source not in talk)
    if talk and scope.bodies:
        yield replace(scope, sources=talk, titles=False)
    if texts:
        yield replace(scope, sources=texts)
