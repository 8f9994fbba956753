"""Cutting a text into passages, and finding the one that holds a place."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.text.passages import OVERLAP, SIZE, Piece, holding, pieces

texts = st.text(max_size=600) | st.lists(
    st.sampled_from(["word", "Sentence. ", "frag\n", "长句子。", "x" * 80, " ", "\r\n", "“Quoted?” ", "e\u0301"]),
    max_size=150,
).map("".join)
sizes = st.integers(1, 200)
overlaps = st.integers(0, 250)


@given(texts, sizes, overlaps)
def test_passages_are_all_of_the_text_in_order_and_none_is_too_long(text: str, size: int, overlap: int):
    found = pieces(text, size, overlap)
    assert (found == []) == (text == "")
    done = 0
    for n, (start, end) in enumerate(found):
        assert start < end
        assert end - start <= size
        assert start <= done < end  # nothing is left out, and each brings something new
        if n:
            assert found[n - 1].start < start
            assert done - start <= min(overlap, size // 2)
        done = end
    assert done == len(text)


@given(texts, sizes, overlaps, st.data())
def test_the_passage_that_holds_a_place_has_most_of_what_follows_it(
    text: str, size: int, overlap: int, data: st.DataObject
):
    found = pieces(text, size, overlap)
    if not found:
        return
    place = data.draw(st.integers(0, len(text) - 1))
    piece = found[holding(found, place)]
    assert piece.start <= place < piece.end
    assert piece.end == max(other.end for other in found if other.start <= place)


@given(texts, sizes, overlaps)
def test_each_passage_holds_its_own_beginning(text: str, size: int, overlap: int):
    found = pieces(text, size, overlap)
    assert [holding(found, piece.start) for piece in found] == list(range(len(found)))


def test_a_short_text_is_one_passage():
    assert pieces("Short.") == [Piece(0, 6)]


def test_a_place_beyond_the_end_is_in_the_last_passage():
    assert holding([Piece(0, 5), Piece(3, 9)], 100) == 1


def test_cuts_are_at_the_ends_of_sentences():
    text = "".join(f"This is sentence {n} of a text that goes on. " for n in range(200))
    found = pieces(text)
    assert len(found) > 5
    for start, end in found:
        assert text[start:].startswith("This is")
        assert text[:end].endswith("on. ")
        assert SIZE // 4 < end - start <= SIZE
    assert all(0 < one.end - other.start <= OVERLAP for one, other in pairwise(found))


def test_without_sentences_cuts_are_between_words():
    text = "word " * 1000
    for start, end in pieces(text):
        assert text[start:end].startswith("word")
        assert text[start:end].endswith(" ")


def test_a_text_without_blanks_is_cut_all_the_same():
    assert [end - start for start, end in pieces("x" * 3000)] == [1200, 1200, 600]


@pytest.mark.parametrize("text", ["x" * 3_000_000, "a. " * 1_000_000, "\n" * 3_000_000])
def test_millions_of_characters_are_cut_quickly(text: str):
    began = time.thread_time()
    pieces(text)
    assert time.thread_time() - began < 5
