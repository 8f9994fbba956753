"""What is shown of a hit."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.search import snippet as snippets
from palaver.search.snippet import as_html, as_text, match_place, passage_snippet
from palaver.text.query import Nothing, expression, plain
from palaver.text.tokenize import tokens, words


def excerpt(text, query, *, escape=False, **how):
    """An excerpt as it is shown: to those who read text, or on a page."""
    marked = snippets.excerpt(text, query, **how)
    return as_html(marked) if escape else as_text(marked)


TEXT = (
    "It was said that the quick brown fox jumps over the lazy dog, while the other fox & <b>friends</b> stayed at home. "
    "Nobody knew why this had to happen; but it did, again and again, until the end of time."
)


def without_marks(snippet: str) -> str:
    return snippet.replace("<mark>", "").replace("</mark>", "").removeprefix("…").removesuffix("…")


@pytest.mark.parametrize(
    "query, expected",
    [
        (
            "brown",
            "It was said that the quick <mark>brown</mark> fox jumps over the lazy dog, while the other fox & <b>friends</b…",
        ),
        (
            "why",
            "…fox & <b>friends</b> stayed at home. Nobody knew <mark>why</mark> this had to happen; but it did, again and again…",
        ),
        (
            "TIME",
            "…at home. Nobody knew why this had to happen; but it did, again and again, until the end of <mark>time</mark>.",
        ),
        ("zebra", "It was said that the quick brown fox jumps over the lazy dog, while the other fox & <b>friends</b…"),
    ],
)
def test_an_excerpt_has_twenty_words_around_the_match(query, expected):
    assert excerpt(TEXT, expression(query)) == expected


@pytest.mark.parametrize(
    "query, expected",
    [
        ('"quick brown fox"', "the <mark>quick brown fox</mark> runs"),
        ("quick brown", "the <mark>quick</mark> <mark>brown</mark> fox runs"),
        ('"quick brown" "brown fox"', "the <mark>quick brown fox</mark> runs"),
        ("qui*", "the <mark>quick</mark> brown fox runs"),
        ('"brown f"*', "the quick <mark>brown fox</mark> runs"),
        ("fox NOT quick", "the quick brown <mark>fox</mark> runs"),
        ("NEAR(quick fox)", "the <mark>quick</mark> brown <mark>fox</mark> runs"),
        ("^the", "<mark>the</mark> quick brown fox runs"),
        ('^"the qui"*', "<mark>the quick</mark> brown fox runs"),
        ("^brown OR fox", "the quick brown <mark>fox</mark> runs"),
        ("run", "the quick brown fox runs"),
        ('"brown quick"', "the quick brown fox runs"),
        ('"fox runs away"', "the quick brown fox runs"),
    ],
)
def test_each_match_is_marked(query, expected):
    assert without_marks(excerpt("the quick brown fox runs", expression(query))) == "the quick brown fox runs"
    assert excerpt("the quick brown fox runs", expression(query)) == expected


def test_a_word_that_the_text_begins_with_is_marked_there_only():
    assert excerpt("fox and fox", expression("^fox")) == "<mark>fox</mark> and fox"
    assert excerpt("fox and fox", expression("^fox OR and")) == "<mark>fox</mark> <mark>and</mark> fox"


def test_a_match_is_marked_as_it_is_written():
    assert (
        excerpt("Un CAFÉ, s'il-vous-plaît!", expression("cafe s'il"))
        == "Un <mark>CAFÉ</mark>, <mark>s'il</mark>-vous-plaît!"
    )
    assert excerpt("東京タワーは東京都港区", expression("東京都")) == "東京タワーは<mark>東京都</mark>港区"
    assert excerpt("good 👍🏽!", expression("👍")) == "good <mark>👍🏽</mark>!"
    assert excerpt("the ㍿ sign", expression("株 式")) == "the <mark>㍿</mark> sign"


def test_the_excerpt_shows_where_most_phrases_meet():
    text = "fox " + "x " * 50 + "brown fox " + "x " * 50 + "brown fox"
    assert excerpt(text, expression("brown fox"), length=6) == "…x x <mark>brown</mark> <mark>fox</mark> x x…"


def test_words_in_other_forms_are_found_for_snippets_but_not_marked_in_excerpts():
    assert match_place("She was running home", plain("runs")) == (8, 15)
    assert excerpt("She was running home", plain("runs")) == "She was running home"
    assert match_place("a jumped-over dog", plain("jumps-over")) == (2, 13)


def test_an_escaped_excerpt_is_safe_in_a_page():
    assert excerpt("<b>\"fox\"</b> & 'dog'", expression("fox"), escape=True) == (
        "&lt;b&gt;&quot;<mark>fox</mark>&quot;&lt;/b&gt; &amp; &#x27;dog&#x27;"
    )


def test_a_phrase_longer_than_the_excerpt_is_marked_as_far_as_it_is_shown():
    text = " ".join(f"w{number}" for number in range(100))
    typed = " ".join(f"w{number}" for number in range(50, 90))
    shown = " ".join(f"w{number}" for number in range(50, 70))
    assert excerpt(text, expression(f'"{typed}"')) == f"…<mark>{shown}</mark>…"


def test_texts_without_words_are_shown_too():
    assert excerpt("", expression("fox")) == ""
    assert excerpt("...", Nothing()) == "..."
    assert excerpt("?" * 5_000, expression("fox")) == "?" * 600 + "…"


def test_pages_of_punctuation_do_not_make_a_huge_excerpt():
    snippet = excerpt("a" + "." * 100_000 + "fox" + "-" * 100_000 + "b", expression("fox"))
    assert re.fullmatch(r"…\.{298}<mark>fox</mark>-{299}…", snippet)
    assert len(excerpt("fox" + "\u200d" * 100_000, expression("fox"))) < 650


@pytest.mark.parametrize("filler", ["lorem ipsum dolor sit amet ", "naïve façade ", "日本語の文章。", "x"])
def test_a_match_far_back_in_a_long_text_is_found_quickly(filler):
    text = filler * (300_000 // len(filler)) + " zebra " + filler * (300_000 // len(filler))
    began = time.thread_time()
    assert "<mark>zebra</mark>" in excerpt(text, expression("zebra"))
    assert "zebra" in passage_snippet(text, expression("zebra"))
    assert time.thread_time() - began < 2


def test_a_passage_snippet_is_one_line_of_plain_text():
    assert passage_snippet("  the\n\nquick\tbrown   fox ", expression("fox")) == "the quick brown fox"


@pytest.mark.parametrize(
    "query, expected",
    [
        ("brown", "It was said that the quick brown fox jumps over the lazy dog, while the other…"),
        ("time", "…why this had to happen; but it did, again and again, until the end of time."),
        ("happened", "…home. Nobody knew why this had to happen; but it did, again and again, until…"),
        ("fox friends", "…the lazy dog, while the other fox & <b>friends</b> stayed at home. Nobody…"),
        ("zebra", "It was said that the quick brown fox jumps over the lazy dog, while the other…"),
    ],
)
def test_a_passage_snippet_is_cut_between_words_around_the_match(query, expected):
    assert passage_snippet(TEXT, plain(query), length=80) == expected


def test_a_passage_snippet_does_not_cut_what_is_seen_as_one_character():
    for width in range(50, 60):
        snippet = passage_snippet("e\u0301" * 400, expression("zebra"), length=width)
        assert re.fullmatch("(e\u0301)+…", snippet)


texts = st.lists(
    st.sampled_from(
        [
            "one",
            "two",
            "ones",
            "three",
            " ",
            "\n",
            "<b>",
            "&",
            "…",
            "東",
            "京",
            "e\u0301",
            "👍🏽",
            "?",
            "-" * 700,
            "x" * 250,
        ]
    ),
    max_size=60,
).map("".join)
queries = st.sampled_from(
    ["one", "one two", '"one two"', "on*", '"one tw"* OR three', "東京", "é", "👍", "zebra", "?", "x*"]
).map(expression)


@given(texts | st.text(), queries, st.integers(1, 30))
def test_an_excerpt_is_a_part_of_the_text(text, query, length):
    shown = without_marks(excerpt(text, query, length=length))
    assert shown in text or shown.strip("…") in text
    assert len(shown) <= 600
    # One character may be several words: ¼ is found as 1/4, and 0¼ as 01/4. Words that share characters count once.
    ends = [0, *(token.end for token in tokens(shown))]
    apart = [token for token, end in zip(tokens(shown), ends, strict=False) if token.start >= end]
    assert len(apart) <= length or len(text) == len(shown)


@given(texts, queries)
def test_a_short_text_is_shown_whole(text, query):
    snippet = excerpt(text, query, length=10_000)
    if len(text) <= 600:
        assert snippet.replace("<mark>", "").replace("</mark>", "") == text


@given(texts, st.sampled_from(["one", '"one two"', "on*", "東", "👍"]))
def test_a_match_is_always_marked(text, typed):
    joined = f" {' '.join(words(text))} "
    is_there = f" {' '.join(words(typed))}" + " " * (not typed.endswith("*")) in joined
    assert ("<mark>" in excerpt(text, expression(typed))) == is_there


@given(texts | st.text(), queries, st.integers(1, 30))
def test_an_escaped_excerpt_has_no_tags_but_the_marks(text, query, length):
    snippet = excerpt(text, query, length=length, escape=True)
    assert not re.search("[<>\"']", re.sub("<mark>(.*?)</mark>", r"\1", snippet, flags=re.DOTALL))


@given(texts | st.text(), queries, st.integers(1, 400))
def test_a_passage_snippet_is_never_too_long(text, query, length):
    snippet = passage_snippet(text, query, length=length)
    assert len(snippet) <= length
    assert snippet == snippet.strip()
    assert not re.search(r"\s\s|[\n\t]", snippet)


@given(texts, st.integers(50, 400))
def test_a_passage_snippet_contains_the_match(text, length):
    if "two" in words(text):
        assert "two" in " ".join(words(passage_snippet(text, expression("two"), length=length)))
