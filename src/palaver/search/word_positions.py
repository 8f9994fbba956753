"""Find words in a text by their stems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from palaver.text.tokenize import stem, stems


class WordFinder:
    """Finds words and phrases, given by their numbers, in many texts."""

    def __init__(self, phrases: Iterable[Sequence[str]]) -> None:
        self._begun_by: defaultdict[str, list[tuple[int, list[str]]]] = defaultdict(list)
        for number, phrase in enumerate(phrases):
            first, *rest = stems(phrase)
            self._begun_by[first].append((number, rest))
        self._beginnings = _beginnings(self._begun_by)

    def places(self, text: Sequence[str], most: int | None = None) -> list[tuple[int, int]]:
        """(place, number) of each match in a text of folded words, in order.

        Only words that begin like one of the stems are looked at. `most` limits how many of those are, for each
        beginning.
        """
        line, begun_by = f" {' '.join(text)} ", self._begun_by
        likely = []
        for beginning in self._beginnings:
            at, left = line.find(beginning), len(line) if most is None else most
            while at >= 0 and left:
                end = line.find(" ", at + 1)
                one = stem(line[at + 1 : end])
                if one in begun_by:
                    likely.append((at, one))
                    left -= 1
                at = line.find(beginning, end)
        likely.sort()
        found = []
        place = counted = 0
        for at, one in likely:
            place, counted = place + line.count(" ", counted, at), at
            for number, rest in begun_by[one]:
                if not rest or stems(text[place + 1 : place + 1 + len(rest)]) == rest:
                    found.append((place, number))
        return found


def _beginnings(wanted: Iterable[str]) -> list[str]:
    """How words with these stems begin. The last letters of a stem may differ (happy/happi, dying/die)."""
    found = {" " + one[: max(2, len(one) - 2)] for one in wanted}
    found |= {f" {one[0]}y" for one in wanted if one[1:2] == "i" and len(one) < 5}
    return [one for one in found if not any(one != other and one.startswith(other) for other in found)]
