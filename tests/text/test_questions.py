"""What a question asks for."""

from __future__ import annotations

import pytest

from palaver.text.questions import taken_apart, terms


def said(text: str) -> list[str]:
    return [" ".join(phrase.words) for phrase in terms(text)]


@pytest.mark.parametrize(
    "asked, looked_for",
    [
        ("What is the name of the harbour?", ["name", "harbour"]),
        ("What is Caroline's status?", ["caroline", "status"]),
        ("does node.js work", ["node js", "work"]),
        ("harbour harbour", ["harbour"]),
        ("what's", ["what s"]),
        ("to be or not to be", ["to", "be", "or", "not"]),
        ("…?!", []),
    ],
)
def test_the_meaningful_words_are_looked_for(asked: str, looked_for: list[str]):
    assert said(asked) == looked_for


def test_what_the_other_words_give_away():
    question = taken_apart("When did you tell me about my latest trip?")
    assert question.is_asked
    assert question.is_mine
    assert question.is_yours
    assert question.wants_time
    assert question.wants_latest


@pytest.mark.parametrize("keywords", ["harbour", "harbour master", "POL-358", ""])
def test_a_few_keywords_are_no_question(keywords: str):
    assert not taken_apart(keywords).is_asked
