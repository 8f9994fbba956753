"""Answers that are cut by a limit, a budget or many reactions say so, and a client that reads on misses nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.helpers import Mcp, Thread
from tests.tokens import count_tokens

from palaver.operations.bus.waiting import PAGE

both_forms = pytest.mark.parametrize("answers", ["compact", "full"])


def checked(client: Mcp, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool whose answer is what its output schema says."""
    answer = client.call(tool, arguments)
    (schema,) = (one["outputSchema"] for one in client.ask("tools/list")["tools"] if one["name"] == tool)
    jsonschema.validate(answer, schema)
    return dict(answer)


def post_many(thread: Thread, count: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: thread.post(f"message {n}"), range(count)))


def react_often(api: httpx.Client, message: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """All reactions to a message, after so many different ones were added."""
    path = f"/api/messages/{message['id']}/reactions"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: api.post(path, json={"reaction": f"label {n}"}), range(count)))
    return list(api.get(path).json())


def read_all(client: Mcp, tool: str, thread: Thread, **arguments: Any) -> list[int]:
    """The seqs of all messages, read as a client does: each call goes on at the current_seq of the last one."""
    seqs: list[int] = []
    after = 0
    while True:
        answer = checked(client, tool, thread_id=thread.id, after_seq=after, **arguments)
        seqs += [message["seq"] for message in answer["messages"]]
        assert answer["current_seq"] == seqs[-1]
        if not answer["has_more"]:
            assert answer.get("hint") is None
            return seqs
        assert answer["hint"] == f"More messages: call msg_list with after_seq={seqs[-1]}."
        after = answer["current_seq"]


@pytest.mark.examples(1)
@both_forms
def test_a_client_that_goes_on_at_current_seq_misses_nothing(api: httpx.Client, thread: Thread, answers: str):
    count = PAGE + 20
    post_many(thread, count)
    client = Mcp(api, f"/mcp?answers={answers}&schemas=output")
    everything = list(range(1, count + 1))
    assert read_all(client, "msg_wait", thread, timeout_ms=0) == everything
    assert read_all(client, "msg_list", thread) == everything
    assert read_all(client, "msg_list", thread, limit=90) == everything
    assert read_all(client, "msg_list", thread, limit=1000, max_tokens=9_000) == everything
    assert read_all(client, "msg_wait", thread, timeout_ms=0, max_tokens=9_000) == everything


def test_waiting_over_rest_says_where_it_stopped(api: httpx.Client, thread: Thread):
    for n in range(5):
        thread.post(f"message {n} {'word ' * 100}")
    answer = api.get(f"{thread.path}/wait", params={"max_tokens": 500, "timeout_ms": 0}).json()
    last = answer["messages"][-1]["seq"]
    assert (answer["current_seq"], answer["has_more"]) == (last, True)
    assert last < 5
    assert f"after_seq={last}" in answer["hint"]


def test_waiting_for_an_agent_goes_on_behind_the_messages_for_others(api: httpx.Client, thread: Thread):
    post_many(thread, PAGE + 1)
    for n in range(2):
        thread.post(f"for bob {n}", mentions=["bob"])
    client = Mcp(api, "/mcp?schemas=output")
    answer = checked(client, "msg_wait", thread_id=thread.id, after_seq=0, for_agent="bob", timeout_ms=0)
    assert [message["content"] for message in answer["messages"]] == ["for bob 0", "for bob 1"]
    assert (answer["current_seq"], answer["has_more"]) == (PAGE + 3, False)
    answer = checked(client, "msg_wait", thread_id=thread.id, after_seq=0, for_agent="nobody here", timeout_ms=0)
    assert (answer["messages"], answer["has_more"], answer["timed_out"]) == ([], False, True)


@both_forms
def test_connecting_shows_the_newest_messages_and_says_how_to_get_earlier_ones(
    api: httpx.Client, thread: Thread, answers: str
):
    for n in range(8):
        thread.post(f"message {n} {'word ' * 100}")
    client = Mcp(api, f"/mcp?answers={answers}&schemas=output")
    for cut in ({"limit": 3}, {"max_tokens": 700}):
        answer = checked(client, "bus_connect", thread_name=thread.topic, **cut)
        first = answer["messages"][0]["seq"]
        assert first > 1
        assert (answer["messages"][-1]["seq"], answer["current_seq"]) == (8, 8)
        assert (answer["truncated"], answer["has_more"]) == (True, True)
        assert f"before_seq={first}" in answer["hint"]
    answer = checked(client, "bus_connect", thread_name=thread.topic)
    assert (len(answer["messages"]), answer["truncated"], answer["has_more"]) == (8, False, False)


def test_after_a_deleted_last_message_one_can_post_at_current_seq(api: httpx.Client, thread: Thread):
    for n in range(3):
        last = thread.post(f"message {n}")
    api.delete(f"/api/messages/{last['id']}").raise_for_status()
    client = Mcp(api)
    listed = client.call("msg_list", {"thread_id": thread.id, "newest": True, "limit": 1})
    assert (listed["current_seq"], listed["has_more"]) == (3, True)
    posted = {"thread_id": thread.id, "content": "go on", "author": "ann", "expected_last_seq": listed["current_seq"]}
    assert client.call("msg_post", posted)["seq"] == 4


@pytest.mark.parametrize("unread", [100, 101])
def test_a_stale_seq_tells_when_more_was_missed_than_is_shown(api: httpx.Client, thread: Thread, unread: int):
    post_many(thread, unread)
    stale = {"thread_id": thread.id, "content": "x", "expected_last_seq": 0}
    over_rest = api.post(f"{thread.path}/messages", json={**stale, "author": "ann"}).json()["detail"]
    for said in (over_rest, Mcp(api).refused("msg_post", stale)):
        assert (len(said["new_messages"]), said["current_seq"]) == (100, unread)
        assert said.get("has_more", False) is (unread > 100)
        assert ("before_seq=2." in said.get("hint", "")) is (unread > 100)
    compact = Mcp(api, "/mcp").refused("msg_post", stale)
    assert compact["has_more"]
    assert f"before_seq={compact['new_messages'][0]['seq']}." in compact["hint"]


def test_very_many_reactions_are_cut_and_told(api: httpx.Client, thread: Thread):
    """The budget counts reactions; msg_get and REST give all of them."""
    before, liked, later = (thread.post(text) for text in ("before", "liked", "later"))
    reactions = react_often(api, liked, 120)
    assert len(reactions) == 120
    client = Mcp(api, "/mcp?schemas=output")
    assert [m["seq"] for m in checked(client, "msg_list", thread_id=thread.id)["messages"]] == [before["seq"]]
    for tool in ("msg_list", "msg_wait"):
        answer = checked(client, tool, thread_id=thread.id, after_seq=before["seq"])
        assert count_tokens(client.answer(tool, thread_id=thread.id, after_seq=1).raw["content"][0]["text"]) < 8_000
        (shown,) = answer["messages"]
        assert (shown["content"], shown["reactions"]) == ("liked", reactions[: len(shown["reactions"])])
        assert 20 < len(shown["reactions"]) < 120
        assert (answer["current_seq"], answer["has_more"]) == (liked["seq"], True)
        told = f"Message 2 has 120 reactions; the first {len(shown['reactions'])} are shown. msg_get gives all."
        assert answer["hint"] == f"More messages: call msg_list with after_seq=2. {told}"
    connected = client.call("bus_connect", thread_name=thread.topic)
    assert ([m["seq"] for m in connected["messages"]], connected["truncated"]) == ([later["seq"]], True)
    assert len(client.call("msg_get", message_id=liked["id"])["reactions"]) == 120
    assert len(thread.messages()[1]["reactions"]) == 120
    assert len(client.call("msg_list", thread_id=thread.id, verbose=True)["messages"][1]["reactions"]) == 120


def test_a_long_text_with_many_reactions_keeps_half_of_the_budget(api: httpx.Client, thread: Thread):
    message = thread.post("word " * 10_000)
    react_often(api, message, 60)
    (shown,) = Mcp(api, "/mcp").call("msg_list", thread_id=thread.id)["messages"]
    assert len(shown["content"]) > 8_000
    assert "msg_get gives the whole message" in shown["content"]
    assert 10 < len(shown["reactions"]) < 60


# Programs written for AgentChatBus


@both_forms
def test_arguments_of_agentchatbus_are_obeyed_or_ignored_with_a_hint(api: httpx.Client, thread: Thread, answers: str):
    images = [{"url": "/uploads/x.png", "name": "x.png"}]
    message = thread.post("look", metadata={"a": 1}, images=images)
    client = Mcp(api, f"/mcp?answers={answers}&schemas=output")
    for tool, arguments in (
        ("msg_list", {"thread_id": thread.id}),
        ("msg_wait", {"thread_id": thread.id, "timeout_ms": 0}),
        ("bus_connect", {"thread_name": thread.topic}),
        ("msg_get", {"message_id": message["id"]}),
    ):

        def metadata(answer: dict[str, Any]) -> Any:
            return answer.get("messages", [answer])[0]["metadata"]

        plain = {"return_format": "json", "include_attachments": True, "include_system_prompt": False}
        answer = checked(client, tool, **arguments, **plain)
        assert (metadata(answer), answer.get("hint")) == ({"a": 1, "images": images}, None)
        answer = checked(client, tool, **arguments, include_attachments=False)
        assert (metadata(answer), answer.get("hint")) == ({"a": 1}, None)
        answer = checked(client, tool, **arguments, return_format="blocks", include_system_prompt=True)
        assert "always JSON" in answer["hint"]
        assert "thread_get" in answer["hint"]
        assert "return_format" in client.refused(tool, arguments, return_format="xml")["error"]
        assert "include_attachments" in client.refused(tool, arguments, include_attachments="no")["error"]
    assert (
        "Unknown argument 'return_format'" in client.refused("thread_get", thread_id="x", return_format="json")["error"]
    )


def test_a_hint_about_arguments_comes_after_the_one_about_messages(api: httpx.Client, thread: Thread):
    for n in range(3):
        thread.post(str(n))
    answer = Mcp(api, "/mcp").call("msg_list", thread_id=thread.id, limit=1, return_format="blocks")
    assert answer["hint"].startswith("More messages: call msg_list with after_seq=1. return_format:")


def test_the_schema_says_the_budget_of_msg_list(api: httpx.Client):
    def argument(address: str, name: str) -> dict[str, Any]:
        tools = {tool["name"]: tool for tool in Mcp(api, address).ask("tools/list")["tools"]}
        return dict(tools["msg_list"]["inputSchema"]["properties"][name])

    assert argument("/mcp", "max_tokens")["default"] == 6_000
    assert "max_tokens" in argument("/mcp", "limit")["description"]
    assert "default" not in argument("/mcp?answers=full", "max_tokens")
