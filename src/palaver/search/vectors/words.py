"""How alike two texts are in meaning, without a network: the vectors of their words, looked up and added.

The table (8.7 MB) is mapped into memory when the first question is asked, and numpy is imported then: a program that
never asks pays for neither.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from palaver.search.question import STOP_WORDS
from palaver.text.tokenize import stem

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

HERE = Path(__file__).parent
LONGEST_TEXT = 250
"""Words of a text that are looked at; what comes after them rarely changes what it is about."""
RELATED = 0.6
"""So alike two words must be to stand for each other. Below it the names of people stand for each other."""
MOST_RELATED = 3
MOST_OF_A_THEME = 12
_LOOKED_THROUGH = 60
"""Words that are nearest to a question; many of them are its own, with other endings."""
COARSE = 32
"""Directions that are added up to know how long a sum is."""

_loading = threading.Lock()


class Likenesses(NamedTuple):
    """For each text how alike it is as a whole, how alike its best stretch is, and for each term of the question its
    best likeness to a word."""

    whole: list[float]
    best: list[float]
    terms: list[list[float]]


class Likeness:
    """One question, held against texts. Texts come as folded words."""

    def __init__(self, question: Sequence[str], terms: Sequence[Sequence[str]]) -> None:
        self._np = np = _numpy()
        self._table = _table()
        self._whole = _sum(asked_for(question))
        rows = [_sum(asked_for(term)) for term in terms]
        self._terms = np.stack(rows) if rows else np.zeros((0, len(self._whole)), np.float32)

    def to(self, texts: Sequence[Sequence[str]], stretches: Sequence[Sequence[Sequence[str]]] = ()) -> Likenesses:
        """Of each text, and of the stretch of it that is most alike; where it has none, that is the whole."""
        np = self._np
        segments, numbers = [known(words[:LONGEST_TEXT]) for words in texts], _numbers().get
        segments += [list(filter(None, map(numbers, words))) for text in stretches for words in text]
        ends = np.cumsum([len(one) for one in segments])
        if not len(ends) or not ends[-1]:
            nothing = [0.0] * len(texts)
            return Likenesses(nothing, nothing, [[0.0] * len(self._terms) for _ in texts])
        found = np.fromiter(chain.from_iterable(segments), np.int64, ends[-1]) - 1
        is_used = np.zeros(len(self._table), bool)
        is_used[found] = True
        places = (np.cumsum(is_used) - 1)[found]
        rows = self._table[is_used]
        bare, scale = rows["vector"].astype(np.float32), rows["scale"]
        lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", bare, bare)), 1e-9)
        starts = np.concatenate(([0], ends[:-1]))
        filled = ends > starts

        def each(values: Array, what: Any, count: int) -> Array:
            found: Array = np.zeros((count, *values.shape[1:]), np.float32)
            some = filled[:count]
            found[some] = what.reduceat(values[places[: ends[count - 1]]], starts[:count][some], axis=0)
            return found

        terms = each((bare @ self._terms.T) / lengths[:, None], np.maximum, len(texts))
        # The length of the sum: what its words have in common lies in the first directions; in the others they
        # point everywhere, so that squares add up.
        coarse = bare[:, :COARSE] * scale[:, None]
        rest = (lengths * scale) ** 2 - np.einsum("ij,ij->i", coarse, coarse)
        sums = each(np.column_stack([(bare @ self._whole) * scale, rest, coarse]), np.add, len(segments))
        length = np.sqrt(np.einsum("ij,ij->i", sums[:, 2:], sums[:, 2:]) + np.maximum(sums[:, 1], 0))
        like = sums[:, 0] / np.maximum(length, 1e-9)
        best = like[: len(texts)].copy()
        counts = np.array([len(text) for text in stretches], np.int64)
        if counts.any():
            cut = np.flatnonzero(counts)
            best[cut] = np.maximum.reduceat(like[len(texts) :], (np.cumsum(counts) - counts)[cut])
        return Likenesses(like[: len(texts)].tolist(), best.tolist(), terms.tolist())


def known(words: Sequence[str]) -> list[int]:
    """The numbers of the words that have a vector, each once, always in the same order: sums depend on it."""
    return sorted(set(filter(None, map(_numbers().get, words))))


def asked_for(words: Sequence[str]) -> list[int]:
    """The same of a question, also of words that have a vector only with another ending."""
    return sorted(set(filter(None, map(_meant, words))))


@lru_cache(maxsize=4_096)
def related(word: str) -> tuple[str, ...]:
    """Other words that mean nearly the same, the nearest first."""
    np, vectors = _numpy(), _bare()
    if not (number := _meant(word)):
        return ()
    like = vectors @ vectors[number - 1]
    close = np.flatnonzero(like >= RELATED)
    return tuple(_distinct(close[np.argsort(-like[close])].tolist(), {stem(word)})[:MOST_RELATED])


def theme(question: Sequence[str], besides: Collection[str]) -> list[str]:
    """The words that are nearest to a question as a whole, besides those with these stems."""
    np, numbers = _numpy(), asked_for(question)
    if not numbers:
        return []
    like = _bare() @ _sum(numbers)
    best = np.argpartition(-like, _LOOKED_THROUGH)[:_LOOKED_THROUGH]
    return _distinct(best[np.argsort(-like[best])].tolist(), besides)[:MOST_OF_A_THEME]


def _distinct(numbers: Iterable[int], besides: Collection[str]) -> list[str]:
    """One word for each stem."""
    found: dict[str, str] = {}
    for number in numbers:
        name = _names()[number]
        if name.isalpha() and len(name) > 2 and name not in STOP_WORDS and stem(name) not in besides:
            found.setdefault(stem(name), name)
    return list(found.values())


def _sum(numbers: Sequence[int]) -> Array:
    """The direction in which words point together."""
    np = _numpy()
    rows = _table()[np.array(numbers, np.int64) - 1]
    vector = (rows["vector"].astype(np.float32) * rows["scale"][:, None]).sum(0)
    length = float(np.linalg.norm(vector))
    found: Array = vector / length if length else vector
    return found


@cache
def _bare() -> Array:
    """All vectors at length one: 24 MB, made at the first question."""
    np = _numpy()
    table = _table()["vector"].astype(np.float32)
    table /= np.maximum(np.sqrt(np.einsum("ij,ij->i", table, table)), 1e-9)[:, None]
    found: Array = table
    return found


@cache
def _names() -> list[str]:
    return (HERE / "words.txt").read_text("utf-8").splitlines()


@cache
def _numbers() -> dict[str, int]:
    """Of every word that says something, counted from one: so none of them is nothing."""
    return {name: number for number, name in enumerate(_names(), 1) if name not in STOP_WORDS}


@cache
def _by_stem() -> dict[str, int]:
    found: dict[str, int] = {}
    for name, number in _numbers().items():
        found.setdefault(stem(name), number)
    return found


def _meant(word: str) -> int | None:
    """A word of a question that is not in the table is meant as one there that has the same stem. Of the many words of
    texts those few are left out."""
    return _numbers().get(word) or (None if word in STOP_WORDS else _by_stem().get(stem(word)))


def _numpy() -> Any:
    import numpy

    return numpy


@cache
def _table() -> Array:
    with _loading:
        table: Array = _numpy().load(HERE / "words.npy", mmap_mode="r")
    return table
