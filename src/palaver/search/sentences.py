"""A text in stretches of a sentence or two: who looks at all of it at once misses what is said in passing."""

from __future__ import annotations

import re

from palaver.text import tokenize

LONGEST = 130
SHORTEST = 30
"""A shorter sentence is not cut off from the next."""
MOST_READ = 800
"""Characters of a text that are cut up: of longer ones the beginning says what they are about."""

# As many whole sentences and lines as there is room for; else as many words; else as many letters.
_STRETCH = re.compile(
    rf".{{{SHORTEST},{LONGEST}}}(?:(?<=[.!?])\s+|\n+|\Z)|.{{1,{LONGEST}}}(?:\s+|\Z)|.{{{LONGEST}}}", re.DOTALL
)


def words_of_stretches(text: str) -> list[list[str]]:
    """Their folded words; nothing of a text that is one stretch."""
    beginning = text[:MOST_READ]
    if len(beginning) <= LONGEST:
        return []
    folded = tokenize.plain(beginning)
    if folded is None:
        return [tokenize.words(one) for one in stretches(text)]
    easy = folded.decode()
    return [easy[slice(*one.span())].split() for one in _STRETCH.finditer(beginning)]


def stretches(text: str) -> list[str]:
    """At least one, each of whole sentences where those are not too long."""
    return [one for one in map(str.strip, _STRETCH.findall(text[:MOST_READ])) if one] or [""]
