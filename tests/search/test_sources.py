"""What is particular about each source: names, places, scopes, and how a piece goes into the store."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.model.library import Character, Media, Note, Prompt, Segment
from palaver.model.search import FoundPassage
from palaver.model.sources import ALL_SOURCES
from palaver.search.sources import SOURCES, parse_uri, tokens
from palaver.search.sources.indexing import index_character, index_media, index_note, index_prompt
from palaver.store.search.found_passages import Candidate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30)


def standing(source: str, document: str, native_id: str, position: int) -> FoundPassage:
    return FoundPassage(
        source=source, document_id=1, document=document, title="t", agent_id=None, document_created=NOW,
        document_modified=NOW, version=1, facts={}, passage_id=2, native_id=native_id, position=position,
        field="content", role="user", author=None, author_id=None, text="x", created_at=NOW, marks={"at": 5},
    )  # fmt: skip


def test_every_source_is_there_under_its_name():
    assert set(SOURCES) == set(ALL_SOURCES)
    assert all(source.name == name for name, source in SOURCES.items())


@given(st.sampled_from([name for name in ALL_SOURCES if name not in ("media", "characters")]), names, names)
def test_a_uri_says_source_and_id_whatever_they_are_called(source: str, document: str, native_id: str):
    for position in (0, 3):
        uri = SOURCES[source].uri_of(document, native_id, position)
        assert uri.isascii()
        assert not set(' \n"<>') & set(uri)
        parsed = parse_uri(uri)
        assert parsed is not None
        whole = f"{document}/{native_id}" if SOURCES[source].is_conversation and position else document
        assert parsed == (source, whole, None)


def hit(source: str, passage: int, position: int, document: str = "d", at: int | None = 5) -> Candidate:
    return Candidate(passage, 1, position, source, document, "m", at, 5)


@pytest.mark.parametrize("source", ALL_SOURCES)
def test_hits_of_one_document_are_one_result_unless_they_were_said(source: str):
    keys = {SOURCES[source].key_of(hit(source, *place)) for place in ((10, 1), (11, 2), (12, 0))}
    assert len(keys) == (3 if SOURCES[source].is_conversation else 1)


def test_what_a_program_copied_with_its_id_and_time_is_one_result():
    key_of = SOURCES["archive"].key_of
    first, copy = (hit("archive", passage, 3, f"claude-code:{passage}") for passage in (10, 11))
    assert key_of(first) == key_of(copy)
    others = [copy._replace(created_at=6), copy._replace(created_at=None), copy._replace(document="chatgpt:11")]
    assert len({key_of(first), *map(key_of, others)}) == 3  # without a time, or of another program, it is itself


@pytest.mark.parametrize("source", ALL_SOURCES)
def test_a_loc_names_the_place(source: str):
    loc = SOURCES[source].loc(standing(source, "7", "m", 3), 4)
    if SOURCES[source].is_conversation:
        index = {"seq": 3} if source == "bus" else {"message_index": 2}
        own = {"thread_id" if source == "bus" else "conversation_id": "7", "message_id": "m", **index}
        assert loc.items() >= {**own, "approx_offset": 4}.items()
    else:
        assert loc["approx_offset"] == 9


@given(names, names)
def test_equal_names_whatever_their_case_have_the_same_scope(one: str, other: str):
    assert tokens.keyword(one) == tokens.keyword(f" {one} ")
    assert tokens.keyword(one.upper()) == tokens.keyword(one.upper().casefold())
    assert tokens.keyword(one).isalnum()
    if one.strip().casefold() != other.strip().casefold():
        from unicodedata import normalize

        if normalize("NFC", one.strip()).casefold() != normalize("NFC", other.strip()).casefold():
            assert tokens.keyword(one) != tokens.keyword(other)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=3000)


@given(texts, st.lists(names, max_size=3))
def test_a_note_is_kept_whole_and_its_passages_say_where_they_stand(content: str, keywords: list[str]):
    shelved = index_note(Note(title="t", content=content, keywords=tuple(keywords)))
    assert shelved.bodies == {"content": content}
    cut = [draft for draft in shelved.passages if draft.field == "content"]
    for draft in cut:
        assert content[draft.data["at"] :].startswith(draft.text)
    assert shelved.passages[: len(cut)] == tuple(cut)  # chunk_index is a passage's place among all of them


@given(texts, st.lists(texts, max_size=4), st.lists(texts, max_size=3))
def test_a_medium_keeps_the_chunks_that_were_given(content: str, chunks: list[str], said: list[str]):
    segments = tuple(Segment(n, n + 1, text) for n, text in enumerate(said))
    piece = Media(title="t", media_type="video", content=content, chunks=tuple(chunks), segments=segments)
    shelved = index_media(piece)
    cut = [draft for draft in shelved.passages if draft.field == "content"]
    if chunks:
        assert [draft.text for draft in cut] == chunks
    assert shelved.passages[: len(cut)] == tuple(cut)
    assert len({draft.native_id for draft in cut}) == len(cut)
    assert index_media(piece) == shelved  # the same again: the same names


@given(texts, st.lists(texts, max_size=3))
def test_fields_are_passages_that_say_where_they_stand(text: str, greetings: list[str]):
    for shelved in (
        index_character(Character(name="n", scenario=text, alternate_greetings=tuple(greetings), tags=("a", "b"))),
        index_prompt(Prompt(name="n", details=text, author="me", keywords=("a", "b"))),
    ):
        for draft in shelved.passages:
            if draft.field in ("tags", "keywords"):
                assert draft.text == "a, b"
            else:
                assert shelved.bodies[draft.field][draft.data["at"] :].startswith(draft.text)
