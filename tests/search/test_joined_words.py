"""Words that a sign joins (TCP/IP): where they stand together comes first, where they stand apart is found too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.helpers import Mcp, Thread, word

FILLER = "and a long way of other things that were said on that day before anybody came to it. " * 6


def together_and_apart(one: str, other: str) -> tuple[str, str]:
    """The better text is the longer and the older one: nothing but the words being together speaks for it."""
    return (
        f"{FILLER} We chose {one}-{other} there. {FILLER}",
        f"The {other} comes first, {other}, then the {one}, {one}.",
    )


@pytest.mark.parametrize("sign", ["/", ":", ",", "|", "…"])
def test_the_bus_finds_them_together_and_then_apart(api: httpx.Client, mcp: Mcp, thread: Thread, sign: str):
    one, other = word(), word()
    wanted = [thread.post(text)["id"] for text in together_and_apart(one, other)]
    thread.post(f"only the {one}")
    query = f"{one}{sign}{other}"
    assert [hit["message_id"] for hit in mcp.call("msg_search", query=query)["results"]] == wanted
    answer = api.get("/api/search", params={"q": query, "limit": 1}).json()
    assert ([hit["message_id"] for hit in answer["results"]], answer["has_more"]) == (wanted[:1], True)
    apart = mcp.call("msg_search", query=query)["results"][1]
    assert f"<mark>{one}</mark>" in apart["snippet"]
    assert f"<mark>{other}</mark>" in apart["snippet"]
    exact = mcp.call("msg_search", query=f'"{query}"')["results"]
    assert [hit["message_id"] for hit in exact] == wanted[:1]
    kept = mcp.call("msg_search", query=f"{one} NOT {query}")["results"]
    assert wanted[1] in [hit["message_id"] for hit in kept]
    assert wanted[0] not in [hit["message_id"] for hit in kept]


@pytest.mark.parametrize("form", ["{}/{}", "{}:{}", "{},{}", '{}"{}', "{}({})"])
def test_sessions_find_them_together_and_then_apart(api: httpx.Client, form: str):
    one, other, agent = word(), word(), word("bot-")
    for n, text in enumerate(together_and_apart(one, other)):
        sent = {"role": "user", "content": text, "id": f"t{n}"}
        api.post(f"/api/v1/agents/{agent}/sessions/s-1/messages", json=sent).raise_for_status()
    body = {"agent_id": agent, "query": form.format(one, other)}
    hits = api.post("/api/v1/conversations/search", json=body).json()["hits"]
    assert [hit["id"] for hit in hits] == ["t0", "t1"]
    assert f"<mark>{one}</mark>" in hits[1]["snippet"]
    first = api.post("/api/v1/conversations/search", json={**body, "limit": 1}).json()["hits"]
    assert [hit["id"] for hit in first] == ["t0"]


def test_in_sessions_near_is_a_word_like_others(api: httpx.Client):
    one, other, agent = word(), word(), word("bot-")
    sent = {"role": "user", "content": f"the {one} lies near the {other}", "id": "t"}
    api.post(f"/api/v1/agents/{agent}/sessions/s-1/messages", json=sent).raise_for_status()
    body = {"agent_id": agent, "query": f"NEAR({one} {other})"}
    assert [hit["id"] for hit in api.post("/api/v1/conversations/search", json=body).json()["hits"]] == ["t"]


MAKE: dict[str, Callable[[str, int], tuple[str, dict[str, Any]]]] = {
    "notes": lambda text, n: ("/api/notes", {"title": f"Note {n}", "content": text}),
    "media": lambda text, n: ("/api/media", {"title": f"Talk {n}", "media_type": "video", "content": text}),
    "characters": lambda text, n: ("/api/characters", {"name": f"Character {n} {word()}", "description": text}),
    "prompts": lambda text, n: ("/api/prompts", {"name": f"Prompt {n} {word()}", "user_prompt": text}),
}


@pytest.mark.parametrize("source", list(MAKE))
def test_each_source_finds_them_together_and_then_apart(api: httpx.Client, mcp: Mcp, source: str):
    one, other = word(), word()
    ids = []
    for n, text in enumerate((*together_and_apart(one, other), f"only the {one}, {one}")):
        path, body = MAKE[source](text, n)
        ids.append(str(api.post(path, json=body).raise_for_status().json()["id"]))
    for query in (f"{one}/{other}", f"{one}:{other}", f'{one}"{other}'):
        for tool, more in ((f"{source}_search", {}), ("knowledge_search", {"dedupe": False})):
            answer = mcp.call(tool, query=query, **more)
            assert [str(hit["id"]) for hit in answer["results"]] == ids[:2], (tool, query)
            assert answer["matched"] == "all words"
            assert all(one in hit["snippet"] and other in hit["snippet"] for hit in answer["results"])
    opened = mcp.call(
        "knowledge_get", source=source, id=ids[1], retrieval={"mode": "snippet", "query": f"{one}/{other}"}
    )
    assert one in opened["content"]


def test_bus_sessions_and_chats_are_found_by_knowledge_search_too(api: httpx.Client, mcp: Mcp, thread: Thread):
    one, other = word(), word()
    texts = together_and_apart(one, other)
    ids = [thread.post(text)["id"] for text in texts]
    chat = api.post("/api/chats", json={"title": "talk"}).json()["id"]
    said = [
        api.post(f"/api/chats/{chat}/messages", json={"sender": "Ann", "content": text}).json()["id"] for text in texts
    ]
    assert [hit["message_id"] for hit in mcp.call("bus_search", query=f"{one}/{other}")["results"]] == ids
    assert [hit["message_id"] for hit in mcp.call("chats_search", query=f"{one}/{other}")["results"]] == said
    found = mcp.call("knowledge_search", query=f"Which is the {one}/{other} there?")["results"]
    assert {hit["message_id"] for hit in found} >= {*ids, *said}
