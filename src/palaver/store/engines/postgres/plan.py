"""Where the index is looked up: everywhere, or in the newest passages only, if very many match.

GIN cannot read the newest matches first: all matches of a common word would be read. So passages with neighbouring ids
share a lexeme of their block, and the newest blocks are looked in first.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import ceil, prod
from typing import NamedTuple

from palaver.store.engines.database import SCOPE, STEM, Connection, Groups, Row, Scope
from palaver.store.engines.postgres import tsqueries
from palaver.text.query import AllOf, AnyOf, Near, Nothing, Phrase, Preferring, Query, Without
from palaver.text.tokenize import stem, stems

BLOCK, LARGE_BLOCK = 8_192, 131_072
"""The number of ids in a block of passages, and in a large one. Each block has a lexeme of its own."""
MOST_BLOCKS = 24
"""GIN compares each match with each of the blocks that it is given."""
MORE_THAN_WANTED = 1.1
"""How many more matches than wanted should be in the blocks."""
MOST_TIMES_BY_CHANCE = 4
"""How many times more passages may have two terms than if one said nothing about the other."""
READ_AGAIN_SECONDS = 60.0
"""A transaction that began before an ANALYZE sees the statistics of the one before. So they are read again."""


# What the server knows about the index


@dataclass(frozen=True, slots=True)
class Statistics:
    """The most common terms, with the share of passages that have them, and sums. A term that is not among them is
    rare. Reading the terms takes longer than most lookups, so they are read once for each ANALYZE."""

    shares: Mapping[str, float] = field(default_factory=dict)
    """In alphabetical order."""
    terms: Sequence[str] = ()
    """The same terms, in the same order."""
    analyses: int = -1
    """How often the table had been analysed when these were read."""
    read_at: float = 0.0
    passages: int = 0
    """About how many there are."""
    usual_length: float = 1.0
    """How many tokens a passage has on average."""
    counted: int = 1
    """How many passages have a length."""

    def of(self, lexemes: Iterable[str]) -> float:
        """The share of passages with one of these lexemes, at most."""
        return min(1.0, sum(self.shares.get(lexeme, 0.0) for lexeme in lexemes))

    def of_token(self, token: str) -> float:
        """The share of passages with a token. A word that is its own stem is in the index as the word only."""
        word = token.removeprefix(STEM)
        return self.of([token, word] if word != token and stem(word) == word else [token])

    def of_query(self, query: Query) -> float:
        """The share of passages that match a query, at most: a text has all words of a phrase."""
        match query:
            case Phrase(words, prefix):
                whole = words[:-1] if prefix else words
                return min([*(self.of([word]) for word in whole), *([self._of_prefix(words[-1])] if prefix else [])])
            case Near(parts, _) | AllOf(parts):
                return min((self.of_query(part) for part in parts), default=1.0)
            case AnyOf(parts):
                return min(1.0, sum(self.of_query(part) for part in parts))
            case Without(wanted, _) | Preferring(wanted, _):
                return self.of_query(wanted)
            case Nothing():
                return 0.0

    def _of_prefix(self, prefix: str) -> float:
        begun = takewhile(lambda term: term.startswith(prefix), self.terms[bisect_left(self.terms, prefix) :])
        return self.of(begun)

    def of_group(self, group: Sequence[Phrase]) -> float:
        """The share of passages that have one of these terms, with any ending, at most."""
        return min(1.0, sum(map(self._of_any_ending, group)))

    def _of_any_ending(self, term: Phrase) -> float:
        alone = min(self.of_token(STEM + one) for one in stems(term.words))
        return min(1.0, alone + self.of_query(term)) if term.prefix else alone

    def of_scope(self, scope: Scope) -> float:
        groups = tsqueries.wanted_scopes(scope)
        return min((self.of([SCOPE + token for token in group]) for group in groups), default=1.0)


def read_statistics(connection: Connection, known: Statistics) -> Statistics:
    """The statistics of now. The terms are those that are known, unless there are newer ones."""
    sql = connection.dialect.sql
    row = connection.fetch(sql("index_statistics"), {})[0]
    shares, terms, read_at = known.shares, known.terms, known.read_at
    if row["analyses"] != known.analyses or time.monotonic() - read_at > READ_AGAIN_SECONDS:
        shares = dict(sorted(connection.fetch_tuples(sql("common_terms"), {})))
        terms, read_at = tuple(shares), time.monotonic()
    counted = max(1, row["counted"])
    usual = max(1.0, row["tokens"] / counted)
    return Statistics(shares, terms, row["analyses"], read_at, row["passages"], usual, counted)


# Where to look


class Expected(NamedTuple):
    """Which shares of all passages match, as far as that is known before."""

    passages: int
    """About how many there are in the index."""
    likely: float
    most: float
    begun: float = 0.0
    """The share that has a word with a beginning that is asked for. GIN would collect all of them."""
    others: float = 1.0
    """The share that meets the other conditions."""

    @property
    def checks_beginnings(self) -> bool:
        """Are beginnings checked in the passages that meet the other conditions, because these are fewer?"""
        return self.others < self.begun


def expected_of_query(query: Query, scope: Scope, statistics: Statistics) -> Expected:
    conditions = tsqueries.conditions(query)
    shares = [(tsqueries.printed(one), statistics.of_query(one)) for one in conditions]
    of_scope = statistics.of_scope(scope)
    share = statistics.of_query(query) * of_scope
    return _expected(scope, statistics, shares, of_scope, share, share)


def expected_of_groups(groups: Groups, scope: Scope, statistics: Statistics) -> Expected:
    shares = [(tsqueries.any_stem(group), statistics.of_group(group)) for group in groups]
    of_scope = statistics.of_scope(scope)
    most = of_scope * min((share for _, share in shares), default=1.0)
    by_chance = of_scope * prod(share for _, share in shares) * MOST_TIMES_BY_CHANCE
    return _expected(scope, statistics, shares, of_scope, min(most, by_chance) if len(shares) > 1 else most, most)


def _expected(
    scope: Scope,
    statistics: Statistics,
    shares: Sequence[tuple[str, float]],
    of_scope: float,
    likely: float,
    most: float,
) -> Expected:
    begun = sum(share for condition, share in shares if tsqueries.has_beginning(condition))
    others = min((share for condition, share in shares if not tsqueries.has_beginning(condition)), default=1.0)
    if scope.is_timed:  # most matches may be outside the period
        likely = most = 0.0
    return Expected(statistics.passages, likely, most, begun, of_scope * others)


def newest_first(
    connection: Connection,
    look_up: Callable[[Sequence[str]], list[Row]],
    wanted: int,
    expected: Expected,
) -> list[Row]:
    """Look up the newest matches: in some blocks, if these should have as many as wanted, and everywhere otherwise.

    `look_up` gets the condition on the blocks. Each of its rows tells how many `matches` there are.
    """
    if not expected.likely or expected.most * expected.passages <= MORE_THAN_WANTED * wanted:
        return look_up(())
    newest = connection.fetch(connection.dialect.sql("newest_indexed"), {})[0]["id"]
    share = expected.likely
    for _ in range(2):
        ids = MORE_THAN_WANTED * wanted / share
        size = BLOCK if ids <= MOST_BLOCKS * BLOCK else LARGE_BLOCK
        blocks = 1 + ceil(ids / size)  # the newest block is not full
        # Passages with the rarest term, or all that may have the beginning of a word, are compared with the blocks.
        compared = blocks * size * (expected.others if expected.begun else expected.most)
        if blocks > 1 + MOST_BLOCKS or compared > newest * share:
            break
        found = look_up([_any_block([newest // size - number for number in range(blocks)], size)])
        if count(found) >= wanted:
            return found
        share = max(count(found), 1) / (blocks * size)
    return look_up(())


def count(rows: Sequence[Row]) -> int:
    """How many matches there are, of which these are the best or the first."""
    return rows[0]["matches"] if rows else 0


def block_tokens(passage_id: int) -> tuple[str, str]:
    """The lexemes of the blocks of a passage. All passages of a block have them: their ids are next to each other."""
    return _token(passage_id // BLOCK, BLOCK), _token(passage_id // LARGE_BLOCK, LARGE_BLOCK)


def _any_block(numbers: Iterable[int], size: int) -> str:
    """The condition that a passage is in one of these blocks."""
    return "(" + " | ".join(f"'{_token(number, size)}'" for number in numbers) + ")"


def _token(number: int, size: int) -> str:
    return f"{SCOPE}{'block' if size == BLOCK else 'largeblock'}{number}"
