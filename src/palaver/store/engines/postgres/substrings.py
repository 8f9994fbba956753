"""The substring index of PostgreSQL: which numbers a text has, and which numbers a part of a text needs.

A text has a number for each of its words, and for each one, two and three characters with a character that is in no
word. A word is a run of a-z and 0-9 here. The table `passage_runs` has all words, so a part of a word finds the words
that contain it, and these find the texts. The numbers of a very long word are those of its characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from zlib import crc32

LONGEST_WORD = 40
"""A longer word is often used once. It is not in the table of words."""
MOST_NUMBERS = 200_000
CACHED_CHARACTERS = 6
BEGIN, END = "\x02", "\x03"
"""Mark the beginning and the end of a word in the table of words."""
MARK = b"\0"
_WORD_BYTES = b"abcdefghijklmnopqrstuvwxyz0123456789"
_CONTROLS = bytes(code for code in range(128) if not chr(code).isprintable() and not chr(code).isspace())
_BLANK_OTHERS = bytes(code if code in _WORD_BYTES else ord(" ") for code in range(256))
_MARK_OTHERS = bytes(code if code in _WORD_BYTES + b" " else MARK[0] for code in range(256))
"""Tables for `bytes.translate`: a blank, or a mark, for each character that is in no word."""
_WORD = re.compile("[a-z0-9]+")
_OTHERS = re.compile("[^a-z0-9 ]+")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a word at the beginning or the end of a substring."""

    text: str
    begins_word: bool
    ends_word: bool

    @property
    def pattern(self) -> str:
        """For LIKE. The text has letters and digits only."""
        return f"{'' if self.begins_word else '%'}{self.text}{'' if self.ends_word else '%'}"

    @property
    def grams(self) -> str:
        """The numbers that every word with this fragment has in the table of words. One or two characters in the middle
        of a word have none: then the table is read from end to end."""
        marked = f"{BEGIN if self.begins_word else ''}{self.text}{END if self.ends_word else ''}"
        if len(marked) == 2 and marked != self.text:
            return array([marked])
        return array(grams(marked, 3))

    @property
    def grams_in_long_words(self) -> str:
        """The numbers that every text has where the fragment is in a very long word."""
        return array(grams(self.text, min(3, len(self.text))))


@dataclass(frozen=True, slots=True)
class SubstringLookup:
    """What a text with a substring has: all these numbers, and each fragment in one of its words."""

    numbers: str
    fragments: list[Fragment]


def numbers_and_words(text: str) -> tuple[str, str]:
    """The numbers of a text, and its words for the table of words. A word may be there several times."""
    if text.isascii():
        raw = text.encode()  # bytes are translated several times as fast as characters are matched
        words, found = raw.translate(_BLANK_OTHERS).decode(), _grams_around_marks(text, raw)
    else:
        words, found = " ".join(_WORD.findall(text)), _grams_around_others(text)
    try:
        return array(chain(words.split(), found)), words
    except LongWord:
        short = [word for word in words.split() if len(word) <= LONGEST_WORD]
        for word in words.split():
            if len(word) > LONGEST_WORD:
                found |= {*word, *grams(word, 2), *grams(word, 3)}
        return array(chain(short, found)), " ".join(short)


def numbers_by_tokens(text: str, tokens: Sequence[str]) -> str | None:
    """The numbers of a text whose tokens are its words. None if some may be different: a control character separates
    words, but not tokens."""
    if not text.isascii():
        return None
    raw = text.encode()
    if len(raw.translate(None, _CONTROLS)) < len(raw):
        return None
    try:
        return array(chain(tokens, _grams_around_marks(text, raw)))
    except LongWord:
        return None


def _grams_around_marks(text: str, raw: bytes) -> set[str]:
    """The one, two and three characters of an ASCII text with a character that is in no word."""
    found: set[str] = set()
    marked = raw.translate(_MARK_OTHERS)
    at = marked.find(MARK)
    while at >= 0:
        found |= _cached_grams(text[max(0, at - 2) : at + 3])
        at = marked.find(MARK, at + 1)
    return found


def _grams_around_others(text: str) -> set[str]:
    """The same for any text."""
    found: set[str] = set()
    for match in _OTHERS.finditer(text):
        start, end = match.span()
        window = text[max(0, start - 2) : end + 2]
        found |= _cached_grams(window) if len(window) <= CACHED_CHARACTERS else _grams_with_others(window)
    return found


def lookup_of(part: str) -> SubstringLookup:
    """What to look up for a substring."""
    length = min(3, len(part))
    numbers = {gram for gram in grams(part, length) if _OTHERS.search(gram)}
    fragments = []
    for match in _WORD.finditer(part):
        word, is_begun, is_ended = match[0], match.start() > 0, match.end() < len(part)
        if not is_begun or not is_ended:
            fragments.append(Fragment(word, is_begun, is_ended))
        elif len(word) > LONGEST_WORD:
            numbers |= grams(word, 3)
        else:
            numbers.add(word)
    return SubstringLookup(array(numbers), fragments)


def word_row(word: str) -> tuple[str, str, str]:
    """The row of a word in the table of words."""
    return word, _NUMBERS[word], array([BEGIN + word[0], word[-1] + END, *grams(f"{BEGIN}{word}{END}", 3)])


def grams(text: str, length: int) -> set[str]:
    return {text[n : n + length] for n in range(len(text) - length + 1)}


def _grams_with_others(window: str) -> frozenset[str]:
    """The one, two and three characters in this piece of a text that have a character which is in no word."""
    return frozenset(gram for length in (1, 2, 3) for gram in grams(window, length) if _OTHERS.search(gram))


_cached_grams = lru_cache(maxsize=20_000)(_grams_with_others)
"""For short pieces. Most are punctuation between two words, and come again and again."""


def array(found: Iterable[str]) -> str:
    """The numbers of these, each once, as PostgreSQL reads an array."""
    return "{" + ",".join(set(map(_NUMBERS.__getitem__, found))) + "}"


class LongWord(Exception):
    """A word has more than LONGEST_WORD characters, so it has no number."""


class _Numbers(dict[str, str]):
    """The number of a few characters or a word, as it is written. Some share one: the texts are compared afterwards."""

    def __missing__(self, text: str) -> str:
        if len(text) > LONGEST_WORD:
            raise LongWord()
        if len(self) >= MOST_NUMBERS:
            self.clear()
        number = self[text] = str(crc32(text.encode()) - 2**31)
        return number


_NUMBERS = _Numbers()
