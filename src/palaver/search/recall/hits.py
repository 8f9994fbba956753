"""Hits: the passages that a search found in the index, with the terms that each of them has. No text has been read.

A `TermSet` is an int with a bit for each term, each related word and the theme. Only `TermWeights` knows the bits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise, zip_longest
from operator import neg
from typing import TYPE_CHECKING

from palaver.store.engines import bm25
from palaver.store.engines.id_ranges import WIDTH

if TYPE_CHECKING:
    from palaver.search.vectors.encoders import Array
    from palaver.search.vectors.nearest import Nearest

MOST_CANDIDATES = 10_000
MOST_IN_TIME = 200
"""Hits from a period of the question that are placed before others."""
PLACED = 300
"""The best hits whose documents and positions are looked up."""
EQUAL_SIGNS = 5.0
"""How much the share of equal signs of two vectors counts beside the cover, when it is decided which hits to place."""
IN_TIME = 0.5
"""How much more is expected of a passage from a period of the question when it is decided which ones to read."""
TermSet = int
"""The terms of a question that a passage has."""

RELATED = 0.5
"""The value of a related word, as a share of the value of the word itself."""


def only(term: int) -> TermSet:
    """The set of one term, given by its number in the question."""
    return 1 << term


@dataclass(frozen=True, slots=True)
class TermWeights:
    """How much each term counts. Rare terms count more; related words and the theme count half.

    In a `TermSet`, bit n is term n, bit n + (number of terms) is a word related to term n, and the last bit is a word
    of the theme.
    """

    rarity: tuple[float, ...]
    related: tuple[float, ...]
    theme: float = 0.0
    _cover: dict[TermSet, float] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def related_to(term: int, count: int) -> TermSet:
        """The set of a word related to one of `count` terms; `term == count` means the theme."""
        return 1 << term + count

    @property
    def everything(self) -> TermSet:
        """All terms of the question."""
        return (1 << len(self.rarity)) - 1

    def has_all(self, terms: TermSet) -> bool:
        return terms & self.everything == self.everything

    def own_terms(self, terms: TermSet) -> TermSet:
        """The terms themselves, without related words and the theme."""
        return terms & self.everything

    def numbers(self, terms: TermSet) -> Iterator[int]:
        """The numbers of the terms in a set, without related words and the theme."""
        return (number for number in range(len(self.rarity)) if terms >> number & 1)

    def cover(self, terms: TermSet) -> float:
        """How much of the question these terms cover, from 0 to 1."""
        known = self._cover.get(terms)
        if known is None:
            count = len(self.rarity)
            value = sum(
                rare if terms >> n & 1 else RELATED * like if terms >> n + count & 1 else 0.0
                for n, (rare, like) in enumerate(zip(self.rarity, self.related, strict=True))
            )
            if terms >> 2 * count & 1:
                value += RELATED * self.theme
            known = self._cover[terms] = value / (sum(self.rarity) or 1.0)
        return known

    def frequency(self, passages: Mapping[TermSet, int]) -> float:
        """How often the terms occur in a document, given how many of its passages have each set of terms. The tenth
        occurrence counts less than the first."""
        count, found = len(self.rarity), []
        for n, (rare, like) in enumerate(zip(self.rarity, self.related, strict=True)):
            itself = sum(times for terms, times in passages.items() if terms >> n & 1)
            instead = sum(times for terms, times in passages.items() if terms >> n + count & 1 and not terms >> n & 1)
            times = itself + (RELATED * instead * like / rare if rare else 0.0)
            found.append((rare, times))
        return bm25.score(found)


@dataclass(frozen=True, slots=True)
class Hits:
    """Which passages have which terms."""

    by_terms: dict[TermSet, set[int]]
    weights: TermWeights
    too_common: tuple[int, ...] = ()
    """Terms that were looked up only together with other terms, because too many passages have them."""
    truncated: tuple[int, ...] = ()
    """Terms of which only the newest passages were collected."""
    are_few: bool = False
    """Few passages have any of the terms."""
    lookups: dict[TermSet, list[int]] = field(default_factory=dict, repr=False)
    """The passages that each lookup found."""
    best: tuple[int, ...] = ()
    """If very many passages have all keywords: the ones that the index ranks first."""
    in_time: frozenset[int] = frozenset()
    """The passages from a period that the question names. They come before others."""
    spoken: frozenset[int] = frozenset()
    """The passages of the speaker that the question names. They come before others."""
    vector: Array | None = field(default=None, repr=False)
    """The vector of the question; None for keywords, and without a model."""
    near: Nearest | None = field(default=None, repr=False)
    """How far all passages are from the question."""
    nearest: tuple[int, ...] = ()
    """The passages that are nearest in meaning. They come before others."""
    placed: int = PLACED
    """How many of the best hits are placed."""

    @property
    def preferred(self) -> frozenset[int]:
        """The passages of the period and of the speaker, or those of either."""
        return self.in_time & self.spoken or self.in_time | self.spoken

    def among(self, passage_ids: Iterable[int]) -> set[int]:
        """Those of some passages that have any of the terms."""
        some = set(passage_ids)
        return {id for ids in self.by_terms.values() for id in ids & some}

    def terms_of(self, passage_id: int) -> TermSet:
        return next((terms for terms, ids in self.by_terms.items() if passage_id in ids), 0)

    @property
    def count(self) -> int:
        return sum(map(len, self.by_terms.values()))

    @property
    def is_capped(self) -> bool:
        """Some passages with some of the terms were not considered."""
        return bool(self.too_common or self.truncated) or self.count > MOST_CANDIDATES

    def with_all_terms(self) -> list[int] | None:
        """The passages that have all terms, except terms that nearly all passages have. None if all terms are such."""
        known = set(range(len(self.weights.rarity))) - {*self.too_common, *self.truncated}
        wanted = sum(map(only, known))
        if not wanted:
            return None
        return [id for terms, ids in self.by_terms.items() if terms & wanted == wanted for id in ids]

    def best_first(self, most: int = MOST_CANDIDATES) -> dict[int, TermSet]:
        """The passages with their terms. Those that cover most of the question come first, then the newest of each
        source in turn. If the distances in meaning are known, they count too."""
        if self.near:
            return self._by_cover_and_meaning(self.near, most)
        best = dict.fromkeys(self.best, self.weights.everything)
        in_order = sorted(self.by_terms, key=lambda terms: (-self.weights.cover(terms), terms))
        if first := self.preferred:
            some_first = ((id, terms) for terms in in_order for id in sorted(self.by_terms[terms] & first)[::-1])
            best = dict(islice(some_first, MOST_IN_TIME)) | best
        for terms in in_order:
            if len(best) >= most:
                break
            some = self.by_terms[terms]
            if terms in self.lookups:  # a lookup is nearly in order, a set is not
                newest = [id for id in sorted(self.lookups[terms], reverse=True) if id in some]
            else:
                newest = sorted(some, reverse=True)
            others = [id for id in newest if id not in best]
            best |= dict.fromkeys(_newest_of_each_source(others, most - len(best)), terms)
        return best

    def _by_cover_and_meaning(self, near: Nearest, most: int) -> dict[int, TermSet]:
        groups = list(self.by_terms.items())
        covers = [self.weights.cover(terms) for terms, _ in groups]
        ids = near.best_first([ids for _, ids in groups], covers, EQUAL_SIGNS, self.preferred, IN_TIME)
        best = dict.fromkeys((*self.nearest, *ids[:most]))
        wanted = set(best)
        terms_of = {id: terms for terms, some in groups for id in some & wanted}
        return {id: terms_of[id] for id in islice(best, most)}


def _newest_of_each_source(ids: list[int], most: int) -> list[int]:
    """The newest passages of each source in turn, titles before bodies. `ids` are sorted, highest first."""
    ends = [0]
    while ends[-1] < len(ids):
        id_range = ids[ends[-1]] // WIDTH
        ends.append(bisect_left(ids, -id_range * WIDTH + 1, ends[-1], key=neg))
    ranges = [ids[first:last][:most] for first, last in pairwise(ends)]
    if len(ranges) < 2:
        return ids[:most]
    ranges.sort(key=lambda some: not some[0] // WIDTH % 2)
    return [id for some in zip_longest(*ranges) for id in some if id is not None][:most]
