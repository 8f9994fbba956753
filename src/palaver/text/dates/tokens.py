"""A text as tokens: words, numbers and dates in digits."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Container
from datetime import datetime
from typing import NamedTuple

from palaver.text.dates import words

_TOKEN = re.compile(
    r"""
    (?P<iso>\d{4}-(?:W\d\d|\d\d(?:-\d\d(?:[Tt\ ]\d\d:\d\d(?::\d\d(?:[.]\d{1,6})?)?(?:[Zz]|[+-]\d\d:?\d\d)?)?)?)
    (?![\w-]))
    |(?P<dotted>\d{1,2}\.\ ?\d{1,2}\.(?:\ ?\d{4}(?!\d)|\d\d(?![\d.]))?(?!\d))
    |(?P<slashed>\d{4}/\d{1,2}/\d{1,2}(?![\w/])|\d{1,2}/\d{1,2}/\d{4}(?![\w/]))
    |(?P<ordinal>\d{1,2}(?:st|nd|rd|th)(?!\w))
    |(?P<number>\d+(?![^\W_]))
    |(?P<coded>(?:[Qq][1-4]|[KkCc][Ww]\d{1,2})(?![^\W_]))
    |(?P<word>[^\W_]+)
    |(?P<sign>[^\w\s]|_)
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: str
    text: str
    word: str
    """The text, folded."""
    begin: int
    end: int


NO_TOKEN = Token("", "", "", 0, 0)


class Tokens:
    """The tokens of a text, and what each of them may be."""

    def __init__(self, text: str, local: Callable[[datetime], datetime], this_year: int) -> None:
        self.text, self.local, self.this_year = text, local, this_year
        fold = str.lower if text.isascii() else words.fold
        self.tokens = [Token(one.lastgroup or "", one[0], fold(one[0]), *one.span()) for one in _TOKEN.finditer(text)]
        self.size = len(self.tokens)
        self._ends = [n for n, one in enumerate(self.tokens) if one.text in ".!?;" and one.kind == "sign"]
        self._tenses: dict[int, bool] = {}

    def at(self, number: int) -> Token:
        return self.tokens[number] if 0 <= number < self.size else NO_TOKEN

    def word(self, number: int) -> str:
        return self.tokens[number].word if 0 <= number < self.size else ""

    def is_about_time(self, number: int) -> bool:
        """Whether this token can be the one that makes some words a date."""
        one = self.tokens[number]
        if one.kind == "word":
            return one.word in words.TIME_WORDS
        if one.kind == "number":
            return self.year_at(number) is not None or self.word(number - 1) in words.BEFORE_NUMBER
        return one.kind != "sign"

    def is_future(self, number: int) -> bool:
        """Whether the sentence with this token is about the future."""
        sentence = bisect_right(self._ends, number)
        if sentence not in self._tenses:
            first = self._ends[sentence - 1] + 1 if sentence else 0
            last = self._ends[sentence] if sentence < len(self._ends) else len(self.tokens)
            said = {one.word for one in self.tokens[first:last]}
            if self.word(first) == "was":  # German for "what"
                said.remove("was")
            self._tenses[sentence] = not said.isdisjoint(words.FUTURE) and said.isdisjoint(words.PAST)
        return self._tenses[sentence]

    def ends_phrase(self, number: int) -> bool:
        """Whether no noun begins at this token."""
        one = self.at(number)
        return one.kind in ("", "sign") or one.word in words.FOLLOWERS or one.word in words.OPENERS

    def number_at(self, n: int, most: int = 9_999) -> int | None:
        """The number at a token, in digits or as a word."""
        one = self.at(n)
        if one.kind == "number":
            return int(one.text) if len(one.text) <= 4 and 0 < int(one.text) <= most else None
        return words.NUMBERS.get(one.word)

    def year_at(self, n: int) -> int | None:
        one = self.at(n)
        return int(one.text) if one.kind == "number" and len(one.text) == 4 and one.text[:2] in ("19", "20") else None

    def day_at(self, n: int) -> tuple[int, int] | None:
        """A day of a month and the number of the next token: 3, 3rd, 3., third."""
        one = self.at(n)
        if one.kind == "ordinal":
            return (int(one.text[:-2]), n + 1) if 0 < int(one.text[:-2]) <= 31 else None
        if one.kind == "number" and len(one.text) <= 2 and 0 < int(one.text) <= 31:
            has_dot = self.at(n + 1).text == "." and self.at(n + 1).begin == one.end
            return int(one.text), n + 2 if has_dot else n + 1
        return (words.ORDINALS[one.word], n + 1) if one.word in words.ORDINALS else None

    def skip(self, n: int, some: Container[str]) -> int:
        """The number of the next token, if this one is one of some words."""
        return n + 1 if self.word(n) in some else n
