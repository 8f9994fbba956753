"""Texts in stretches."""

from __future__ import annotations

import pytest

from palaver.search.ranking.texts import LONGEST, MOST_READ, sentences, words_of_sentences
from palaver.text.tokenize import words


def test_a_short_text_is_one_stretch():
    assert sentences("We sail on Friday. Bring a coat.") == ["We sail on Friday. Bring a coat."]


def test_sentences_stay_whole_and_lines_end_them():
    one, other = (
        "I am looking for a new lamp for the desk in my room, a bright one.",
        "By the way, I finished 20 videos so far!",
    )
    assert sentences(f"{one}\n\n{other} {one}") == [f"{one}\n\n{other}", one]


@pytest.mark.parametrize("text", ["word " * 300, "x" * 3_000, "Yes. " * 400, "\n".join("line" for _ in range(500))])
def test_all_of_the_beginning_is_in_stretches_that_are_not_long(text: str):
    found = sentences(text)
    assert max(map(len, found)) <= LONGEST
    assert "".join("".join(found).split()) == "".join(text[:MOST_READ].split())


@pytest.mark.parametrize("text", ["", "  \n "])
def test_nothing_is_one_empty_stretch(text: str):
    assert sentences(text) == [""]


@pytest.mark.parametrize("end", ["", " Straße, naïve: 東京"])
def test_the_words_of_sentences_are_those_of_each(end: str):
    text = "I loved the debate team at school. " * 8 + "What does an economist earn?" + end
    assert words_of_sentences(text) == [words(one) for one in sentences(text)]
    assert len(words_of_sentences(text)) > 2


def test_one_stretch_needs_no_words_of_its_own():
    assert words_of_sentences("x" * LONGEST) == []
