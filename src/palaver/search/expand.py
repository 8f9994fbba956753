"""Query expansion: words related to the terms of a question, and words of its theme."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from palaver.search.question import Question
from palaver.search.vectors import words as word_vectors
from palaver.text.query import Phrase
from palaver.text.tokenize import stem

MOST_EXPANDED = 8
"""The first terms of a question that are expanded."""


@dataclass(frozen=True)
class Expansion:
    """The terms of a question, and the other words to look for. Keywords are not expanded."""

    question: Question
    related: tuple[tuple[Phrase, ...], ...]
    """For each of the first terms, words with nearly the same meaning."""
    stems: frozenset[str]

    @cached_property
    def theme(self) -> tuple[Phrase, ...]:
        """Words close in meaning to the question as a whole. Computed when first used: most searches do not need it."""
        if not self.question.is_asked:
            return ()
        return tuple(Phrase((word,)) for word in word_vectors.theme(self.question.words, self.stems))


def expand(question: Question) -> Expansion:
    """Add related words to a question."""
    stems = frozenset(stem(word) for term in question.terms for word in term.words)
    related: list[tuple[Phrase, ...]] = []
    for term in question.terms[:MOST_EXPANDED] if question.is_asked else ():
        others = word_vectors.related(term.words[0]) if len(term.words) == 1 and not term.prefix else ()
        related.append(tuple(Phrase((word,)) for word in others if stem(word) not in stems))
    return Expansion(question, tuple(related), stems)
