"""Operators of a query: `from:ada after:2026-05 deploy` is the word deploy and two operators. `-from:ada` excludes.

A name that is not an operator (`http://…`, `TODO:fix`) stays a word. So does everything inside double quotes.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args

OperatorName = Literal["from", "in", "source", "project", "before", "after", "has"]
NAMES: tuple[OperatorName, ...] = get_args(OperatorName)
EXCLUDING = ("from", "in", "source", "project", "has")
"""Operators that a - can be before. Times need none: `before` excludes what is `after`."""
MOST_OPERATORS = 50
"""Further ones stay words."""

_TYPED = "|".join([*NAMES, *(f"-{name}" for name in EXCLUDING)])
_TOKEN = re.compile(
    rf"""
      (?<!\S) (?P<name>{_TYPED}) : (?: "(?P<quoted>[^"]*)(?:"|$) | (?P<bare>[^\s"]+) )
    | "[^"]*"
    """,
    re.VERBOSE | re.IGNORECASE,
)


class Operator(NamedTuple):
    name: OperatorName
    value: str
    is_excluding: bool = False


def take_operators(text: str) -> tuple[str, tuple[Operator, ...]]:
    """The words of a query without its operators, and the operators in order. A blank after the last word stays. It
    says that the word is finished."""
    found: list[Operator] = []
    end = 0

    def take(match: re.Match[str]) -> str:
        nonlocal end
        value = (match["bare"] or match["quoted"] or "").strip()
        if not match["name"] or not value or len(found) == MOST_OPERATORS:
            return match[0]
        typed = match["name"].lower()
        name = next(name for name in NAMES if name == typed.removeprefix("-"))
        found.append(Operator(name, value, typed.startswith("-")))
        end = match.end()
        return ""

    words = _TOKEN.sub(take, text)
    if not found:
        return text, ()
    is_finished = text[-1].isspace() and end < len(text.rstrip())
    return " ".join(words.split()) + " " * is_finished, tuple(found)
