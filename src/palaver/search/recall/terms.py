"""Which terms of a question a passage has, and how much of the question they cover.

A `TermSet` is an int with a bit for each term, each related word and the theme. Only this module knows the bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from palaver.store.engines import bm25

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
