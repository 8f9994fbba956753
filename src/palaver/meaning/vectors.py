"""How alike two texts are in meaning, without a network: the vectors of their words, looked up and added.

The table (6.1 MB) is mapped into memory when the first question is asked, and numpy is imported then: a program that
never asks pays for neither.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaver.text.fold import stem
from palaver.text.questions import STOP_WORDS

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

HERE = Path(__file__).parent
LONGEST_TEXT = 250
"""Words of a text that are looked at; what comes after them rarely changes what it is about."""
RELATED = 0.6
"""So alike two words must be to stand for each other. Below it the names of people stand for each other."""
MOST_RELATED = 3
COARSE = 32
"""Directions that are added up to know how long a sum is."""

_loading = threading.Lock()


class Likeness:
    """One question, held against texts. Texts come as folded words."""

    def __init__(self, question: Sequence[str], terms: Sequence[Sequence[str]]) -> None:
        self._np = np = _numpy()
        self._table = _table()
        self._whole = self._sum(known(question))
        rows = [self._sum(known(term)) for term in terms]
        self._terms = np.stack(rows) if rows else np.zeros((0, len(self._whole)), np.float32)

    def _sum(self, numbers: Sequence[int]) -> Array:
        rows = self._table[self._np.array(numbers, self._np.int64) - 1]
        vector = (rows["vector"].astype(self._np.float32) * rows["scale"][:, None]).sum(0)
        length = float(self._np.linalg.norm(vector))
        found: Array = vector / length if length else vector
        return found

    def to(self, texts: Sequence[Sequence[str]]) -> tuple[list[float], list[list[float]]]:
        """For each text how alike it is as a whole, and for each term of the question its best likeness to a word."""
        np = self._np
        numbers = [known(words[:LONGEST_TEXT]) for words in texts]
        ends = np.cumsum([len(one) for one in numbers])
        if not len(ends) or not ends[-1]:
            return [0.0] * len(texts), [[0.0] * len(self._terms) for _ in texts]
        found = np.fromiter(chain.from_iterable(numbers), np.int64, ends[-1]) - 1
        is_used = np.zeros(len(self._table), bool)
        is_used[found] = True
        places = (np.cumsum(is_used) - 1)[found]
        rows = self._table[is_used]
        bare, scale = rows["vector"].astype(np.float32), rows["scale"]
        lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", bare, bare)), 1e-9)
        starts = np.concatenate(([0], ends[:-1]))
        filled = ends > starts

        def each(values: Array, what: Any) -> Array:
            found: Array = np.zeros((len(texts), *values.shape[1:]), np.float32)
            found[filled] = what.reduceat(values[places], starts[filled], axis=0)
            return found

        best = each((bare @ self._terms.T) / lengths[:, None], np.maximum)
        # The length of the sum: what its words have in common lies in the first directions; in the others they
        # point everywhere, so that squares add up.
        coarse = bare[:, :COARSE] * scale[:, None]
        rest = (lengths * scale) ** 2 - np.einsum("ij,ij->i", coarse, coarse)
        sums = each(np.column_stack([(bare @ self._whole) * scale, rest, coarse]), np.add)
        length = np.sqrt(np.einsum("ij,ij->i", sums[:, 2:], sums[:, 2:]) + np.maximum(sums[:, 1], 0))
        whole = sums[:, 0] / np.maximum(length, 1e-9)
        return whole.tolist(), best.tolist()


def known(words: Sequence[str]) -> list[int]:
    """The numbers of the words that have a vector, each once, always in the same order: sums depend on it."""
    return sorted(set(filter(None, map(_numbers().get, words))))


@lru_cache(maxsize=4_096)
def related(word: str) -> tuple[str, ...]:
    """Other words that mean nearly the same, the nearest first."""
    np, vectors, names = _numpy(), _bare(), _names()
    if word not in _numbers():
        return ()
    like = vectors @ vectors[_numbers()[word] - 1]
    near = np.flatnonzero(like >= RELATED)
    found: dict[str, str] = {}
    for number in near[np.argsort(-like[near])].tolist():
        name = names[number]
        if name.isalpha() and len(name) > 2 and name not in STOP_WORDS and stem(name) != stem(word):
            found.setdefault(stem(name), name)
    return tuple(found.values())[:MOST_RELATED]


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


def _numpy() -> Any:
    import numpy

    return numpy


@cache
def _table() -> Array:
    with _loading:
        table: Array = _numpy().load(HERE / "words.npy", mmap_mode="r")
    return table
