"""Spelling: a word that no passage has is read as the likeliest one a letter away, and the answer says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Engine
from tests.helpers import Mcp, Thread, start_server, started_with
from tests.library_items import Library

from palaver.search.spelling import corrected
from palaver.text import tokenize

TEXTS = [
    "Happy eyeballs race when two connections are slow",
    "The binary record of route 53",
    "Malicious middleboxes downgrade keys",
    "Repositories without airsnort",
    "Настройка сервера перед запуском",
    "Der Schlüsselbund liegt im Schrank",
    "A circle of yaml files",
    "Bicycle or cycle, every cycle is a cycle",
    "Another cycle goes by bicycle",
    "the ticket is POL-358 of v2beta1 in src/kubernetes/helm.py",
    "你好世界 你好朋友",
]


@pytest.fixture
def filled(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> httpx.Client:
    """A server with a note for each text, and a chat."""

    @contextmanager
    def begin() -> Iterator[httpx.Client]:
        home = tmp_path_factory.mktemp(f"spelling-{engine.name}")
        with start_server(home, PALAVER_DATABASE_URL=engine.fresh()) as server, server.client() as client:
            library = Library(client)
            for text in TEXTS:
                library.note(text)
            library.chat("we sail tomorrow", sender="Xaviera Quist")
            client.post("/api/agents/register", json={"display_name": "Ottercub", "slug": "ottercub"})
            yield client

    started: AbstractContextManager[httpx.Client] = begin()
    return engine.keep("spelling", lambda: started)


def search(client: httpx.Client, query: str, **more: Any) -> dict[str, Any]:
    return Library(client).search(query, dedupe=False, highlight=True, **more)


@pytest.mark.parametrize(
    "typed, read_as, text",
    [
        ("hpapy eyeballs", {"hpapy": "happy"}, 0),  # two letters swapped
        ("happpy eyebals", {"happpy": "happy", "eyebals": "eyeballs"}, 0),  # one too many, one missing
        ("bimary rcord", {"bimary": "binary", "rcord": "record"}, 1),  # a neighbour on the keyboard
        ("dozngrade keys", {"dozngrade": "downgrade"}, 2),  # any other letter
        ("What are middleebox keys?", {"middleebox": "middleboxes"}, 2),  # only another form of it is there
        ("AIRSSNORT", {"airssnort": "airsnort"}, 3),
        ("настройак сервера", {"настроиак": "настроика"}, 4),  # another alphabet, without accents
        ("Schlüselbund", {"schluselbund": "schlusselbund"}, 5),
        ("crcle yaml", {"crcle": "circle"}, 6),  # more passages have "cycle", but not with "yaml"
        ("crcle bicycle", {"crcle": "cycle"}, 7),
        ("hpapy wehn eyeballs", {"hpapy": "happy", "wehn": "when"}, 0),  # a stop word is then left out
    ],
)
def test_a_misspelt_word_is_read_as_the_likeliest_one(
    filled: httpx.Client, typed: str, read_as: dict[str, str], text: int
):
    answer = search(filled, typed)
    first = answer["results"][0]
    assert answer["read_as"] == read_as
    assert first["snippet"] == TEXTS[text]
    assert answer["matched"] == "all words"
    marked = [first["snippet"][start:end] for start, end in first["highlights"]]
    assert {*read_as.values()} - {"when"} <= {tokenize.words(one)[0] for one in marked}


@pytest.mark.parametrize(
    "typed",
    [
        '"hpapy" eyeballs',  # in quotes
        "„hpapy“ eyeballs",
        "twp slow",  # a short word
        "POL-359 pol358 v2beta2",  # ids and versions
        "src/kubernetse/helm.py",  # a path
        "hpap*",  # the beginning of a word
        "helmet",  # an English word that no passage has
        "quist sails",  # the name of a speaker
        "ottercub sails",  # the name of an agent
        "ottercubs",
        "你好世杰",
        "zwwe qqsse hpapy eyeblals crcle",  # more unknown words than known ones
        "happy eyeballs race when two connections are slow hpapy eybeals rcae wehne connecttions",
        f"airsnor{'t' * 190}",  # too many words are one letter away from a long one
        "xyzzyqq eyeballs",  # nothing is one letter away
    ],
)
def test_what_is_never_corrected(filled: httpx.Client, typed: str):
    assert search(filled, typed)["read_as"] is None


def test_a_word_that_is_being_typed_is_corrected_if_it_begins_no_word(filled: httpx.Client):
    def read_as(query: str) -> dict[str, str] | None:
        return search(filled, query, as_you_type=True)["read_as"]

    assert read_as("eyeballs rec") is read_as("hpap*") is read_as("eyeballs hpa") is None
    assert read_as("hpapy eyeb") == read_as("eyeballs hpapy ") == read_as("eyeballs hpapy") == {"hpapy": "happy"}


def test_only_words_of_the_searched_sources_are_suggested(filled: httpx.Client):
    assert search(filled, "airssnort", sources=["notes"])["read_as"] == {"airssnort": "airsnort"}
    answer = search(filled, "airssnort", sources=["chats"])
    assert (answer["read_as"], answer["results"]) == (None, [])


def test_a_word_of_another_source_or_project_is_not_corrected(api: httpx.Client, library: Library, mcp: Mcp):
    """What is known elsewhere is no mistake: the answer says that other projects have it."""
    library.turn("kestrelbot", "the gribbleton is painted", project="/src/here")
    library.turn("kestrelbot", "the gribbletan is painted", session="s-2", project="/src/other")
    found = library.search("gribbletan", project="here", dedupe=False)
    assert (found["read_as"], found["results"]) == (None, [])
    found = library.search("gribbletun", project="here", dedupe=False)
    assert found["read_as"] == {"gribbletun": "gribbleton"}
    assert library.search("gribbleton", sources=["notes"], dedupe=False)["read_as"] is None


def test_a_misspelt_query_still_finds_a_title_and_an_id(library: Library):
    id = library.note("painted blue", title="The Wobbegongs")["id"]
    found = library.search("the wobbegnogs", dedupe=False)
    assert found["read_as"] == {"wobbegnogs": "wobbegongs"}
    assert (found["matched"], found["results"][0]["id"]) == ("title", id)
    library.archived("hello", id="wobbegogn")
    assert library.search("chatgpt:wobbegogn", dedupe=False)["matched"] == "id"


@given(st.lists(st.text("abcdeiorst", min_size=4, max_size=8), min_size=2, max_size=30, unique=True))
def test_a_word_that_is_there_is_never_corrected(library: Library, some: list[str]):
    """Even if a more frequent word is one letter away."""
    library.note(" ".join(some))
    library.note(" ".join(word[1] + word[0] + word[2:] for word in some))
    for word in some:
        assert library.search(word, dedupe=False, limit=1)["read_as"] is None


def test_tools_contexts_and_the_command_line_say_it_too(filled: httpx.Client, engine: Engine):
    mcp = Mcp(filled)
    for tool in ("knowledge_search", "notes_search", "knowledge_answer_context"):
        answer = mcp.call(tool, query="hpapy eyeballs")
        assert answer["read_as"] == {"hpapy": "happy"}, tool
        assert "read_as" not in mcp.call(tool, query="happy eyeballs") or not mcp.call(tool, query="happy")["read_as"]
    assert "Happy eyeballs race" in mcp.call("knowledge_answer_context", query="hpapy eyeballs")["text"]
    for budget in (16, 40, 100):
        answer = filled.get("/api/knowledge/context", params={"q": "hpapy eyeballs", "max_tokens": budget})
        assert len(answer.text) <= budget * 4
    shown = started_with({"PALAVER_URL": str(filled.base_url)}, "search", "hpapy", "eyeballs")
    assert "Happy eyeballs race" in shown.stdout
    assert 'Read as happy. To search exactly, use double quotes: "hpapy"' in shown.stderr


def test_words_are_replaced_where_they_are_in_the_text():
    assert corrected("Hpapy, „hpapy-go“ (HPAPY) hpapyness", {"hpapy": "happy"}) == "happy, „happy-go“ (happy) hpapyness"


def test_bus_searches_with_an_expression_find_exactly_what_they_say(filled: httpx.Client):
    Thread(filled).post("the peculiar gribblewort")
    assert filled.get("/api/search", params={"q": "gribblewrot"}).json()["results"] == []
    assert search(filled, "gribblewrot")["read_as"] == {"gribblewrot": "gribblewort"}
