"""Search as you type: the last word matches as a prefix, from its second letter on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Thread, start_server, word
from tests.library_items import SOURCES, Library

WANTED = "postmortem"


@pytest.fixture
def filled(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    """A server with one text in each source."""

    @contextmanager
    def begin() -> Iterator[httpx.Client]:
        home = tmp_path_factory.mktemp(f"typing-{engine.name}")
        with start_server(home, PALAVER_DATABASE_URL=engine.fresh()) as server, server.client() as client:
            library = Library(client)
            for source in SOURCES:
                library.put_in(source, f"Read the {WANTED} of Friday in {source}, please")
            yield client

    started: AbstractContextManager[httpx.Client] = begin()
    return engine.keep("typing", lambda: started)


def typed(client: httpx.Client, text: str, **more: Any) -> dict[str, Any]:
    return Library(client).search(text, as_you_type=True, dedupe=False, **more)


@pytest.mark.parametrize("length", range(2, len(WANTED) + 1))
def test_every_source_finds_a_word_by_its_first_letters(filled: httpx.Client, length: int):
    for before in ("", "friday "):
        answer = typed(filled, before + WANTED[:length], highlight=True)
        assert {one["source"] for one in answer["results"]} == set(SOURCES)
        assert answer["matched"] == "all words"
        for one in answer["results"]:
            (start, end), *_ = one["highlights"]
            assert one["snippet"][start:end] == WANTED
    for source in SOURCES:
        assert len(typed(filled, WANTED[:length], sources=[source])["results"]) == 1
    hits = filled.get("/api/search", params={"q": WANTED[:length], "as_you_type": True}).json()["results"]
    assert [hit["snippet"] for hit in hits] == [f"Read the <mark>{WANTED}</mark> of Friday in bus, please"]


def test_one_letter_is_no_prefix_and_a_finished_word_is_none_either(filled: httpx.Client):
    assert typed(filled, "p")["results"] == []
    assert typed(filled, "post ")["results"] == []
    assert Library(filled).search("post", dedupe=False)["results"] == []
    assert filled.get("/api/search", params={"q": "post"}).json()["results"] == []


def test_a_star_makes_any_word_a_prefix(filled: httpx.Client):
    for query in ("postm*", "postm* friday", "postm* frid*"):
        assert len(Library(filled).search(query, dedupe=False)["results"]) == len(SOURCES)


def test_a_stop_word_may_become_another_word(api: httpx.Client):
    unique = word("report")
    Thread(api).post(f"{unique} about instances")
    Thread(api).post(f"{unique} about nothing")
    found = typed(api, f"{unique} in")["results"]
    assert [one["snippet"] for one in found[:2]] == [f"{unique} about instances", f"{unique} about nothing"]


def test_the_whole_word_comes_first(api: httpx.Client):
    unique = word("plan")
    for text in (f"{unique}ning a trip", f"a {unique} for a trip", f"the {unique}ner is here, {unique}ning"):
        Thread(api).post(text)
    found = typed(api, unique)["results"]
    assert len(found) == 3
    assert found[0]["snippet"] == f"a {unique} for a trip"
    hits = api.get("/api/search", params={"q": unique, "as_you_type": True}).json()["results"]
    assert len(hits) == 3
    assert hits[0]["snippet"] == f"a <mark>{unique}</mark> for a trip"


def test_other_forms_of_a_finished_word_are_found_too(api: httpx.Client):
    unique = word("lamp").translate(str.maketrans("0123456789", "ghijklmnop"))  # words with digits have no other forms
    Thread(api).post(f"the {unique}retry failed")
    found = typed(api, f"{unique}retries", highlight=True)["results"]
    assert [one["snippet"] for one in found] == [f"the {unique}retry failed"]
    assert len(found[0]["highlights"]) == 1


def test_parts_of_a_name_are_found_while_it_is_typed(api: httpx.Client):
    unique = word("node")
    Thread(api).post(f"we use {unique}.jsx here")
    for text in (f"{unique}.j", f"{unique}.js", f"we use {unique}.j"):
        found = [one["snippet"] for one in typed(api, text)["results"]]
        assert [one for one in found if unique in one] == found[:1] == [f"we use {unique}.jsx here"]


def test_all_words_come_before_some_of_them(api: httpx.Client):
    one, other = word("harbour"), word("lantern")
    for text in (f"{one} alone", f"{other}s alone", f"{one} and {other}s"):
        Thread(api).post(text)
    found = typed(api, f"{one} {other[:-2]}")["results"]
    assert found[0]["snippet"] == f"{one} and {other}s"


def test_long_texts_are_found_by_a_prefix(library: Library):
    unique = word("zinnia")
    library.note("filler " * 20_000 + f"{unique}flower at the end")
    assert len(library.search(unique, as_you_type=True)["results"]) == 1
