"""No text takes more than linear time: twice the length takes about twice as long, whatever the text."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from palaver.search import followups, snippet
from palaver.text import dates, notable, query, secrets, tokenize
from palaver.text.dates.rules import DateRules
from palaver.text.passages import pieces

HOSTILE = {
    "one word": "a",
    "tokens": "-eyJ",
    "brackets": "[](",
    "Han": "東京",
    "accents": "\u0301",
    "marks": "\u093f",
    "addresses": "http://a.b/c ",
    "mentions": "@a",
    "quotes": '."',
    "commas": ", ",
    "questions": "? ",
    "words": "a ",
    "sentences": "ﷺ",
    "backticks": "```\n",
    "keys": "-----BEGIN ",
    "dates that depend on others": "one week before the week before ",
    "half a date": "between the 3 and early ",
    "numbers": "3.",
    "digits": "2023-",
}
WANTED = query.expression("a OR b OR hello")
READERS: dict[str, Callable[[str], object]] = {
    "words": tokenize.words,
    "tokens": tokenize.tokens,
    "excerpt": lambda text: snippet.excerpt(text, WANTED),
    "snippet": lambda text: snippet.passage_snippet(text, WANTED),
    "pieces": lambda text: list(pieces(text)),
    "secrets": secrets.secret_in,
    "decisions": notable.decisions,
    "open points": notable.open_points,
    "reports": notable.finished,
    "asks": followups.asks,
    "expression": lambda text: near(text),
    "dates": lambda text: list(
        dates._matches(DateRules(text, lambda moment: moment, 2023), datetime(2023, 6, 14, tzinfo=UTC))
    ),
}


def near(text: str) -> None:
    with suppress(query.Malformed):
        query.expression(f'NEAR({text.translate(str.maketrans("", "", "()"))}"" x)')


LENGTH = 40_000
TIMES, GENEROUS = 16, 64


def seconds(read: Callable[[str], object], text: str) -> float:
    """CPU seconds of this thread alone."""
    began = time.thread_time()
    read(text)
    return time.thread_time() - began


@pytest.mark.examples(76)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_longer_text_takes_longer_in_proportion(reader: str, kind: str):
    read, text = READERS[reader], HOSTILE[kind] * LENGTH
    some = min(seconds(read, text[: LENGTH // TIMES]) for _ in range(3))
    most = max(some, 0.002) * GENEROUS
    assert any(seconds(read, text[:LENGTH]) < most for _ in range(3))  # usually the first
