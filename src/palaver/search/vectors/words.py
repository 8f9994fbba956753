"""Similarity in meaning from static word vectors: the vectors of the words of a text are looked up and added.

The table (8.7 MB) is mapped into memory, and numpy is imported, when the first question is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from palaver.search.question import STOP_WORDS
from palaver.text.query import Phrase
from palaver.text.tokenize import stem

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

HERE = Path(__file__).parent
LONGEST_TEXT = 250
"""Words of a text that are used. Later words rarely change the topic."""
RELATED = 0.6
"""The lowest similarity of related words. Below it, names of people would be related to each other."""
MOST_RELATED = 3
MOST_OF_A_THEME = 12
_LOOKED_THROUGH = 60
"""The nearest words that are considered for a theme. Many are other forms of the words of the question."""
COARSE = 32
"""Dimensions that are added up exactly to estimate the length of a sum of vectors."""

_loading = threading.Lock()


class Similarities(NamedTuple):
    """For each text: the similarity of the whole, of its most similar part, and of the nearest word to each term."""

    whole: list[float]
    best: list[float]
    terms: list[list[float]]


class QuestionVectors:
    """The vectors of a question, to compare with texts. Texts are given as folded words."""

    def __init__(self, question: Sequence[str], terms: Sequence[Sequence[str]]) -> None:
        self._np = np = _numpy()
        self._table = _table()
        self._whole = _sum(asked_for(question))
        rows = [_sum(asked_for(term)) for term in terms]
        self._terms = np.stack(rows) if rows else np.zeros((0, len(self._whole)), np.float32)

    def similarity(
        self, texts: Sequence[Sequence[str]], sentences: Sequence[Sequence[Sequence[str]]] = ()
    ) -> Similarities:
        """Compare texts, and the sentences of each, with the question. A text without sentences is compared whole."""
        np = self._np
        segments, numbers = [known(words[:LONGEST_TEXT]) for words in texts], _numbers().get
        segments += [list(filter(None, map(numbers, words))) for text in sentences for words in text]
        ends = np.cumsum([len(one) for one in segments])
        if not len(ends) or not ends[-1]:
            nothing = [0.0] * len(texts)
            return Similarities(nothing, nothing, [[0.0] * len(self._terms) for _ in texts])
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
        counts = np.array([len(text) for text in sentences], np.int64)
        if counts.any():
            cut = np.flatnonzero(counts)
            best[cut] = np.maximum.reduceat(like[len(texts) :], (np.cumsum(counts) - counts)[cut])
        return Similarities(like[: len(texts)].tolist(), best.tolist(), terms.tolist())


def known(words: Sequence[str]) -> list[int]:
    """The numbers of the words that have a vector, each once, in a fixed order: sums of floats depend on it."""
    return sorted(set(filter(None, map(_numbers().get, words))))


def asked_for(words: Sequence[str]) -> list[int]:
    """The numbers of the words of a question. A word without a vector is replaced by one with the same stem."""
    return sorted(set(filter(None, map(_number_of, words))))


def share_known(terms: Sequence[Phrase]) -> float:
    """The share of the words of some terms that are frequent English words. Names and numbers do not count."""
    typed = [word for term in terms for word in term.words if word.isalpha()]
    return sum(word in _numbers() or stem(word) in _by_stem() for word in typed) / len(typed) if typed else 1.0


@lru_cache(maxsize=4_096)
def related(word: str) -> tuple[str, ...]:
    """Words with nearly the same meaning, the nearest first."""
    np, vectors = _numpy(), _bare()
    if not (number := _number_of(word)):
        return ()
    like = vectors @ vectors[number - 1]
    close = np.flatnonzero(like >= RELATED)
    return tuple(_distinct(close[np.argsort(-like[close])].tolist(), {stem(word)})[:MOST_RELATED])


def theme(question: Sequence[str], besides: Collection[str]) -> list[str]:
    """The words nearest to a question as a whole, except those with the stems in `besides`."""
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
    """The direction of the sum of the word vectors."""
    np = _numpy()
    rows = _table()[np.array(numbers, np.int64) - 1]
    vector = (rows["vector"].astype(np.float32) * rows["scale"][:, None]).sum(0)
    length = float(np.linalg.norm(vector))
    found: Array = vector / length if length else vector
    return found


@cache
def _bare() -> Array:
    """All vectors, normalised: 24 MB, computed for the first question."""
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
    """The number of each word except stop words, counted from 1, so that no number is falsy."""
    return {name: number for number, name in enumerate(_names(), 1) if name not in STOP_WORDS}


@cache
def _by_stem() -> dict[str, int]:
    found: dict[str, int] = {}
    for name, number in _numbers().items():
        found.setdefault(stem(name), number)
    return found


def _number_of(word: str) -> int | None:
    """The number of a word, or of one with the same stem. Used for questions only: texts have words enough."""
    return _numbers().get(word) or (None if word in STOP_WORDS else _by_stem().get(stem(word)))


def _numpy() -> Any:
    import numpy

    return numpy


@cache
def _table() -> Array:
    with _loading:
        table: Array = _numpy().load(HERE / "words.npy", mmap_mode="r")
    return table
