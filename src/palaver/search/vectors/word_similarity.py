"""Similarity in meaning of a question and texts: the vectors of the words of a text are looked up and added."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from palaver.search.vectors import words as table

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(slots=True)
class Segments:
    """The words of some texts that have a vector, by their numbers in the table."""

    numbers: array[int]
    """Those of all texts, text by text."""
    counts: array[int]
    """How many words each text has."""
    lengths: bytes = b""
    """The length of the sum of the vectors of each text, once it is known, as float32."""

    @classmethod
    def whole(cls, numbers: Iterable[int]) -> Segments:
        """A text as one segment. Each word counts once, in a fixed order: sums of floats depend on it."""
        known = array("i", sorted(set(numbers) - {0}))
        return cls(known, array("i", [len(known)]))

    @classmethod
    def parts(cls, sentences: Iterable[Iterable[int]]) -> Segments:
        """A segment for each sentence."""
        numbers, counts = array("i"), array("i")
        for one in sentences:
            before = len(numbers)
            numbers.extend(filter(None, one))
            counts.append(len(numbers) - before)
        return cls(numbers, counts)


NO_SENTENCES = Segments(array("i"), array("i"))


class Similarity(NamedTuple):
    """How similar in meaning each text is to a question."""

    whole: list[float]
    """Similarity of the whole text."""
    best: list[float]
    """Similarity of its most similar sentence or two."""
    terms: list[list[float]]
    """For each term of the question, the similarity of the most similar word."""
    meaning: Sequence[float] = ()
    """Similarity by the vectors of the model, or an estimate for texts that have none yet; empty if none has one."""
    share_known: float = 0.0
    """The share of the texts that have such a vector."""

    @classmethod
    def none(cls, texts: int, terms: int) -> Similarity:
        nothing = [0.0] * texts
        return cls(nothing, nothing, [[0.0] * terms] * texts)


class QuestionVectors:
    """The vectors of a question, to compare with texts."""

    def __init__(self, question: Sequence[str], terms: Sequence[Sequence[str]]) -> None:
        import numpy as np

        self._wanted = np.stack([table.direction(table.asked_for(one)) for one in (question, *terms)])

    def similarity(self, texts: Sequence[Segments], sentences: Sequence[Segments] = ()) -> Similarity:
        """Compare texts, and the sentences of each, with the question. A text without sentences is compared whole."""
        import numpy as np

        every, terms = [*texts, *sentences], len(self._wanted) - 1
        counts = np.frombuffer(b"".join(one.counts for one in every), np.int32)
        ends = np.cumsum(counts)
        if not len(ends) or not ends[-1]:
            return Similarity.none(len(texts), terms)
        starts, filled = ends - counts, counts > 0
        found = np.frombuffer(b"".join(one.numbers for one in every), np.int32) - 1
        is_used = np.zeros(len(table.table()), bool)
        is_used[found] = True
        used = np.flatnonzero(is_used)
        row_of = np.zeros(len(is_used), np.int32)
        row_of[used] = np.arange(len(used), dtype=np.int32)
        rows = row_of[found]
        points = table.bare(used) @ self._wanted.T

        nearest = np.zeros((len(texts), terms), np.float32)
        if terms:
            some = filled[: len(texts)]
            cosines = points[:, 1:] / table.lengths()[used][:, None]
            inside = cosines[rows[: ends[len(texts) - 1]]]
            nearest[some] = np.maximum.reduceat(inside, starts[: len(texts)][some], axis=0)
        sums = np.zeros(len(counts), np.float32)
        weighed = points[:, 0] * table.table()["scale"][used]
        sums[filled] = np.add.reduceat(weighed[rows], starts[filled])
        _measure([one for one in every if not one.lengths])
        like = sums / np.frombuffer(b"".join(one.lengths for one in every), np.float32)

        best = like[: len(texts)].copy()
        if sentences:
            amounts = np.array([len(one.counts) for one in sentences], np.int64)
            cut = np.flatnonzero(amounts)
            if len(cut):
                best[cut] = np.maximum.reduceat(like[len(texts) :], (np.cumsum(amounts) - amounts)[cut])
        return Similarity(like[: len(texts)].tolist(), best.tolist(), nearest.tolist())


def _measure(some: Sequence[Segments]) -> None:
    """Set the lengths of sums of vectors. What words have in common is in the first dimensions, which are added; in the
    others they point everywhere, so that squares add up."""
    import numpy as np

    counts = np.frombuffer(b"".join(one.counts for one in some), np.int32)
    squares = np.zeros(len(counts), np.float32)
    if counts.any():
        coarse, found = table.coarse(), np.frombuffer(b"".join(one.numbers for one in some), np.int32) - 1
        filled, starts = counts > 0, np.cumsum(counts) - counts
        squares[filled] = np.maximum(np.add.reduceat(coarse.rest[found], starts[filled]), 0)
        sums = np.add.reduceat(coarse.first[found], starts[filled], axis=0)
        squares[filled] += np.einsum("ij,ij->i", sums, sums)
    every = np.maximum(np.sqrt(squares), 1e-9).tobytes()
    done = 0
    for one in some:
        size = 4 * len(one.counts)
        one.lengths = every[done : done + size]
        done += size
