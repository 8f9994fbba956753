"""A search says how it matched and why; ids come first; a question finds what stands beside its words."""

from __future__ import annotations

import httpx
from tests.helpers import Mcp, word


def note(api: httpx.Client, title: str, content: str) -> str:
    return str(api.post("/api/notes", json={"title": title, "content": content}).json()["id"])


def ask(mcp: Mcp, query: str, **more: object) -> dict:
    return mcp.call("knowledge_search", query=query, dedupe=False, **more)


def test_the_answer_says_how_it_matched(api: httpx.Client, mcp: Mcp):
    one, other = word(), word()
    note(api, "Boats", f"the {one} lies beside the {other}")
    assert ask(mcp, f"{one} {other}")["matched"] == "all words"
    assert ask(mcp, f"{one} {word()}")["matched"] == "some words"
    assert ask(mcp, word())["matched"] == "nothing"


def test_an_id_or_a_uri_comes_first(api: httpx.Client, mcp: Mcp):
    id = note(api, "Wanted", "nothing of its own id in it")
    note(api, "Other", f"this one speaks about {id} and {id} and notes://{id}")
    for query in (id, f"notes://{id}", f" {id} "):
        answer = ask(mcp, query)
        assert answer["matched"] == "id"
        assert [hit["title"] for hit in answer["results"][:2]] == ["Wanted", "Other"]
        assert answer["results"][0]["score"] == 1.0
        assert answer["results"][1]["score"] < 1.0


def test_an_exact_title_comes_before_texts_that_have_its_words(api: httpx.Client, mcp: Mcp):
    one, other = word(), word()
    for n in range(3):
        note(api, f"Number {n}", f"{one} {other}. " * 5)
    wanted = note(api, f"{one} {other}", "something else entirely")
    assert ask(mcp, f"{one} {other}")["results"][0]["id"] == wanted


def test_explanations_say_what_was_seen(api: httpx.Client, mcp: Mcp):
    note(api, "Boats", f"the {(unique := word())} is blue")
    answer = ask(mcp, unique, explain=True)
    (hit,) = answer["results"]
    assert answer["explanations"][hit["uri"]]["cover"] == 1.0
    assert ask(mcp, unique)["explanations"] is None


def test_a_question_finds_the_message_that_answers_it_though_it_has_none_of_the_words(api: httpx.Client, mcp: Mcp):
    unique = word()
    id = api.post("/api/chats", json={"title": "talk"}).json()["id"]
    for sender, content in (("Ann", f"what colour has the {unique}?"), ("Bob", "It is green.")):
        api.post(f"/api/chats/{id}/messages", json={"sender": sender, "content": content}).raise_for_status()
    found = ask(mcp, f"Which paint was chosen for the {unique}?")["results"]
    assert "It is green." in [hit["snippet"] for hit in found]
    assert [hit["sender"] for hit in ask(mcp, unique)["results"]] == ["Ann"]
