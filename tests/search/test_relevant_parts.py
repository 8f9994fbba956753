"""Of a very long text, the parts that are about the question are ranked and shown."""

from __future__ import annotations

import httpx
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import ONE_ENGINE
from tests.helpers import Thread, word

from palaver.search.snippet import LONGEST_WHOLE, relevant_parts, snippet_and_place
from palaver.text.query import plain

FILLER = "nothing to see here, it goes on and on. " * (3 * LONGEST_WHOLE // 40)


def test_a_text_that_is_not_very_long_stays_whole():
    text = FILLER[:LONGEST_WHOLE]
    assert relevant_parts(text, ["zebra"]).text == text


def test_the_parts_with_the_most_different_words_are_kept_and_the_rest_is_left_out():
    text = f"{FILLER}a zebra alone {FILLER}the Zebra met a giraffe {FILLER}"
    parts = relevant_parts(text, ["zebra", "giraffes"])
    assert parts.text.startswith(text[:1_000])
    assert "the Zebra met a giraffe" in parts.text
    assert "a zebra alone" in parts.text
    assert len(parts.text) < len(text) / 3


def test_words_are_found_whatever_their_case_and_accents():
    text = f"{'ẞ İ ' * LONGEST_WHOLE}Une idée d'ÉLAN {FILLER}"
    snippet, place = snippet_and_place(text, plain("elan"))
    assert "ÉLAN" in snippet
    assert place
    assert text[slice(*place)] == "ÉLAN"


@given(before=st.integers(0, 50_000), between=st.integers(0, 50_000))
def test_a_place_in_the_parts_is_the_same_text_in_the_whole(before: int, between: int):
    text = f"{FILLER[:before]} zebra {FILLER[:between]} giraffe {FILLER}"
    parts = relevant_parts(text, ["zebra", "giraffe"])
    for name in ("zebra", "giraffe"):
        at = parts.text.find(name)
        start, end = parts.place_in_whole((at, at + len(name)))
        assert text[start:end] == name


def test_the_snippet_of_a_very_long_text_shows_the_words_together():
    text = f"{FILLER}zebra {FILLER}giraffe {FILLER}the zebra met a giraffe {FILLER}"
    snippet, place = snippet_and_place(text, plain("zebra giraffe"))
    assert "the zebra met a giraffe" in snippet
    assert place
    assert text[slice(*place)] == "zebra met a giraffe"


@ONE_ENGINE
def test_a_word_at_the_end_of_a_very_long_message_ranks_it_and_is_shown(api: httpx.Client, thread: Thread):
    one, two = word(), word()
    long = thread.post(f"{FILLER} {one} and {two}")
    thread.post(f"only {one} here")
    found = api.post("/api/knowledge/search", json={"query": f"{one} {two}", "sources": ["bus"]}).json()["results"]
    assert found[0]["id"] == long["id"]
    assert f"{one} and {two}" in found[0]["snippet"]
