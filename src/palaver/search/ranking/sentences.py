"""Split a text into parts of a sentence or two, so that each can be compared with a question by itself."""

from __future__ import annotations

import re

from palaver.text import tokenize

LONGEST = 130
SHORTEST = 30
"""A shorter sentence stays together with the next one."""
MOST_READ = 800
"""Characters of a text that are split. The beginning of a longer text says what it is about."""

# Whole sentences and lines that fit; else whole words; else characters.
_SENTENCES = re.compile(
    rf".{{{SHORTEST},{LONGEST}}}(?:(?<=[.!?])\s+|\n+|\Z)|.{{1,{LONGEST}}}(?:\s+|\Z)|.{{{LONGEST}}}", re.DOTALL
)


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
