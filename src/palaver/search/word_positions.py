"""Find words in a text by their stems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from palaver.text.query import Beginning
from palaver.text.tokenize import stem, stems


class WordMatches(NamedTuple):
    """Matches in a text as (place, number), in order: all of them, and those that are as typed."""

    places: list[tuple[int, int]]
    typed: list[tuple[int, int]]


class WordFinder:
    """Finds words and phrases, given by their numbers, in many texts. A `Beginning` at the end of a phrase also matches
    all words that begin with it."""

    def __init__(self, phrases: Iterable[Sequence[str]]) -> None:
        self._begun_by: defaultdict[str, list[tuple[int, list[str]]]] = defaultdict(list)
        self._typed: list[str] = []
        self._unfinished: list[tuple[int, str]] = []
        firsts = []
        for number, phrase in enumerate(phrases):
            first, *rest = stems(phrase)
            self._begun_by[first].append((number, rest))
            self._typed.append(f" {' '.join(phrase)} ")
            if isinstance(phrase[-1], Beginning):
                self._unfinished.append((number, f" {' '.join(phrase)}"))
                firsts.append(phrase[0])
        self._firsts = tuple(firsts)
        self._beginnings = _beginnings(self._begun_by, firsts)

    def places(self, text: Sequence[str], most: int | None = None) -> list[tuple[int, int]]:
        """(place, number) of each match in a text of folded words, in order."""
        return self.matches(f" {' '.join(text)} ", most).places

    def matches(self, line: str, most: int | None = None) -> WordMatches:
        """The matches in a text of folded words with a blank before and after each.

        Only words that begin like one of the stems are looked at. `most` limits how many of those are, for each
        beginning.
        """
        begun_by, firsts = self._begun_by, self._firsts
        likely = []
        for beginning in self._beginnings:
            at, left = line.find(beginning), len(line) if most is None else most
            while at >= 0 and left:
                end = line.find(" ", at + 1)
                one = stem(line[at + 1 : end])
                if one in begun_by or (firsts and line.startswith(firsts, at + 1)):
                    likely.append((at, end, one))
                    left -= 1
                at = line.find(beginning, end)
        likely.sort()
        found, typed = [], []
        place = counted = 0
        for at, end, one in likely:
            place, counted = place + line.count(" ", counted, at), at
            here = [
                number
                for number, rest in begun_by.get(one, ())
                if not rest or _next_stems(line, end, len(rest)) == rest
            ]
            here += [number for number, begun in self._unfinished if number not in here and line.startswith(begun, at)]
            for number in here:
                found.append((place, number))
                if line.startswith(self._typed[number], at):
                    typed.append((place, number))
        return WordMatches(found, typed)


def _next_stems(line: str, at: int, count: int) -> list[str]:
    """The stems of the next words after a blank."""
    found: list[str] = []
    while len(found) < count and (end := line.find(" ", at + 1)) >= 0:
        found.append(stem(line[at + 1 : end]))
        at = end
    return found


def _beginnings(wanted: Iterable[str], unfinished: Iterable[str]) -> list[str]:
    """How words with these stems begin. The last letters of a stem may differ (happy/happi, dying/die)."""
    found = {" " + one[: max(2, len(one) - 2)] for one in wanted} | {f" {one}" for one in unfinished}
    found |= {f" {one[0]}y" for one in wanted if one[1:2] == "i" and len(one) < 5}
    return [one for one in found if not any(one != other and one.startswith(other) for other in found)]
