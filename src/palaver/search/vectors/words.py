"""The table of word vectors: which words have one, and which words are near others.

The table (8.7 MB) is mapped into memory, and numpy is imported, when the first question is asked.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from palaver.text.languages import ENGLISH
from palaver.text.query import Phrase
from palaver.text.tokenize import stem

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

HERE = Path(__file__).parent
RELATED = 0.6
"""The lowest similarity of related words. Below it, names of people would be related to each other."""
MOST_RELATED = 3
MOST_OF_A_THEME = 12
_LOOKED_THROUGH = 60
"""The nearest words that are considered for a theme. Many are other forms of the words of the question."""
COARSE = 32
"""The first dimensions. They have most of what words have in common."""
_AT_ONCE = 4_096
_COMPARED_AT_ONCE = 512
"""Rows that fit into the cache of a processor."""

_loading = threading.Lock()


def numbers_of(words: Sequence[str]) -> array[int]:
    """The number of each word, counted from 1; 0 for a word that has no vector."""
    return array("i", map(_numbers().get, words, repeat(0)))


def asked_for(words: Sequence[str]) -> list[int]:
    """The numbers of the words of a question. A word without a vector is replaced by one with the same stem."""
    return sorted(set(filter(None, map(_number_of, words))))


def share_known(terms: Sequence[Phrase]) -> float:
    """The share of the words of some terms that are frequent English words. Names and numbers do not count."""
    typed = [word for term in terms for word in term.words if word.isalpha()]
    return sum(map(is_known, typed)) / len(typed) if typed else 1.0


def is_known(word: str) -> bool:
    """Whether it is a frequent English word, in any form."""
    return word in _numbers() or stem(word) in _by_stem()


def related(word: str) -> tuple[str, ...]:
    """Words with nearly the same meaning, the nearest first."""
    number = _number_of(word)
    return tuple(_names()[one - 1] for one in _related()[number - 1].tolist() if one) if number else ()


def find_related(number: int) -> list[str]:
    """The words related to one of the table, found by comparing all vectors. tools/make_static_model.py keeps them."""
    np, like = _numpy(), _likeness(direction([number]))
    close = np.flatnonzero(like >= RELATED)
    return _distinct(close[np.argsort(-like[close])].tolist(), {stem(_names()[number - 1])})[:MOST_RELATED]


def theme(question: Sequence[str], besides: Collection[str]) -> list[str]:
    """The words nearest to a question as a whole, except those with the stems in `besides`."""
    np, numbers = _numpy(), asked_for(question)
    if not numbers:
        return []
    like = _likeness(direction(numbers))
    best = np.argpartition(-like, _LOOKED_THROUGH)[:_LOOKED_THROUGH]
    return _distinct(best[np.argsort(-like[best])].tolist(), besides)[:MOST_OF_A_THEME]


def _distinct(numbers: Iterable[int], besides: Collection[str]) -> list[str]:
    """One word for each stem."""
    found: dict[str, str] = {}
    for number in numbers:
        name = _names()[number]
        if name.isalpha() and len(name) > 2 and name not in ENGLISH.stop_words and stem(name) not in besides:
            found.setdefault(stem(name), name)
    return list(found.values())


def direction(numbers: Sequence[int]) -> Array:
    """The direction of the sum of the word vectors. Numbers count from 1."""
    np = _numpy()
    rows = table()[np.array(numbers, np.int64) - 1]
    vector = (rows["vector"].astype(np.float32) * rows["scale"][:, None]).sum(0)
    length = float(np.linalg.norm(vector))
    found: Array = vector / length if length else vector
    return found


def bare(places: Array) -> Array:
    """Vectors without their scale, by their places in the table."""
    found: Array = table()["vector"][places].astype(_numpy().float32)
    return found


def _likeness(wanted: Array) -> Array:
    """How like a direction all words are. Some rows are read at a time: all of them would take 34 MB of memory."""
    np, vectors = _numpy(), table()["vector"]
    found, some = np.empty(len(vectors), np.float32), np.empty((_COMPARED_AT_ONCE, vectors.shape[1]), np.float32)
    for at in range(0, len(vectors), _COMPARED_AT_ONCE):
        rows = some[: len(vectors) - at]
        rows[...] = vectors[at : at + len(rows)]
        np.dot(rows, wanted, out=found[at : at + len(rows)])
    like: Array = found / lengths()
    return like


class Coarse(NamedTuple):
    """Of all vectors: the first dimensions, and the squared length of the others."""

    first: Array
    rest: Array


@cache
def coarse() -> Coarse:
    """5 MB, computed for the first question."""
    np = _numpy()
    scale = table()["scale"][:, None]
    first = table()["vector"][:, :COARSE].astype(np.float32) * scale
    return Coarse(first, (lengths() * scale[:, 0]) ** 2 - np.einsum("ij,ij->i", first, first))


@cache
def lengths() -> Array:
    """The lengths of all vectors without their scale."""
    np = _numpy()
    found = np.empty(len(table()), np.float32)
    for at in range(0, len(found), _AT_ONCE):
        some = table()["vector"][at : at + _AT_ONCE].astype(np.float32)
        found[at : at + _AT_ONCE] = np.sqrt(np.einsum("ij,ij->i", some, some))
    least: Array = np.maximum(found, 1e-9)
    return least


@cache
def _names() -> list[str]:
    return (HERE / "words.txt").read_text("utf-8").splitlines()


@cache
def _numbers() -> dict[str, int]:
    """The number of each word except stop words, counted from 1, so that no number is falsy."""
    return {name: number for number, name in enumerate(_names(), 1) if name not in ENGLISH.stop_words}


@cache
def _by_stem() -> dict[str, int]:
    found: dict[str, int] = {}
    for name, number in _numbers().items():
        found.setdefault(stem(name), number)
    return found


def _number_of(word: str) -> int | None:
    """The number of a word, or of one with the same stem. Used for questions only: texts have words enough."""
    return _numbers().get(word) or (None if word in ENGLISH.stop_words else _by_stem().get(stem(word)))


def _numpy() -> Any:
    import numpy

    return numpy


@cache
def _related() -> Array:
    """The numbers of the words related to each word, or 0: 0.2 MB."""
    found: Array = _numpy().load(HERE / "related.npy")
    return found


@cache
def table() -> Array:
    with _loading:
        found: Array = _numpy().load(HERE / "words.npy", mmap_mode="r")
    return found
