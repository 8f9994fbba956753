"""The most common terms of the search index, and in which share of all passages they are.

The server's statistics have them. They are read once for each ANALYZE, because reading them takes longer than most
lookups. A term that is not among them is rare.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from palaver.store.engines.database import STEM, Connection
from palaver.text.query import AllOf, AnyOf, Near, Nothing, Phrase, Preferring, Query, Without
from palaver.text.tokenize import stem, stems

READ_AGAIN_SECONDS = 60.0
"""A transaction that began before an ANALYZE sees the statistics of the one before. So they are read again."""


@dataclass(frozen=True, slots=True)
class CommonTerms:
    shares: Mapping[str, float] = field(default_factory=dict)
    """In alphabetical order."""
    terms: Sequence[str] = ()
    """The same terms, in the same order."""
    analyses: int = -1
    """How often the table had been analysed when these were read."""
    read_at: float = 0.0
    least: float = 0.0
    """The share of passages that have the rarest of these terms. Others are in fewer."""

    def of(self, lexemes: Sequence[str]) -> float:
        """The share of passages with one of these lexemes, at most."""
        return min(1.0, sum(self.shares.get(lexeme, 0.0) for lexeme in lexemes))

    def of_prefix(self, prefix: str) -> float:
        """The share of passages with a word that begins so, at most."""
        first = bisect_left(self.terms, prefix)
        begun = takewhile(lambda term: term.startswith(prefix), self.terms[first:])
        return min(1.0, sum(self.shares[term] for term in begun))

    def of_query(self, query: Query) -> float:
        """The share of passages that match a query, at most: a text has all words of a phrase."""
        match query:
            case Phrase(words, prefix):
                whole = words[:-1] if prefix else words
                return min([*(self.of([word]) for word in whole), *([self.of_prefix(words[-1])] if prefix else [])])
            case Near(parts, _) | AllOf(parts):
                return min((self.of_query(part) for part in parts), default=1.0)
            case AnyOf(parts):
                return min(1.0, sum(self.of_query(part) for part in parts))
            case Without(wanted, _) | Preferring(wanted, _):
                return self.of_query(wanted)
            case Nothing():
                return 0.0

    def of_stems(self, groups: Sequence[Sequence[Phrase]]) -> float:
        """The share of passages that have a term of each group, with any ending, at most."""
        return min((min(1.0, sum(map(self._of_stems_of, group))) for group in groups), default=1.0)

    def _of_stems_of(self, term: Phrase) -> float:
        alone = min(self.of(lexemes_of(STEM + one)) for one in stems(term.words))
        return min(1.0, alone + self.of_query(term)) if term.prefix else alone


def lexemes_of(token: str) -> list[str]:
    """The lexemes that an index token may have. A word that is its own stem is in the index as the word only."""
    word = token.removeprefix(STEM)
    return [token, word] if word != token and stem(word) == word else [token]


def read(connection: Connection, known: CommonTerms, analyses: int) -> CommonTerms:
    """The terms that are known, or those of the newest statistics."""
    now = time.monotonic()
    if analyses == known.analyses and now - known.read_at < READ_AGAIN_SECONDS:
        return known
    rows = connection.fetch_tuples(connection.dialect.sql("common_terms"), {})
    shares = dict(sorted(rows))
    return CommonTerms(shares, tuple(shares), analyses, now, min(shares.values(), default=0.0))
