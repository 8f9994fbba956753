"""Spelling: a word of a query that no passage has is read as the likeliest word one letter away.

Only what the caller may read counts: for the words that are known, for those near them, and for how often they occur.
No table is kept: the possible words are looked up like terms, and the newest passages with them are read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from palaver.model.people import Caller
from palaver.model.sources import ALL_SOURCES
from palaver.search.operators import WITH_NAMES, spellings
from palaver.search.question import Question
from palaver.search.scope import newest_with, readable_scopes
from palaver.search.vectors import words as word_vectors
from palaver.store.bus import agents
from palaver.store.engines.database import Reader, Scope
from palaver.store.search import found_passages
from palaver.text import tokenize
from palaver.text.languages import ENGLISH
from palaver.text.query import Phrase

SHORTEST, LONGEST = 4, 30
"""Shorter words are not corrected: too many words are one letter away. Of longer ones, too many would be looked up."""
MOST_LOOKED_UP = 12
"""The first words of a query that are looked up."""
FEW_UNKNOWN, MOST_UNKNOWN = 2, 4
"""A query with more unknown words is not misspelt: it is in another language, or about something else. So is one with
more than a few, if they are more than half of its terms."""
AT_ONCE = 100
"""Possible words that are looked up together. PostgreSQL compares each with all others."""
MOST_READ = 25
"""The newest passages of each source that are read to see which of these words they have."""
LONGEST_READ = 50_000
"""Characters of a passage that are read."""
MOST_AUTHORS = 2_000
"""Names of authors that are looked at."""

LIKELY, UNLIKELY, VERY_UNLIKELY = 10.0, 0.2, 0.05
"""How likely mistakes are: two letters swapped or one doubled; any other letter instead; a letter too many. A letter
missing or its neighbour on the keyboard instead: about 1."""
OTHER_FORM = 0.1
"""What a passage counts that has only another form of a possible word, as a share of one that has the word."""
TOGETHER = 10.0
"""What a passage with another term of the query counts besides."""
ENOUGH = 30.0
"""If a word that differs by a likely mistake has as many points, other mistakes are not considered."""

_QUOTED = re.compile(r'["“”„«»]([^"“”„«»]+)["“”„«»]')
_ALPHABETS = [[chr(code) for code in range(ord(first), ord(last) + 1)] for first, last in ("az", "ая", "αω")]
_KEYBOARD = "qwertyuiop asdfghjkl zxcvbnm qazs wsxd edcf rfvg tgbh yhnj ujmk ikl aw se dr ft gy hu ji ko lp"
_NEIGHBOURS = {frozenset(pair) for keys in _KEYBOARD.split() for pair in pairwise(keys)}


def corrections(read: Reader, caller: Caller, question: Question, scopes: Sequence[Scope]) -> dict[str, str]:
    """The words of a question that are read as other words. The other words are in these scopes."""
    quoted = {word for found in _QUOTED.finditer(question.text) for word in tokenize.words(found[1])}
    single = [term.words[0] for term in question.terms if len(term.words) == 1 and not term.prefix]
    doubted = [word for word in single if word not in quoted and _may_be_misspelt(word)]
    missing = [word for word in doubted[:MOST_LOOKED_UP] if not _is_known(read, caller, word, scopes)]
    if len(missing) > min(MOST_UNKNOWN, max(FEW_UNKNOWN, len(question.terms) / 2)):
        return {}
    others = [term for term in question.terms if term.words[0] not in missing]
    found: dict[str, str] = {}
    for word in missing:
        if best := _likeliest(read, word, others, scopes):
            found[word] = best
            others.append(Phrase((best,)))
    return found


def begins_nothing(read: Reader, question: Question, scopes: Sequence[Scope]) -> bool:
    """Whether the word that is being typed begins no word in these scopes."""
    typed = question.terms[-1] if question.has_prefix else None
    if typed is None or len(typed.words) > 1 or len(typed.words[0]) < SHORTEST or question.text.endswith("*"):
        return False
    return not newest_with(read, [[typed]], scopes, 1)


def corrected(text: str, read_as: Mapping[str, str]) -> str:
    """A text with other words in place of some."""
    for token in reversed(tokenize.tokens(text)):
        if token.word in read_as:
            text = text[: token.start] + read_as[token.word] + text[token.end :]
    return text


def _may_be_misspelt(word: str) -> bool:
    is_word = SHORTEST <= len(word) <= LONGEST and word.isalpha() and word not in ENGLISH.stop_words
    return is_word and not word_vectors.is_known(word)


def _is_known(read: Reader, caller: Caller, word: str, scopes: Sequence[Scope]) -> bool:
    """Whether the caller may read a passage with this word, wherever the search looks, or somebody has this name."""
    groups = [[Phrase((word,))]]
    if newest_with(read, groups, scopes, 1) or agents.named(read, word):
        return True
    if newest_with(read, groups, readable_scopes(read, caller, [Scope(ALL_SOURCES)]), 1):
        return True
    names = [name for name in found_passages.author_names(read, MOST_AUTHORS) if word in tokenize.words(name)]
    said = Scope(WITH_NAMES, titles=False, authors=tuple(one for name in names for one in spellings(name)))
    return bool(names) and any(found_passages.newest(read, one, 1) for one in readable_scopes(read, caller, [said]))


def _likeliest(read: Reader, word: str, others: Sequence[Phrase], scopes: Sequence[Scope]) -> str | None:
    """The likeliest of the words one letter away that passages have: the word of most passages, preferably of those
    with other terms of the query."""
    edits = _edits(word)
    points: dict[str, float] = {}
    for some in ([one for one, likely in edits.items() if likely >= LIKELY], list(edits)):
        ids = set[int]()
        for begin in range(0, len(some), AT_ONCE):
            possible = [Phrase((one,)) for one in some[begin : begin + AT_ONCE]]
            found = newest_with(read, [possible], scopes, MOST_READ)
            if others and len(found) >= MOST_READ:
                found = newest_with(read, [possible, others], scopes, MOST_READ) or found
            ids.update(found)
        points = _points(read, ids, {one: edits[one] for one in some}, others)
        if max(points.values(), default=0.0) >= ENOUGH:
            break
    return max(points, key=lambda one: (points[one], one), default=None)


def _points(read: Reader, ids: Iterable[int], edits: Mapping[str, float], others: Sequence[Phrase]) -> dict[str, float]:
    """The possible words that these passages have, each with how much speaks for it."""
    forms: dict[str, float] = {}
    for one, likely in edits.items():
        forms[tokenize.stem(one)] = max(forms.get(tokenize.stem(one), 0.0), likely * OTHER_FORM)
    together = {stem for term in others for stem in tokenize.stems(term.words)}
    points: dict[str, float] = defaultdict(float)
    for passage in found_passages.by_ids(read, ids).values():
        read.check()
        stem_of = {word: tokenize.stem(word) for word in tokenize.words(passage.text[:LONGEST_READ])}
        worth = 1.0 + TOGETHER * len(together.intersection(stem_of.values()))
        for word, stem in stem_of.items():
            if word in edits or stem in forms:
                points[word] += worth * edits.get(word, forms[stem])
    return points


def _edits(word: str) -> dict[str, float]:
    """The words one letter away, each with how likely the mistake is. The first letter is rarely wrong."""
    found: dict[str, float] = {}
    for edit, likely in _all_edits(word):
        found[edit] = max(found.get(edit, 0.0), likely)
    found.pop(word, None)
    return found


def _all_edits(word: str) -> Iterator[tuple[str, float]]:
    letters = next((alphabet for alphabet in _ALPHABETS if word[0] in alphabet), [])
    for at in range(len(word) + 1):
        before, here, after = word[:at], word[at : at + 1], word[at + 1 :]
        usual = 1.0 if at else 0.3
        if after:
            yield before + after[0] + here + after[1:], LIKELY
        if here:
            yield before + after, LIKELY if here in (before[-1:], after[:1]) else VERY_UNLIKELY
        for letter in letters:
            yield before + letter + here + after, usual if letter in (before[-1:], here) else usual / 2
            if here:
                yield before + letter + after, usual if {letter, here} in _NEIGHBOURS else usual * UNLIKELY
