"""What a turn of talk does."""

from __future__ import annotations

import pytest

from palaver.search.followups import asks, asks_back, corrects


@pytest.mark.parametrize(
    "text", ["When do we sail?", 'She said "why?" and left.', "どこですか？", "x " * 900 + "Or not?"]
)
def test_a_question_is_one(text: str):
    assert asks(text)


@pytest.mark.parametrize(
    "text", ["We sail on Friday.", "see http://x.test/?q=1", "Why? " + "because of this. " * 60, ""]
)
def test_anything_else_is_none(text: str):
    assert not asks(text)


def test_asking_in_return_is_no_answer():
    assert asks_back("Which one do you mean?")
    assert not asks_back("The green one. Do you like it?" + " It is nice." * 30)


@pytest.mark.parametrize(
    "text",
    [
        "Actually the launch is on Monday.",
        "The launch was postponed.",
        "We no longer launch from here",
        "I changed my mind about launching it",
        "Let us launch the blue one instead.",
        "UPDATE: launches are off",
    ],
)
def test_a_correction_is_recognised(text: str):
    assert corrects(text, {"launch"})


@pytest.mark.parametrize(
    "text",
    [
        "The launch is on Friday.",
        "Actually, I had soup.",
        "Factually the launch is on Friday.",
        "Use a rocket instead of a boat for the launch.",
        "Actually, I had soup. " + "It was good. " * 40 + "The launch is on Friday.",
    ],
)
def test_a_text_without_a_correction_is_not_taken_for_one(text: str):
    assert not corrects(text, {"launch"})
