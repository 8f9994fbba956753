"""Texts as the ranking reads them: split into words, and into parts of a sentence or two.

They are kept, since the next question often reads the same texts.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections import OrderedDict
from functools import cached_property
from itertools import accumulate

from palaver.search.vectors import words as word_vectors
from palaver.search.vectors.word_similarity import Segments
from palaver.text import tokenize

LONGEST_TEXT = 250
"""Words of a text that are compared. Later words rarely change the topic."""
MOST_KEPT = 2_000_000
"""Characters of the texts that are kept. They take about four times as many bytes."""
LONGEST = 130
SHORTEST = 30
"""A shorter sentence stays together with the next one."""
MOST_READ = 800
"""Characters of a text that are split. The beginning of a longer text says what it is about."""

# Whole sentences and lines that fit; else whole words; else characters.
_SENTENCES = re.compile(
    rf".{{{SHORTEST},{LONGEST}}}(?:(?<=[.!?])\s+|\n+|\Z)|.{{1,{LONGEST}}}(?:\s+|\Z)|.{{{LONGEST}}}", re.DOTALL
)


class PreparedText:
    """The folded words of a text, and which of them have a vector."""

    def __init__(self, text: str) -> None:
        self._text = text
        words = tokenize.words(text)
        self.line = f" {' '.join(words)} "
        """The words with a blank before and after each."""
        self.count = len(words)

    @property
    def words(self) -> list[str]:
        return self.line.split()

    @cached_property
    def _numbers(self) -> array[int]:
        return word_vectors.numbers_of(self.words[:LONGEST_TEXT])

    @cached_property
    def whole(self) -> Segments:
        return Segments.whole(self._numbers)

    @cached_property
    def sentences(self) -> Segments:
        """Empty if the text is a single sentence."""
        counts = count_words_of_sentences(self._text)
        if counts is None or sum(counts) > LONGEST_TEXT:
            return Segments.parts(map(word_vectors.numbers_of, words_of_sentences(self._text)))
        ends = list(accumulate(counts))
        return Segments.parts(self._numbers[end - count : end] for count, end in zip(counts, ends, strict=True))


class PreparedTexts:
    """The texts that were read last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, PreparedText] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, text: str) -> PreparedText:
        with self._lock:
            if kept := self._kept.get(text):
                self._kept.move_to_end(text)
                return kept
        made = PreparedText(text)
        with self._lock:
            if text not in self._kept:
                self._kept[text] = made
                self._size += len(text)
            while self._size > self._most:
                self._size -= len(self._kept.popitem(last=False)[0])
        return made


_texts = PreparedTexts(MOST_KEPT)
prepare = _texts.get


def words_of_sentences(text: str) -> list[list[str]]:
    """The folded words of each part; empty if the text is a single part."""
    beginning = text[:MOST_READ]
    if len(beginning) <= LONGEST:
        return []
    folded = tokenize.plain(beginning)
    if folded is None:
        return [tokenize.words(one) for one in sentences(text)]
    easy = folded.decode()
    return [easy[slice(*one.span())].split() for one in _SENTENCES.finditer(beginning)]


def count_words_of_sentences(text: str) -> list[int] | None:
    """The number of words of each part; none if the text is a single part. None if the words cannot be counted so: the
    text is not simple, or a part ends inside a word."""
    beginning = text[:MOST_READ]
    if len(beginning) <= LONGEST:
        return []
    folded = tokenize.plain(beginning)
    if folded is None:
        return None
    spans = [one.span() for one in _SENTENCES.finditer(beginning)]
    if any(b" " not in folded[end - 1 : end + 1] for _, end in spans[:-1]):
        return None
    return [len(folded[start:end].split()) for start, end in spans]


def sentences(text: str) -> list[str]:
    """The parts of a text, at least one."""
    return [one for one in map(str.strip, _SENTENCES.findall(text[:MOST_READ])) if one] or [""]
