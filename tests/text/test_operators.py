"""Operators of a query are taken out of it, and everything else stays a word."""

from __future__ import annotations

import pytest

from palaver.text.operators import MOST_OPERATORS, take_operators


@pytest.mark.parametrize(
    "text, words, operators",
    [
        ("deploy", "deploy", []),
        ("from:ada deploy", "deploy", [("from", "ada")]),
        ("deploy from:ada", "deploy", [("from", "ada")]),
        ("from:ada deploy ", "deploy ", [("from", "ada")]),
        ("deploy from:ada failed", "deploy failed", [("from", "ada")]),
        ("deploy from:ada ", "deploy", [("from", "ada")]),
        ('from:"Ada L" in:"Deploy of Friday" x', "x", [("from", "Ada L"), ("in", "Deploy of Friday")]),
        ('after:"last week"', "", [("after", "last week")]),
        ("From:Ada SOURCE:notes", "", [("from", "Ada"), ("source", "notes")]),
        ('from:"Ada', "", [("from", "Ada")]),
        ("has:code has:link", "", [("has", "code"), ("has", "link")]),
        ("project:/src/app.d x", "x", [("project", "/src/app.d")]),
    ],
)
def test_operators_are_taken_out_of_the_words(text: str, words: str, operators: list[tuple[str, str]]):
    assert take_operators(text) == (words, tuple((name, value, False) for name, value in operators))


@pytest.mark.parametrize("name", ["from", "in", "source", "project", "has"])
def test_a_minus_before_an_operator_excludes(name: str):
    typed = f'x -{name}:a -{name.upper()}:"b c" {name}:d'
    assert take_operators(typed) == ("x", ((name, "a", True), (name, "b c", True), (name, "d", False)))


@pytest.mark.parametrize(
    "text",
    [
        "foo:bar",
        "http://example.org/a",
        "at 12:30",
        "TODO:fix",
        "std::vector",
        "from: Ada",
        "before:",
        "a-from:ada",
        '"from:ada"',
        '"he wrote from:ada there"',
        'from:""',
        "xfrom:ada",
        "content:word",
        "--from:ada",
        "a -before:2026",
        "- from:",
    ],
)
def test_everything_else_stays_a_word(text: str):
    assert take_operators(text) == (text, ())


def test_a_query_of_thousands_of_operators_is_read():
    words, operators = take_operators("from:a " * 5_000)
    assert len(operators) == MOST_OPERATORS
    assert words.count("from:a") == 5_000 - MOST_OPERATORS
