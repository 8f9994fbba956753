"""Folding of names: two names that look the same to a reader share a key.

Case, accents, invisible characters, and kinds of blanks and hyphens do not count. Letters of Cyrillic and Greek that
look like a Latin letter count as that letter, as in the table of confusables of Unicode TS 39. It maps lower-case
letters, by the shape of either case.
"""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category, combining, normalize

_LOOK_ALIKES = str.maketrans(
    "авгекмнопрстухьѕіјһӏԁԛԝαβεζηικμνορτυχωϲϳıɩɑɡłøđħ|‘’ʼ`",
    "abrekmhonpctyxbsijhldqwabezhikmnoptyxwcjiiaglodhl''''",
)
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0000-\U000e0fff]")
_BETWEEN_WORDS = re.compile(r"[\s_.\u2010-\u2015\u2212-]+")
_LETTER = r"[^\W\d_]"
_CAPITAL_I = re.compile(rf"(?<=[a-z])I+|(?<={_LETTER})I+(?=[a-z])")
_WORD_WITH_DIGIT = re.compile(rf"\w*(?:{_LETTER}[01]|[01]{_LETTER})\w*")


@lru_cache(maxsize=10_000)
def fold(name: str) -> str:
    """The key of a name. Names with the same key are the same name."""
    shown = "".join(char for char in normalize("NFKD", name) if combining(char) < 200 and category(char) != "Cf")
    plain = _INVISIBLE.sub("", shown).casefold().translate(_LOOK_ALIKES)
    return _BETWEEN_WORDS.sub("-", plain).strip("-@") or name.casefold()


def slug_of(name: str) -> str:
    """The short name for addresses: lower-case ASCII letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-_")[:60] or "agent"


def is_written_alike(name: str, other: str) -> bool:
    """Whether two names differ only in case, or one is the short name of the other."""
    first, second = name.casefold(), other.casefold()
    return first == second or slug_of(name) == second or slug_of(other) == first


def keys_of(name: str) -> list[str]:
    """All keys that a name takes, its own first. `AIice`, `A1ice` and `al1ce` take the key of `Alice` too."""
    capital = _CAPITAL_I.sub(lambda found: "l" * len(found[0]), normalize("NFKC", name))
    keys = [fold(name), fold(capital)]
    keys += [_with_letters(key, one) for key in keys for one in "li"]
    return list(dict.fromkeys(keys))


def _with_letters(key: str, one: str) -> str:
    """The key with letters for the digits 0 and 1 that are beside a letter."""
    return _WORD_WITH_DIGIT.sub(lambda word: word[0].replace("0", "o").replace("1", one), key)
