"""What is made of a text before it is written gives the same index rows as what is made while it is written."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from palaver.store.engines.database import STEM, IndexRow
from palaver.store.engines.postgres import index_rows, substrings
from palaver.store.engines.postgres.index_rows import PreparedRow, prepare_text
from palaver.store.library import documents
from palaver.text import tokenize

TEXTS = st.text(alphabet="abcde XYZ019 .,;:'\"-_/\\\n\t\x00\x7fäßé港", max_size=60) | st.text(max_size=40)
SCOPES = ("archive", "archivebody", "d5")


def row_of(text: str) -> IndexRow:
    words, stems = tokenize.words_and_stems(text, STEM)
    return IndexRow(SCOPES, words, stems, documents.substring_form(text))


@given(TEXTS)
@example("the harbour masters were running, and ran")
@example("a" * 41 + " b " + "c" * 300)
@example("word " * 300)
@example("red\x1bgreen\x00blue\x7fend")
@example(" ".join(f"w{n}" for n in range(300)))
def test_a_prepared_text_has_the_same_rows(text: str):
    plain = row_of(text)
    indexed = documents.indexed_text("archive", text, prepare_text)
    assert indexed.words == plain.words
    if indexed.prepared is None:
        assert indexed == documents.IndexedText(plain.words, plain.stems, plain.substring)
        return
    assert isinstance(indexed.prepared, PreparedRow)
    row = IndexRow(SCOPES, indexed.words, indexed.stems, indexed.substring, prepared=indexed.prepared)
    assert index_rows.tsvectors(row, 7) == index_rows.tsvectors(plain, 7)
    numbers, runs = substrings.numbers_and_words(plain.substring or "")
    assert as_set(indexed.prepared.numbers) == as_set(numbers)
    its_runs = indexed.words if indexed.prepared.runs is None else indexed.prepared.runs
    assert set(its_runs.split()) == set(runs.split())


def test_ordinary_texts_are_prepared():
    assert documents.indexed_text("archive", "the harbour, " * 100, prepare_text).prepared
    assert documents.indexed_text("archive", "für die Größe", prepare_text).prepared
    assert documents.indexed_text("bus", "the harbour", prepare_text).prepared is None


@given(TEXTS, st.data())
def test_a_text_has_all_numbers_of_each_of_its_parts(text: str, data: st.DataObject):
    form = documents.substring_form(text)
    start = data.draw(st.integers(0, len(form)))
    part = form[start : start + data.draw(st.integers(1, 12))]
    numbers, words = substrings.numbers_and_words(form)
    wanted = substrings.lookup_of(part)
    assert as_set(wanted.numbers) <= as_set(numbers)
    for fragment in wanted.fragments:
        pattern = re.compile(fragment.pattern.replace("%", ".*"), re.DOTALL)
        rows = [substrings.word_row(word) for word in words.split() if pattern.fullmatch(word)]
        in_long_word = as_set(fragment.grams_in_long_words) <= as_set(numbers)
        assert any(as_set(fragment.grams) <= as_set(grams) for _, _, grams in rows) or in_long_word


def as_set(array: str) -> set[str]:
    return set(filter(None, array.strip("{}").split(",")))


def test_tokens_are_words_between_all_characters_but_controls():
    """`numbers_by_tokens` relies on it."""
    for char in map(chr, range(128)):
        if not char.isalnum():
            is_same = tokenize.words(f"a{char}b") == re.findall("[a-z0-9]+", f"a{char}b")
            assert is_same == (substrings.numbers_by_tokens(f"a{char}b", ["a", "b"]) is not None), repr(char)
