"""The mentions inbox over REST."""

from __future__ import annotations

from typing import Any

import httpx
from tests.helpers import Thread, word


def mentions(api: httpx.Client, name: str, **more: Any) -> list[dict[str, Any]]:
    answer = api.get("/api/mentions", params={"name": name, **more})
    assert answer.status_code == 200, answer.text
    return list(answer.json())


def test_messages_that_name_a_person_are_listed_newest_first(api: httpx.Client, thread: Thread):
    name = word("Nora")
    first = thread.post(f"@{name.lower()}, please look", author="ann")
    thread.post("nothing for anybody", author="ann")
    second = thread.post("for you", author="bob", mentions=[name])
    assert [one["seq"] for one in mentions(api, name, limit=1)] == [3]
    thread.post(f"@{name} is me", author=name)
    found = mentions(api, name)
    assert [one["message_id"] for one in found] == [second["id"], first["id"]]
    assert (found[1]["topic"], found[1]["seq"], found[1]["author"]) == (thread.topic, 1, "ann")
    assert found[1]["text"] == f"@{name.lower()}, please look"
    assert mentions(api, word("Nobody")) == []


def test_a_reply_is_a_mention_and_reading_the_thread_marks_it(api: httpx.Client, thread: Thread):
    name = word("Nora")
    asked = thread.post("who knows?", author=name)
    api.put("/api/read-marks")
    thread.post("I do", author="ann", reply_to_msg_id=asked["id"])
    assert [(one["seq"], one["is_read"]) for one in mentions(api, name)] == [(2, False)]
    api.put(f"{thread.path}/read-mark", json={"seq": 2})
    assert [one["is_read"] for one in mentions(api, name)] == [True]


def test_with_a_token_only_own_mentions_are_listed(api: httpx.Client, thread: Thread):
    ann, bob = word("ann"), word("bob")
    made = api.post("/api/tokens", json={"kind": "human", "name": ann, "scopes": ["read"]}).json()
    thread.post(f"@{ann} hello", author="zoe")
    thread.post(f"@{bob} hello", author="zoe")
    headers = {"Authorization": f"Bearer {made['secret']}"}
    found = api.get("/api/mentions", params={"name": bob}, headers=headers).json()
    assert [one["text"] for one in found] == [f"@{ann} hello"]


def test_an_agent_does_not_see_what_is_for_people_only(api: httpx.Client, thread: Thread):
    name = word("agent")
    made = api.post("/api/tokens", json={"kind": "agent", "name": name, "scopes": ["read", "write"]}).json()
    thread.post(f"@{name} between people", author="zoe", metadata={"visibility": "human_only"})
    open_to_all = thread.post(f"@{name} for all", author="zoe")
    found = api.get("/api/mentions", headers={"Authorization": f"Bearer {made['secret']}"}).json()
    assert [one["message_id"] for one in found] == [open_to_all["id"]]
