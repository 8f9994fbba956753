"""Private parts of texts: `<private>…</private>`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.text.private_parts import MARK, without_private_parts

PIECES = ["<private>", "</private>", "<PRIVATE>", "</Private >", "<private why='x'>", "<", ">", "/", "private", " a\n"]


@pytest.mark.parametrize(
    "text, kept",
    [
        ("a <private>b</private> c", "a [private] c"),
        ("a <private>b\nb", "a [private]"),
        ("a <private>b<private>c</private>d</private> e", "a [private] e"),
        ("a <private>b<private>c</private>d", "a [private]"),
        ("a <PRIVATE>b</Private> c", "a [private] c"),
        ("<private why='none'>b\nb\n</private >c<private>d</private>", "[private]c[private]"),
        (r'{"command":"echo <private>b<\/private>"}', '{"command":"echo [private]"}'),
        ("a </private> b", "a </private> b"),
        ("<privateer> <private-key> &lt;private&gt; privately", "<privateer> <private-key> &lt;private&gt; privately"),
        ("", ""),
    ],
)
def test_a_mark_replaces_each_private_part(text: str, kept: str):
    assert without_private_parts(text) == kept


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_nothing_between_the_tags_is_left_and_a_second_time_changes_nothing(text: str):
    kept = without_private_parts(text)
    assert without_private_parts(kept) == kept
    assert without_private_parts(f"before <private>{text}").startswith(f"before {MARK}")
    assert without_private_parts(f"<private>{text.replace('<', '')}hidden</private>") == MARK


@given(st.text().filter(lambda text: "<" not in text), st.text().filter(lambda text: "<" not in text))
def test_the_text_around_a_private_part_stays_as_it_is(before: str, after: str):
    assert without_private_parts(f"{before}<private>x</private>{after}") == f"{before}{MARK}{after}"


@pytest.mark.parametrize("piece", ["<private>", "<private ", "</private>", "<private></private>", "<", "<private <"])
def test_a_long_text_of_tags_takes_linear_time(piece: str):
    text = piece * (1_000_000 // len(piece))
    assert len(without_private_parts(text)) <= len(text) * 2
