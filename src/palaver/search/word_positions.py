"""Find words in a text by their stems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from palaver.text.query import Beginning
from palaver.text.tokenize import stem, stems


class WordFinder:
    """Finds words and phrases, given by their numbers, in many texts. A `Beginning` at the end of a phrase also matches
    all words that begin with it."""

    def __init__(self, phrases: Iterable[Sequence[str]]) -> None:
        self._begun_by: defaultdict[str, list[tuple[int, list[str]]]] = defaultdict(list)
        self._unfinished: list[tuple[int, Sequence[str]]] = []
        for number, phrase in enumerate(phrases):
            first, *rest = stems(phrase)
            self._begun_by[first].append((number, rest))
            if isinstance(phrase[-1], Beginning):
                self._unfinished.append((number, phrase))
        self._beginnings = _beginnings(self._begun_by, [phrase[0] for _, phrase in self._unfinished])
        self._firsts = tuple(phrase[0] for _, phrase in self._unfinished)

    def places(self, text: Sequence[str], most: int | None = None) -> list[tuple[int, int]]:
        """(place, number) of each match in a text of folded words, in order.

        Only words that begin like one of the stems are looked at. `most` limits how many of those are, for each
        beginning.
        """
        line, begun_by, firsts = f" {' '.join(text)} ", self._begun_by, self._firsts
        likely = []
        for beginning in self._beginnings:
            at, left = line.find(beginning), len(line) if most is None else most
            while at >= 0 and left:
                end = line.find(" ", at + 1)
                one = stem(line[at + 1 : end])
                if one in begun_by or (firsts and line.startswith(firsts, at + 1)):
                    likely.append((at, one))
                    left -= 1
                at = line.find(beginning, end)
        likely.sort()
        found = []
        place = counted = 0
        for at, one in likely:
            place, counted = place + line.count(" ", counted, at), at
            here = [
                number
                for number, rest in begun_by.get(one, ())
                if not rest or stems(text[place + 1 : place + 1 + len(rest)]) == rest
            ]
            for number, phrase in self._unfinished:
                if number not in here and _begins(text[place : place + len(phrase)], phrase):
                    here.append(number)
            found += [(place, number) for number in here]
        return found


def _begins(text: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether a text has the words of a phrase, and then a word that begins like its last one."""
    return len(text) == len(phrase) and text[-1].startswith(phrase[-1]) and list(text[:-1]) == list(phrase[:-1])


def _beginnings(wanted: Iterable[str], unfinished: Iterable[str]) -> list[str]:
    """How words with these stems begin. The last letters of a stem may differ (happy/happi, dying/die)."""
    found = {" " + one[: max(2, len(one) - 2)] for one in wanted} | {f" {one}" for one in unfinished}
    found |= {f" {one[0]}y" for one in wanted if one[1:2] == "i" and len(one) < 5}
    return [one for one in found if not any(one != other and one.startswith(other) for other in found)]
