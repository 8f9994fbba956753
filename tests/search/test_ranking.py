"""A search says how it matched and why; ids come first; a question finds what stands beside its words."""

from __future__ import annotations

import httpx
import pytest
from tests.helpers import Mcp, Thread, word

from palaver.search.ranking.score import ScoredPassage
from palaver.search.results import Result, spread
from palaver.store.search.found_passages import Candidate


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


@pytest.mark.parametrize("source", ["notes", "media", "chats", "characters", "prompts", "bus"])
def test_an_exact_title_comes_before_texts_that_have_its_words(api: httpx.Client, mcp: Mcp, source: str):
    one, other = word(), word()
    for n in range(3):
        note(api, f"About the {one} {other} {n}", f"Of the {one} {other}. " * 5)
    title, wanted = f"Of the {one} Élan-{other}", ""
    things = {
        "notes": {"title": title, "content": "something else entirely"},
        "media": {"title": title, "media_type": "article", "content": "something else entirely"},
        "chats": {"title": title},
        "characters": {"name": title, "description": "somebody"},
        "prompts": {"name": title, "user_prompt": "something else entirely"},
        "threads": {"topic": title},
    }
    path = "threads" if source == "bus" else source
    made = api.post(f"/api/{path}", json=things[path])
    assert made.status_code == 201, made.text
    wanted = str(made.json()["id"])
    for query in (title, title.upper(), f" of the {one} elan {other}"):
        answer = ask(mcp, query)
        first = answer["results"][0]
        assert (answer["matched"], first["source"], str(first["id"])) == ("title", source, wanted)
        assert first["score"] == 1.0 > answer["results"][1]["score"]
        own = mcp.call(f"{source}_search", query=query)["results"][0]
        assert str(own["id"]) == wanted
    assert ask(mcp, f"of the {one} elan")["matched"] != "title"


def test_a_title_of_words_that_stand_everywhere_comes_first_too(api: httpx.Client, mcp: Mcp):
    note(api, "It", "was what it was, and it is what it is")
    wanted = note(api, f"What is it {(unique := word())}", "nothing")
    assert ask(mcp, f"WHAT IS IT {unique}")["results"][0]["id"] == wanted
    assert ask(mcp, "it")["matched"] == "title"


def test_an_explanation_contains_the_features_of_a_result(api: httpx.Client, mcp: Mcp):
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


def chat(api: httpx.Client, *said: tuple[str, str]) -> str:
    id = str(api.post("/api/chats", json={"title": "talk"}).json()["id"])
    for sender, content in said:
        api.post(f"/api/chats/{id}/messages", json={"sender": sender, "content": content}).raise_for_status()
    return id


def test_a_question_that_was_found_brings_its_answer(api: httpx.Client, mcp: Mcp):
    unique = word()
    id = chat(api, ("Ann", f"what colour has the {unique}?"), ("Bob", "Which of them?"), ("Bob", "It is green."))
    (hit,) = mcp.call("chats_search", query=unique)["results"]
    answer = hit["answer"]
    assert (answer["snippet"], answer["sender"], answer["loc"]["message_index"]) == ("It is green.", "Bob", 2)
    assert answer["created_at"]
    assert answer["uri"] == f"chats://{id}/{answer['id']}"
    opened = mcp.call("knowledge_get", source="chats", id=answer["id"], retrieval={"mode": "snippet"})
    assert "It is green." in str(opened["content"])
    compact = ask(mcp, unique, shape="compact")["results"][0]
    assert compact["metadata"]["answer"] == "It is green."


def test_agents_are_senders_by_their_names(mcp: Mcp):
    """Also beside a result, in an opened thread and in the evidence for an answer."""
    unique = word()
    names = {who: word(who) for who in ("Ann", "Bob", "Cleo")}
    said = {
        "Ann": f"What colour has the {unique}?",
        "Bob": f"The {unique} is green.",
        "Cleo": f"Actually, the {unique} was painted blue.",
    }
    for who, content in said.items():
        joined = mcp.call("bus_connect", thread_name=f"paint {unique}", display_name=names[who], ide=who, model="m")
        thread_id, author = joined["thread"]["thread_id"], joined["agent"]["agent_id"]
        mcp.call("msg_post", thread_id=thread_id, content=content, author=author)
    found = {hit["snippet"]: hit for hit in ask(mcp, f"What colour has the {unique}?", sources=["bus"])["results"]}
    first = next(hit for hit in found.values() if hit["sender"] == names["Ann"])
    assert first["answer"]["sender"] == names["Bob"]
    assert first["later"]["sender"] == names["Cleo"]
    opened = mcp.call("knowledge_get", source="bus", id=thread_id, retrieval={"mode": "full"})
    assert f"{names['Bob']}: The {unique} is green." in str(opened["content"])
    evidence = mcp.call("knowledge_answer_context", query=f"What colour has the {unique}?")["text"]
    assert f"[2] {names['Bob']}: The {unique} is green." in evidence


def test_a_statement_is_shown_without_an_answer(api: httpx.Client, mcp: Mcp):
    unique = word()
    chat(api, ("Ann", f"The {unique} is blue."), ("Bob", "I see."))
    (hit,) = mcp.call("chats_search", query=unique)["results"]
    assert "answer" not in hit
    assert "later" not in hit


def test_a_later_correction_is_shown_with_the_result(api: httpx.Client, mcp: Mcp):
    unique, other = word(), word()
    chat(
        api,
        ("Ann", f"The {unique} of the {other} is on Friday."),
        ("Bob", "Fine."),
        ("Ann", f"Actually, the {unique} was moved to Monday."),
        ("Bob", f"I am looking forward to the {unique}."),
    )
    found = ask(mcp, f"When is the {unique} of the {other}?")["results"]
    first = next(hit for hit in found if "Friday" in hit["snippet"])
    assert first["later"]["snippet"] == f"Actually, the {unique} was moved to Monday."
    assert first["later"]["sender"] == "Ann"
    text = mcp.call("knowledge_answer_context", query=f"When is the {unique} of the {other}?")["text"]
    assert "moved to Monday" in text


def test_a_reply_on_the_bus_answers_whom_it_replies_to(api: httpx.Client, mcp: Mcp, thread: Thread):
    unique = word()
    asked = thread.post(f"who knows the {unique}?", author="Ann")
    thread.post("I had lunch.", author="Bob")
    thread.post("I do.", author="Cid", reply_to_msg_id=asked["id"])
    (hit,) = mcp.call("bus_search", query=unique)["results"]
    assert hit["answer"]["snippet"] == "I do."
    assert hit["sender"] == "Ann"
    assert hit["title"]


def test_an_answer_for_humans_only_is_not_shown_to_agents(api: httpx.Client, mcp: Mcp, thread: Thread):
    unique = word()
    thread.post(f"where is the {unique}?", author="Ann")
    thread.post("In the safe.", author="Bob", metadata={"visibility": "human_only"})
    (hit,) = mcp.call("bus_search", query=unique)["results"]
    assert "answer" not in hit
    (shown,) = api.get("/api/knowledge/search", params={"q": unique, "dedupe": False}).json()["results"]
    assert shown["answer"]["snippet"] == "In the safe."


def test_a_question_for_several_messages_has_several_conversations_among_the_first():
    def result(id: int, document: int, score: float) -> Result:
        at = Candidate(id, document, id, "chats", str(document), str(id), None, 0)
        return Result(at, score, 0, ScoredPassage(at, score, has_all=True, has_any=True))

    ranked = [result(1, 1, 1.0), result(2, 1, 0.9), result(3, 1, 0.8), result(4, 2, 0.75), result(5, 1, 0.1)]
    found = spread(ranked)
    assert [one.best.passage_id for one in found] == [1, 4, 2, 3, 5]
    assert [one.score for one in found] == pytest.approx([1.0, 0.75, 0.72, 0.512, 0.0512])
    many = [result(id, 1, 1 - id / 200) for id in range(60)]
    assert [one.best.passage_id for one in spread(many)] == list(range(60))
    assert [one.score for one in spread(many)] == sorted((one.score for one in spread(many)), reverse=True)


def test_a_count_is_asked_of_all_conversations(api: httpx.Client):
    """The scores are in order, and no result is lost."""
    unique = word()
    for name in ("Ann", "Bob"):
        chat(api, *[(name, f"one more {unique} for {name}, number {n}") for n in range(6)])
    body = {"query": f"How many {unique} are there?", "dedupe": False, "sources": ["chats"], "limit": 100}
    results = api.post("/api/knowledge/search", json=body).json()["results"]
    assert sum(unique in hit["snippet"] for hit in results) == 12
    scores = [hit["score"] for hit in results]
    assert scores == sorted(scores, reverse=True)
    assert {hit["sender"] for hit in results[:4]} == {"Ann", "Bob"}
