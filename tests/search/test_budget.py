"""Taking as much as fits: an anchor and its neighbours, a cut around a place, chunks put together."""

from __future__ import annotations

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from palaver.search.open.excerpt import (
    LEAST_SHARED,
    characters,
    join_chunks,
    locate_chunks,
    spread,
)
from palaver.search.snippet import cut_around


@given(st.integers(0, 10_000), st.floats(1, 20), st.integers(0, 300_000))
def test_so_many_characters_never_count_as_more_tokens(tokens: int, per_token: float, length: int):
    room = characters(tokens, per_token)
    assert math.ceil(room / per_token) <= tokens
    assert math.ceil((room + 1) / per_token) > tokens - 1


costs = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(costs, st.data(), st.integers(0, 60), st.integers(0, 600))
def test_the_anchor_spreads_as_far_as_reach_and_budget_let_it(
    lengths: list[int], data: st.DataObject, reach: int, budget: int
):
    anchor = data.draw(st.integers(0, len(lengths) - 1))

    def cost(first: int, last: int) -> int:
        return sum(lengths[first : last + 1])

    first, last = spread(anchor, len(lengths), reach, budget, cost)
    assert 0 <= first <= anchor <= last < len(lengths)
    assert anchor - first <= reach
    assert last - anchor <= reach
    assert cost(first, last) <= max(budget, lengths[anchor])
    # It stopped because it had to.
    assert first == max(0, anchor - reach) or cost(first - 1, last) > budget
    assert last == min(len(lengths) - 1, anchor + reach) or cost(first, last + 1) > budget


def test_neighbours_come_in_turn_from_both_sides_first_what_follows():
    def cost(first: int, last: int) -> int:
        return last - first + 1

    assert [spread(5, 11, 10, budget, cost) for budget in (1, 2, 3, 4)] == [(5, 5), (5, 6), (4, 6), (4, 7)]


@given(st.text("ab .\n", max_size=200), st.integers(0, 100), st.data())
def test_a_cut_is_a_piece_of_the_text_no_longer_than_the_budget_with_the_place_in_it(
    text: str, budget: int, data: st.DataObject
):
    start = data.draw(st.integers(0, max(0, len(text) - 1)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    cut = cut_around(text, budget, (start, end))
    assert len(cut) <= budget
    assert cut in text
    if len(text) <= budget:
        assert cut == text
    elif end - start <= budget:
        assert text[start:end] in cut


def test_a_cut_without_a_place_is_the_beginning():
    assert cut_around("one two three", 8, None) == "one two"


@given(st.text("abcdefghijklmnop", min_size=60, max_size=300), st.integers(LEAST_SHARED, 30), st.integers(31, 60))
def test_chunks_that_overlap_come_together_as_the_text_they_were(text: str, overlap: int, size: int):
    starts = range(0, len(text), size - overlap)
    chunks = [text[start : start + size] for start in starts]
    chunks = [chunk for n, chunk in enumerate(chunks) if n == 0 or len(chunk) > overlap]
    assume(
        len({text[n : n + LEAST_SHARED] for n in range(len(text) - LEAST_SHARED + 1)}) == len(text) - LEAST_SHARED + 1
    )
    assert join_chunks(chunks) == text


@given(st.lists(st.text(max_size=30), max_size=6))
def test_joined_is_never_longer_than_the_chunks_with_separators(chunks: list[str]):
    assert len(join_chunks(chunks, "\n\n")) <= sum(map(len, chunks)) + 2 * max(0, len(chunks) - 1)


def test_chunks_that_share_nothing_are_kept_apart():
    assert join_chunks(["one", "two", "three"]) == "one\n\ntwo\n\nthree"
    assert join_chunks(["a word", "a word"]) == "a word\n\na word"  # too short to be an overlap
    assert join_chunks([]) == ""


@given(st.text("ab c.", min_size=1, max_size=60), st.integers(1, 12), st.integers(0, 5))
def test_chunks_of_a_text_are_found_in_it_one_after_the_other(text: str, size: int, overlap: int):
    chunks = [text[at : at + size] for at in range(0, len(text), max(1, size - overlap))]
    pieces = locate_chunks(chunks, text)
    assert pieces is not None
    assert [text[piece.start : piece.end] for piece in pieces] == chunks
    assert [piece.start for piece in pieces] == sorted({piece.start for piece in pieces})


def test_chunks_of_another_text_are_nowhere():
    assert locate_chunks(["one", "two"], "one and three") is None
    assert locate_chunks(["one", ""], "one") is None
