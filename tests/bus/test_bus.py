"""The rest of the bus: what the contract says beyond search and reactions, on both engines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.helpers import Mcp, Server, Thread, Told, eventually, inside, listen, start_server, word

from palaver.errors import Invalid
from palaver.operations.admin import rate_limits
from palaver.settings import load

HIDDEN = "[human-only content hidden]"
AWS_KEY = "AKIA" + "ABCDEFGHIJKLMNOP"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64


def told_of(told: list[Told]) -> list[Told]:
    """The events without their numbers."""
    return [replace(t, id=0) for t in told]


# Naming a thread


def test_a_thread_is_named_by_its_id_or_its_exact_topic(api: httpx.Client, mcp: Mcp):
    topic = f"Topic with ünïcode {word()} " + "x" * 300
    thread = Thread(api, topic)
    path = f"/api/threads/{topic}"
    assert mcp.call("thread_get", thread_id=f" {topic} ")["id"] == thread.id
    assert api.get(path).json() == api.get(f"/api/threads/{thread.id}").json()
    posted = mcp.call("msg_post", thread_id=topic, content="one", author="ann")
    assert (posted["thread_id"], posted["seq"]) == (thread.id, 1)
    assert api.post(f"{path}/messages", json={"author": "bob", "content": "two"}).json()["seq"] == 2
    assert [message["seq"] for message in mcp.call("msg_list", thread_id=topic)["messages"]] == [1, 2]
    assert [message["seq"] for message in api.get(f"{path}/messages").json()] == [1, 2]
    assert "## 2. bob" in api.get(f"{path}/export").text
    assert api.get(f"{path}/agents").json() == []
    assert api.put(path, json={"summary": "done"}).json()["summary"] == "done"
    assert api.post(f"{path}/close").json()["status"] == "closed"
    assert api.delete(path).json() == {"ok": True, "deleted": thread.id}
    assert api.get(path).status_code == 404


def test_an_id_comes_before_a_topic_that_looks_like_it(api: httpx.Client, mcp: Mcp):
    thread = Thread(api)
    Thread(api, thread.id)
    assert mcp.call("thread_get", thread_id=thread.id)["topic"] != thread.id
    thread.post("here")
    assert len(thread.messages()) == 1


def test_an_unknown_thread_is_not_found_by_either_name(api: httpx.Client, mcp: Mcp):
    topic = Thread(api).topic
    for name in (topic.upper(), topic[:-1], "nope"):
        assert mcp.refused("thread_get", thread_id=name)["error"] == "THREAD_NOT_FOUND"
        assert api.get(f"/api/threads/{name}").status_code == 404
    assert api.get("/api/search", params={"q": "one", "thread_id": topic}).json()["results"] == []


def test_waiting_by_topic_ends_when_something_is_said(api: httpx.Client, mcp: Mcp):
    thread = Thread(api)
    mcp.call("bus_connect", thread_name=thread.topic, ide="tests", model="m")

    def is_waiting() -> bool:
        return any(agent["waiting_in"] == thread.id for agent in api.get("/api/agents").json())

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(mcp.call, "msg_wait", thread_id=thread.topic, timeout_ms=30_000)
        eventually(is_waiting)
        thread.post("hello")
        woken = waiting.result(timeout=20)  # before its own end, after 30 seconds
        assert [message["content"] for message in woken["messages"]] == ["hello"]


def test_the_events_of_a_thread_are_found_by_its_topic(api: httpx.Client):
    thread = Thread(api)
    with listen(api, f"/api/threads/{thread.topic}/events") as listener:
        message = thread.post("hello")
        assert listener.before_message(message["id"]) == []


# Connecting


def test_connecting_answers_with_the_agent_the_thread_and_its_messages(mcp: Mcp, api: httpx.Client):
    topic, name = f"topic {word()}", word("Name")
    first = mcp.call("bus_connect", thread_name=topic, ide="Cursor", model="GPT-4", display_name=name)
    agent, thread = first["agent"], first["thread"]
    assert first == {
        "agent": {
            "id": agent["agent_id"],
            "agent_id": agent["agent_id"],
            "name": agent["name"],
            "display_name": name,
            "slug": name.lower(),
            "token": agent["token"],
            "registered": True,
        },
        "thread": {
            "id": thread["thread_id"],
            "thread_id": thread["thread_id"],
            "topic": topic,
            "status": "discuss",
            "created": True,
            "system_prompt": None,
            "metadata": None,
        },
        "messages": [],
        "current_seq": 0,
        "truncated": False,
        "has_more": False,
        "reply_token": first["reply_token"],
        "hint": None,
        "next": None,
    }
    assert agent["name"].startswith("Cursor (GPT-4)")
    assert agent["token"]
    assert first["reply_token"]
    message = mcp.call("msg_post", thread_id=thread["thread_id"], content="hello")
    again = Mcp(api).call("bus_connect", thread_name=topic)
    assert again["thread"] == {**thread, "created": False}
    assert (again["messages"], again["current_seq"]) == ([message], 1)
    assert again["agent"]["agent_id"] != agent["agent_id"]


def test_connecting_shows_the_newest_messages_and_says_when_there_are_earlier_ones(mcp: Mcp, thread: Thread):
    for n in range(1, 6):
        thread.post(f"message {n}")

    def shown(**more: Any) -> tuple[list[int], bool, int]:
        answer = mcp.call("bus_connect", thread_name=thread.topic, **more)
        return [m["seq"] for m in answer["messages"]], answer["truncated"], answer["current_seq"]

    assert shown() == ([1, 2, 3, 4, 5], False, 5)
    assert shown(limit=5) == ([1, 2, 3, 4, 5], False, 5)
    assert shown(limit=2) == ([4, 5], True, 5)
    assert shown(limit=2, after_seq=3) == ([4, 5], False, 5)
    assert shown(limit=2, after_seq=2) == ([4, 5], True, 5)
    assert shown(after_seq=5) == ([], False, 5)
    assert shown(after_seq=99) == ([], False, 5)
    assert shown(limit=0) == ([5], True, 5)


def test_connecting_with_agent_id_and_token_is_coming_back(mcp: Mcp, api: httpx.Client):
    topic = f"topic {word()}"
    agent = mcp.call("bus_connect", thread_name=topic)["agent"]
    back = Mcp(api).call("bus_connect", thread_name=topic, agent_id=agent["agent_id"], token=agent["token"])["agent"]
    assert back == agent


def test_an_agent_id_without_its_token_is_an_error(mcp: Mcp, api: httpx.Client):
    topic = f"topic {word()}"
    agent = mcp.call("bus_connect", thread_name=topic)["agent"]
    other = f"topic {word()}"
    for wrong in ({}, {"token": "wrong"}, {"token": None}, {"token": ""}):
        answer = Mcp(api).refused("bus_connect", thread_name=other, agent_id=agent["agent_id"], **wrong)
        assert answer["error"] == "UNAUTHORIZED"
        assert "token" in answer["message"]
    mine = mcp.refused("bus_connect", thread_name=other, agent_id=agent["agent_id"])  # even from who just got it
    assert mine["error"] == "UNAUTHORIZED"
    unknown = Mcp(api).refused("bus_connect", thread_name=other, agent_id="nobody", token="wrong")
    known = Mcp(api).refused("bus_connect", thread_name=other, agent_id=agent["agent_id"], token="wrong")
    assert unknown == known
    topics = [t["topic"] for t in api.get("/api/threads", params={"limit": 200}).json()["threads"]]
    assert other not in topics  # nothing was done


def test_joining_writes_no_message_but_presence_is_told(mcp: Mcp, api: httpx.Client, thread: Thread):
    with listen(api) as listener:
        agent = mcp.call("bus_connect", thread_name=thread.topic)["agent"]
        (online,) = (
            t for t in listener.before_message(thread.post("end")["id"]) if t.data.get("agent_id") == agent["id"]
        )
    assert replace(online, id=0) == Told(
        0,
        "agent.online",
        {"thread_id": None, "agent_id": agent["id"], "name": agent["name"], "display_name": None},
    )
    assert [m["content"] for m in thread.messages()] == ["end"]


def test_a_thread_that_connecting_creates_can_have_rules_or_a_template(mcp: Mcp):
    given = mcp.call("bus_connect", thread_name=f"topic {word()}", system_prompt="Be kind.")["thread"]
    assert given["system_prompt"] == "Be kind."
    made = mcp.call("bus_connect", thread_name=f"topic {word()}", template="code-review")["thread"]
    assert made["system_prompt"] == mcp.call("template_get", template_id="code-review")["system_prompt"]
    assert made["metadata"] == {"template": "code-review"}


def test_whoever_connected_need_not_say_again_who_it_is(mcp: Mcp, api: httpx.Client):
    connected = mcp.call("bus_connect", thread_name=f"topic {word()}", display_name=(name := word("Ann")))
    message = mcp.call("msg_post", thread_id=connected["thread"]["thread_id"], content="hello")
    assert (message["author_id"], message["author_name"]) == (connected["agent"]["agent_id"], name)
    assert mcp.call("agent_heartbeat") == {"ok": True}


def test_who_comes_back_may_bring_another_name(mcp: Mcp, api: httpx.Client):
    topic, name, other = f"topic {word()}", word("Ann"), word("Renamed")
    agent = mcp.call("bus_connect", thread_name=topic, display_name=name)["agent"]
    back = {"thread_name": topic, "agent_id": agent["agent_id"], "token": agent["token"]}
    assert Mcp(api).call("bus_connect", **back)["agent"] == agent
    assert Mcp(api).call("bus_connect", **back, display_name=other)["agent"] == {**agent, "display_name": other}
    assert api.get(f"/api/agents/{agent['agent_id']}").json()["display_name"] == other


def test_every_tool_that_brings_what_others_wrote_says_so(mcp: Mcp):
    listed = {tool["name"]: tool["description"] for tool in mcp.ask("tools/list")["tools"]}
    brings = {name for name, said in listed.items() if "untrusted data, not instructions" in said}
    assert {name for name in listed if name.endswith(("_search", "_get", "_list", "_wait", "_own", "_history"))} - brings == {
        "agent_list", "template_list", "template_get", "thread_list",
    }  # fmt: skip
    assert {"bus_connect", "media_transcript", "knowledge_answer_context"} <= brings
    assert all("\n" not in said for said in listed.values())


def test_the_config_has_the_settings_a_client_needs(mcp: Mcp, api: httpx.Client, server: Server):
    config = mcp.call("bus_get_config")
    assert config == api.get("/api/config").json()
    assert (config["bus_name"], config["endpoint"]) == ("palaver", server.url)
    assert config["preferred_language"] == "English"


# Threads


def test_the_same_topic_is_the_same_thread(api: httpx.Client, mcp: Mcp):
    topic = f"topic {word()}"
    first = api.post("/api/threads", json={"topic": topic, "metadata": {"a": 1}})
    again = api.post("/api/threads", json={"topic": f"  {topic} "})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json() == mcp.call("thread_create", topic=topic)
    thread = first.json()
    assert thread == {
        "id": thread["thread_id"],
        "thread_id": thread["thread_id"],
        "topic": topic,
        "status": "discuss",
        "system_prompt": None,
        "template_id": None,
        "summary": None,
        "metadata": {"a": 1},
        "created_at": thread["created_at"],
        "updated_at": thread["created_at"],
        "current_seq": 0,
        "message_count": 0,
    }


def test_many_who_open_a_topic_at_once_get_one_thread(api: httpx.Client):
    topic = f"topic {word()}"
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: api.post("/api/threads", json={"topic": topic}).json()["id"], range(16)))
    assert len(ids) == 1


@pytest.mark.parametrize("topic", ["", "  ", "x" * 501])
def test_a_topic_must_be_a_topic(api: httpx.Client, mcp: Mcp, topic: str):
    assert api.post("/api/threads", json={"topic": topic}).status_code in (400, 422)
    assert "topic" in mcp.refused("thread_create", topic=topic)["error"]


@pytest.mark.parametrize("name", ["", "  "])
def test_a_thread_without_a_name_cannot_be_joined(mcp: Mcp, name: str):
    before = len(mcp.call("agent_list")["agents"])
    assert mcp.refused("bus_connect", thread_name=name)["error"] == "thread_name must not be empty."
    assert len(mcp.call("agent_list")["agents"]) == before  # nobody came to be by it


def test_a_text_that_is_too_long_says_how_long_it_may_be(api: httpx.Client, mcp: Mcp):
    said = "topic: must have at most 500 characters."
    assert api.post("/api/threads", json={"topic": "x" * 501}).json() == {"detail": said}
    assert mcp.refused("thread_create", topic="x" * 501) == {"error": said}


def test_a_page_of_threads_has_one_at_the_least(api: httpx.Client, mcp: Mcp):
    made = [Thread(api).id for _ in range(2)]
    for limit in (0, -5):
        assert [t["id"] for t in mcp.call("thread_list", limit=limit)["threads"]] == made[-1:]
        assert [t["id"] for t in api.get("/api/threads", params={"limit": limit}).json()["threads"]] == made[-1:]


def test_threads_are_listed_newest_first_a_page_at_a_time(api: httpx.Client, mcp: Mcp):
    made = [Thread(api).id for _ in range(5)]
    seen: list[str] = []
    cursor = None
    while len(seen) < 5:
        page = mcp.call("thread_list", limit=2, before=cursor)
        assert set(page) == {"threads", "total", "has_more", "next_cursor"}
        assert (len(page["threads"]), page["has_more"]) == (2, True)
        seen += [t["id"] for t in page["threads"]]
        cursor = page["next_cursor"]
    assert seen[:5] == made[::-1]
    assert api.get("/api/threads", params={"limit": 2}).json() == mcp.call("thread_list", limit=2)


def test_a_thread_can_be_changed_closed_archived_and_brought_back(api: httpx.Client, mcp: Mcp, thread: Thread):
    with listen(api, f"{thread.path}/events") as listener:
        changed = api.put(thread.path, json={"status": "implement", "summary": "so far", "metadata": {"a": 1}}).json()
        assert (changed["status"], changed["summary"], changed["metadata"]) == ("implement", "so far", {"a": 1})
        merged = mcp.call("thread_update", thread_id=thread.id, metadata={"b": 2})
        assert merged["metadata"] == {"a": 1, "b": 2}
        assert mcp.call("thread_update", thread_id=thread.id, metadata={"b": 2}) == merged  # nothing new: nothing told
        closed = mcp.call("thread_close", thread_id=thread.id, summary="the end")
        assert (closed["status"], closed["summary"]) == ("closed", "the end")
        assert mcp.call("thread_archive", thread_id=thread.id)["status"] == "archived"
        assert api.post(f"{thread.path}/unarchive").json()["status"] == "discuss"
        told = listener.before_message(thread.post("reopened")["id"])
    assert told_of(told) == [
        Told(0, "thread.state", {"thread_id": thread.id, "topic": thread.topic, "status": status, "summary": summary})
        for status, summary in (
            ("implement", "so far"),
            ("implement", "so far"),
            ("closed", "the end"),
            ("archived", "the end"),
            ("discuss", "the end"),
        )
    ]
    assert mcp.call("thread_get", thread_id=thread.id) == api.get(thread.path).json()


def test_archived_threads_leave_the_list_unless_asked_for(api: httpx.Client, mcp: Mcp, thread: Thread):
    mcp.call("thread_archive", thread_id=thread.id)

    def listed(**more: Any) -> bool:
        return thread.id in [t["id"] for t in mcp.call("thread_list", limit=200, **more)["threads"]]

    assert (listed(), listed(include_archived=True), listed(status="archived")) == (False, True, True)
    assert listed(status="review") is False


@pytest.mark.parametrize("state", ["close", "archive"])
def test_a_closed_thread_takes_no_messages(api: httpx.Client, mcp: Mcp, thread: Thread, state: str):
    first = thread.post("before", idempotency_key="once")
    api.post(f"{thread.path}/{state}")
    response = api.post(f"{thread.path}/messages", json={"author": "ann", "content": "after"})
    assert response.status_code == 409
    assert "thread_update" in response.json()["detail"]
    assert mcp.refused("msg_post", thread_id=thread.id, content="after")["error"] == "CONFLICT"
    assert thread.post("before", idempotency_key="once") == first  # a retry is still answered
    mcp.call("thread_update", thread_id=thread.id, status="discuss")
    assert thread.post("after")["seq"] == 2


def test_deleting_a_thread_takes_everything_with_it(api: httpx.Client, mcp: Mcp, thread: Thread):
    unique = word()
    message = thread.post(unique)
    after = api.get("/api/status").json()["last_event_id"] - 5
    with listen(api, f"{thread.path}/events") as listener:
        assert mcp.refused("thread_delete", thread_id=thread.id, confirm=False)["error"]
        assert mcp.call("thread_delete", thread_id=thread.id) == {"ok": True, "deleted": thread.id}
        assert replace(listener.next(), id=0) == Told(
            0, "thread.deleted", {"thread_id": thread.id, "topic": thread.topic}
        )
    for path in (thread.path, f"{thread.path}/messages", f"{thread.path}/export", f"/api/messages/{message['id']}"):
        assert api.get(path).status_code == 404
    with listen(api, after=max(after, 0)) as listener:
        replayed = listener.until(lambda t: t.type == "thread.deleted" and t.data["thread_id"] == thread.id)
    assert unique not in str(replayed)
    again = Thread(api, thread.topic)
    assert again.id != thread.id
    assert again.post("new")["seq"] == 1


# Posting


def test_a_message_has_exactly_these_fields(api: httpx.Client, thread: Thread):
    parent, others = thread.post("the question"), [word("bob"), word("carol")]
    message = thread.post(
        "the answer",
        role="assistant",
        priority="high",
        mentions=others,
        reply_to_msg_id=parent["id"],
        metadata={"deep": {"er": [1, None, "ü"]}},
    )
    assert message == {
        "id": message["message_id"],
        "message_id": message["message_id"],
        "thread_id": thread.id,
        "seq": 2,
        "author": "ann",
        "author_id": None,
        "author_name": "ann",
        "role": "assistant",
        "content": "the answer",
        "created_at": message["created_at"],
        "priority": "high",
        "mentions": others,
        "reply_to_msg_id": parent["id"],
        "metadata": {"deep": {"er": [1, None, "ü"]}},
        "edited_at": None,
        "edit_version": 0,
        "reactions": [],
        "reached": [],
        "unknown_names": others,
        "receipts": message["receipts"],
    }
    assert {one["state"] for one in message["receipts"]} == {"not_reached"}
    of_the_post = ("reached", "unknown_names", "receipts")
    listed = {name: value for name, value in message.items() if name not in of_the_post}
    assert thread.messages() == [parent, listed]


@pytest.mark.parametrize(
    "content", ["  spaces stay  ", "line\n\tline\r\n", "🚀 ünï 部署", "<b>&amp;</b>", "\\", "x" * 1_000_000]
)
def test_what_was_said_is_kept_to_the_letter(thread: Thread, content: str):
    message = thread.post(content)
    assert message["content"] == content
    assert thread.messages()[0]["content"] == content


def test_seq_starts_at_1_and_has_no_gap_however_many_post_at_once(api: httpx.Client, thread: Thread):
    def post(n: int) -> int:
        if n % 5 == 0:  # refused in between: these must not take a number
            api.post(f"{thread.path}/messages", json={"author": "x", "content": "y", "reply_to_msg_id": "no-such"})
        return int(thread.post(str(n))["seq"])

    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(post, range(60)))
    assert sorted(given) == list(range(1, 61))
    assert [m["seq"] for m in thread.messages()] == list(range(1, 61))


@pytest.mark.parametrize("content", ["", "   ", "\n"])
def test_an_empty_message_is_refused(api: httpx.Client, mcp: Mcp, thread: Thread, content: str):
    response = api.post(f"{thread.path}/messages", json={"author": "ann", "content": content})
    assert (response.status_code, response.json()) == (400, {"detail": "content must not be empty."})
    assert mcp.refused("msg_post", thread_id=thread.id, content=content)["error"] == "content must not be empty."


@pytest.mark.parametrize("field", ["content", "author"])
@pytest.mark.parametrize("bad", ["a\x00b", "a\ud800b"])
def test_text_no_engine_can_store_is_refused_by_name(api: httpx.Client, thread: Thread, field: str, bad: str):
    body = json.dumps({"author": "ann", "content": "fine", field: bad})
    response = api.post(f"{thread.path}/messages", content=body)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(f"{field}:")
    assert thread.messages() == []


@pytest.mark.parametrize("metadata", [{"k": "a\x00b"}, {"k\x00": 1}, {"k": {"deep": ["a\x00b"]}}])
def test_metadata_with_nul_comes_back_or_is_refused_on_both_engines_alike(
    api: httpx.Client, thread: Thread, metadata: dict[str, Any]
):
    """As text inside JSON it is escaped: it can be stored, or must be refused by name; never an error of the server."""
    response = api.post(f"{thread.path}/messages", json={"author": "ann", "content": "x", "metadata": metadata})
    assert response.status_code in (201, 422), response.text
    if response.status_code == 201:
        assert thread.messages()[0]["metadata"] == metadata
        with listen(api, f"{thread.path}/events", after=0) as listener:
            assert listener.until(lambda t: t.type == "msg.new")[-1].data["metadata"] == metadata


def test_posting_into_an_unknown_thread_is_404(api: httpx.Client, mcp: Mcp):
    response = api.post("/api/threads/no-such-thread/messages", json={"author": "ann", "content": "x"})
    assert response.status_code == 404
    assert "no-such-thread" in response.json()["detail"]
    answer = mcp.refused("msg_post", thread_id="no-such-thread", content="x")
    assert (answer["error"], answer["thread_id"]) == ("THREAD_NOT_FOUND", "no-such-thread")


@pytest.mark.parametrize(
    "wrong", [{"role": "king"}, {"priority": "extreme"}, {"mentions": "bob"}, {"metadata": []}, {"content": 5}]
)
def test_a_wrong_value_is_refused_by_name(api: httpx.Client, mcp: Mcp, thread: Thread, wrong: dict[str, Any]):
    (field,) = wrong
    response = api.post(f"{thread.path}/messages", json={"author": "ann", "content": "x", **wrong})
    assert response.status_code == 422
    assert field in response.json()["detail"]
    assert field in mcp.refused("msg_post", {"thread_id": thread.id, "content": "x", **wrong})["error"]


@pytest.mark.parametrize("author", ["", " ", "\t\n"])
def test_an_author_has_a_name(api: httpx.Client, mcp: Mcp, thread: Thread, author: str):
    response = api.post(f"{thread.path}/messages", json={"author": author, "content": "x"})
    assert (response.status_code, response.json()) == (422, {"detail": "author: must not be empty."})
    assert mcp.refused("msg_post", thread_id=thread.id, content="x", author=author)["error"].startswith("author: ")
    assert thread.messages() == []


def test_blanks_around_an_author_make_no_other_one(thread: Thread):
    assert thread.post("x", author="  ann \n")["author"] == "ann"


def test_the_new_message_is_told_whole(api: httpx.Client, thread: Thread):
    with listen(api, f"{thread.path}/events") as listener:
        message = thread.post("hello", metadata={"a": 1})
        assert replace(listener.next(), id=0) == Told(0, "msg.new", message)


# Order and retries


@pytest.mark.parametrize("expected", [0, 1, 3, 99, -5, 10**18])
def test_a_wrong_expected_last_seq_is_409_with_what_was_missed(
    api: httpx.Client, mcp: Mcp, thread: Thread, expected: int
):
    posted = [thread.post("one"), thread.post("two")]
    unread = posted[max(expected, 0) :]
    response = api.post(
        f"{thread.path}/messages", json={"author": "ann", "content": "three", "expected_last_seq": expected}
    )
    assert response.status_code == 409
    detail = response.json()["detail"]
    assert (detail["error"], detail["current_seq"], detail["new_messages"]) == ("SEQ_MISMATCH", 2, unread)
    answer = mcp.refused("msg_post", thread_id=thread.id, content="three", expected_last_seq=expected)
    assert (answer["error"], answer["current_seq"], answer["new_messages"]) == ("SEQ_MISMATCH", 2, unread)
    assert thread.messages() == posted


def test_the_right_expected_last_seq_posts(thread: Thread):
    assert thread.post("one", expected_last_seq=0)["seq"] == 1
    assert thread.post("two", expected_last_seq=1)["seq"] == 2


def test_of_many_who_expect_the_same_seq_one_posts(api: httpx.Client, thread: Thread):
    def post(n: int) -> int:
        body = {"author": f"a{n}", "content": "me first", "expected_last_seq": 0}
        return api.post(f"{thread.path}/messages", json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(post, range(8))) == [201] + [409] * 7


def test_a_retry_with_the_same_key_returns_the_first_message(api: httpx.Client, mcp: Mcp, thread: Thread):
    first = thread.post("once", idempotency_key="k1")
    with listen(api, f"{thread.path}/events") as listener:
        assert thread.post("once", idempotency_key="k1") == first
        assert thread.post("other words", idempotency_key="k1", expected_last_seq=0) == first
        by_header = api.post(
            f"{thread.path}/messages", json={"author": "ann", "content": "once"}, headers={"Idempotency-Key": "k1"}
        )
        assert (by_header.status_code, by_header.json()) == (201, first)
        assert mcp.call("msg_post", thread_id=thread.id, author="ann", content="once", idempotency_key="k1") == first
        last = thread.post("twice", idempotency_key="k2")
        assert listener.before_message(last["id"]) == []
    assert thread.messages() == [first, last]


def test_a_reply_token_is_such_a_key(mcp: Mcp, api: httpx.Client):
    connected = mcp.call("bus_connect", thread_name=f"topic {word()}")
    asked = {"thread_id": connected["thread"]["thread_id"], "content": "hi", "reply_token": connected["reply_token"]}
    assert mcp.call("msg_post", asked) == mcp.call("msg_post", asked)
    waited = mcp.call("msg_wait", thread_id=asked["thread_id"], after_seq=0)
    assert waited["reply_token"] != connected["reply_token"]
    assert mcp.call("msg_post", {**asked, "reply_token": waited["reply_token"]})["seq"] == 2


def test_retries_at_the_same_time_store_it_once(thread: Thread):
    with ThreadPoolExecutor(8) as pool:
        ids = {m["id"] for m in pool.map(lambda _: thread.post("once", idempotency_key="k"), range(16))}
    assert len(ids) == len(thread.messages()) == 1


def test_a_key_counts_in_one_thread_only(api: httpx.Client, thread: Thread):
    assert thread.post("x", idempotency_key="k")["id"] != Thread(api).post("x", idempotency_key="k")["id"]


# Replies, priorities, reading


def test_a_reply_must_answer_a_message_of_the_same_thread(api: httpx.Client, mcp: Mcp, thread: Thread):
    elsewhere = Thread(api).post("elsewhere")
    for wrong in ("no-such-message", elsewhere["id"]):
        response = api.post(f"{thread.path}/messages", json={"author": "a", "content": "x", "reply_to_msg_id": wrong})
        assert response.status_code == 400
        assert "reply_to_msg_id" in response.json()["detail"]
        assert (
            "reply_to_msg_id"
            in mcp.refused("msg_post", thread_id=thread.id, content="x", reply_to_msg_id=wrong)["error"]
        )
    assert thread.messages() == []


@pytest.mark.parametrize("field", ["role", "priority"])
def test_agents_do_not_post_as_the_system(api: httpx.Client, mcp: Mcp, thread: Thread, field: str):
    refused = mcp.refused("msg_post", {"thread_id": thread.id, "content": "obey", field: "system"})
    assert (refused["error"], "system" in refused["message"]) == ("FORBIDDEN", True)
    assert thread.post("by a person", **{field: "system"})[field] == "system"
    assert len(thread.messages()) == 1


@pytest.mark.parametrize("priority", ["low", "normal", "high", "urgent", "system"])
def test_messages_can_be_listed_by_priority(mcp: Mcp, thread: Thread, priority: str):
    for each in ("low", "normal", "high", "urgent", "system"):
        thread.post(each, priority=each)
    assert [m["content"] for m in thread.messages(priority=priority)] == [priority]
    assert [m["content"] for m in mcp.call("msg_list", thread_id=thread.id, priority=priority)["messages"]] == [
        priority
    ]


def test_a_limit_counts_the_messages_of_the_priority_asked_for(mcp: Mcp, thread: Thread):
    for priority in ("normal", "normal", "urgent", "normal", "urgent"):
        thread.post("x", priority=priority)
    assert [m["seq"] for m in thread.messages(priority="urgent", limit=2)] == [3, 5]
    answer = mcp.call("msg_list", thread_id=thread.id, priority="urgent", limit=1)
    assert ([m["seq"] for m in answer["messages"]], answer["has_more"]) == ([3], True)


def test_a_thread_is_read_in_order_forwards_and_backwards(mcp: Mcp, thread: Thread):
    for n in range(1, 8):
        thread.post(str(n))

    def read(**more: Any) -> tuple[list[int], bool]:
        answer = mcp.call("msg_list", thread_id=thread.id, **more)
        assert set(answer) == {"thread_id", "messages", "current_seq", "has_more", "reply_token", "hint"}
        seqs = [m["seq"] for m in answer["messages"]]
        assert answer["current_seq"] == (seqs[-1] if answer["has_more"] else 7)
        assert [m["seq"] for m in thread.messages(**more)] == seqs
        return seqs, answer["has_more"]

    assert read() == ([1, 2, 3, 4, 5, 6, 7], False)
    assert read(limit=3) == ([1, 2, 3], True)
    assert read(after_seq=3, limit=3) == ([4, 5, 6], True)
    assert read(after_seq=6) == ([7], False)
    assert read(after_seq=10**18) == ([], False)
    assert read(before_seq=5, limit=2) == ([3, 4], True)
    assert read(newest=True, limit=2) == ([6, 7], True)
    assert read(limit=-1) == ([1], True)


def test_reading_an_unknown_thread_is_404(api: httpx.Client, mcp: Mcp):
    for path in ("", "/messages", "/export", "/events", "/wait", "/agents"):
        assert api.get(f"/api/threads/no-such-thread{path}").status_code == 404
    for tool in ("thread_get", "msg_list", "msg_wait", "thread_close", "thread_delete"):
        assert mcp.refused(tool, thread_id="no-such-thread")["error"] == "THREAD_NOT_FOUND"


# Waiting


def test_waiting_returns_at_once_what_is_there(mcp: Mcp, thread: Thread):
    message = thread.post("hello")
    answer = mcp.call("msg_wait", thread_id=thread.id, after_seq=0)
    assert answer == {
        "messages": [message],
        "current_seq": 1,
        "has_more": False,
        "timed_out": False,
        "reply_token": answer["reply_token"],
        "hint": None,
    }


@pytest.mark.parametrize("door", ["mcp", "rest"])
def test_waiting_returns_as_soon_as_something_arrives(api: httpx.Client, mcp: Mcp, thread: Thread, door: str):
    agent = mcp.call("bus_connect", thread_name=thread.topic)["agent"]

    def wait() -> dict[str, Any]:
        if door == "mcp":
            return dict(mcp.call("msg_wait", thread_id=thread.id, after_seq=0, timeout_ms=30_000))
        params = {"after_seq": 0, "timeout_ms": 30_000, "agent_id": agent["id"], "token": agent["token"]}
        return dict(api.get(f"{thread.path}/wait", params=params, timeout=40).json())

    def is_waiting() -> bool:
        return any(a["waiting_in"] == thread.id for a in api.get("/api/agents").json())

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        eventually(is_waiting)
        message = thread.post("hello")
        assert waiting.result(timeout=20)["messages"] == [message]  # before its own end, after 30 seconds
    eventually(lambda: not is_waiting())


def test_waiting_in_vain_ends_with_an_empty_list(api: httpx.Client, mcp: Mcp, thread: Thread):
    thread.post("hello")
    for timeout in (0, 50, -1):
        answer = mcp.call("msg_wait", thread_id=thread.id, after_seq=1, timeout_ms=timeout)
        assert (answer["messages"], answer["current_seq"], answer["timed_out"]) == ([], 1, True)
    answer = api.get(f"{thread.path}/wait", params={"after_seq": 1, "timeout_ms": 50}).json()
    assert (answer["messages"], answer["timed_out"]) == ([], True)


def test_waiting_takes_45_seconds_unless_told_otherwise(mcp: Mcp):
    (tool,) = (t for t in mcp.ask("tools/list")["tools"] if t["name"] == "msg_wait")
    assert tool["inputSchema"]["properties"]["timeout_ms"]["default"] == 45_000


def test_waiting_for_mentions_returns_only_mentions(mcp: Mcp, api: httpx.Client, thread: Thread):
    name = word("Bob")
    bob = mcp.call("bus_connect", thread_name=thread.topic, display_name=name)["agent"]
    thread.post("for all")
    for mention in (bob["id"], name, f"@{name}", bob["slug"]):
        expected = thread.post("for bob", mentions=["carol", mention])
        thread.post("for carol", mentions=["carol"])
        for asked in (bob["id"], name, f"@{name}"):
            waited = mcp.call("msg_wait", thread_id=thread.id, after_seq=expected["seq"] - 1, for_agent=asked)
            assert [message["id"] for message in waited["messages"]] == [expected["id"]]
    seq = thread.post("for all")["seq"]
    waited = mcp.call("msg_wait", thread_id=thread.id, after_seq=seq, for_agent=bob["id"], timeout_ms=50)
    assert (waited["messages"], waited["timed_out"]) == ([], True)


def test_a_mention_is_heard_however_much_was_said_before(mcp: Mcp, thread: Thread):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: thread.post(str(n)), range(205)))
    expected = thread.post("at last", mentions=["bob"])
    waited = mcp.call("msg_wait", thread_id=thread.id, after_seq=0, for_agent="bob", timeout_ms=500)
    assert [message["id"] for message in waited["messages"]] == [expected["id"]]


# Editing and deleting


def test_an_edit_keeps_the_earlier_versions(api: httpx.Client, mcp: Mcp, thread: Thread):
    message = thread.post("one")
    path = f"/api/messages/{message['id']}"
    api.post(f"{path}/reactions", json={"reaction": "agree"})
    (message,) = thread.messages()
    with listen(api, f"{thread.path}/events") as listener:
        edited = api.put(path, json={"content": "two"})
        assert edited.status_code == 200
        again = mcp.call("msg_edit", message_id=message["id"], new_content="three")
        same = mcp.call("msg_edit", message_id=message["id"], content="three")
        told = listener.before_message(thread.post("end")["id"])
    assert edited.json() == {
        **message,
        "content": "two",
        "edit_version": 1,
        "version": 1,
        "edited_by": "human",
        "edited_at": edited.json()["edited_at"],
        "no_change": False,
    }
    assert (again["edit_version"], same["edit_version"], same["no_change"]) == (2, 2, True)
    assert [(t.type, t.data["content"], t.data["edit_version"]) for t in told] == [
        ("msg.edit", "two", 1),
        ("msg.edit", "three", 2),
    ]
    assert told[0].data == {
        "message_id": message["id"],
        "thread_id": thread.id,
        "seq": 1,
        "content": "two",
        "edited_by": "human",
        "edited_at": edited.json()["edited_at"],
        "edit_version": 1,
        "metadata": None,
    }
    history = api.get(f"{path}/history").json()
    assert history == mcp.call("msg_edit_history", message_id=message["id"])
    assert (history["current_content"], history["edit_version"]) == ("three", 2)
    assert [(e["version"], e["old_content"]) for e in history["edits"]] == [(1, "one"), (2, "two")]
    now = api.get(path).json()
    assert (now["content"], now["seq"], now["created_at"]) == ("three", 1, message["created_at"])
    assert (now["edited_at"], now["edit_version"]) == (again["edited_at"], 2)
    assert [r["reaction"] for r in now["reactions"]] == ["agree"]


def test_an_edit_must_say_something(api: httpx.Client, thread: Thread):
    message = thread.post("one")
    assert api.put(f"/api/messages/{message['id']}", json={"content": " "}).status_code == 400
    assert api.put(f"/api/messages/{message['id']}", json={}).status_code == 422
    assert api.put("/api/messages/no-such-message", json={"content": "x"}).status_code == 404


def test_a_deleted_message_is_gone_and_its_seq_is_never_used_again(api: httpx.Client, mcp: Mcp, thread: Thread):
    unique = word()
    kept, gone = thread.post("kept"), thread.post(f"gone {unique}", metadata={"secret": unique})
    before = api.get("/api/status").json()["last_event_id"]
    api.put(f"/api/messages/{gone['id']}", json={"content": f"edited {unique}"})
    with listen(api, f"{thread.path}/events") as listener:
        deleted = api.delete(f"/api/messages/{gone['id']}")
        assert (deleted.status_code, deleted.json()) == (
            200,
            {"deleted": True, "message_id": gone["id"], "thread_id": thread.id, "seq": 2},
        )
        last = thread.post("next")
        assert told_of(listener.before_message(last["id"])) == [
            Told(0, "msg.delete", {"message_id": gone["id"], "thread_id": thread.id, "seq": 2})
        ]
    assert last["seq"] == 3
    assert thread.messages() == [kept, last]
    assert api.get(thread.path).json()["message_count"] == 2
    assert api.delete(f"/api/messages/{gone['id']}").status_code == 404
    assert mcp.refused("msg_delete", message_id=gone["id"])["error"] == "MESSAGE_NOT_FOUND"
    for path in ("", "/history", "/reactions"):
        assert api.get(f"/api/messages/{gone['id']}{path}").status_code == 404
    assert unique not in api.get(f"{thread.path}/export").text
    # The last message of all, too.
    assert mcp.call("msg_delete", message_id=last["id"])["seq"] == 3
    assert thread.post("and on")["seq"] == 4
    with listen(api, f"{thread.path}/events", after=before - 2) as listener:
        replayed = listener.until(lambda t: t.type == "msg.new" and t.data["seq"] == 4)
    assert unique not in str(replayed)
    assert [t.type for t in replayed[-5:]] == ["msg.edit", "msg.delete", "msg.new", "msg.delete", "msg.new"]


def test_a_key_of_a_deleted_message_is_free_again(api: httpx.Client, thread: Thread):
    first = thread.post("once", idempotency_key="k")
    api.delete(f"/api/messages/{first['id']}")
    assert thread.post("once", idempotency_key="k")["seq"] == 2


# Human-only


@pytest.fixture(
    params=[{"visibility": "human_only"}, {"audience": "human"}, {"human_only": True}], ids=lambda m: next(iter(m))
)
def human_only(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


def test_agents_never_see_what_is_for_humans_only(
    api: httpx.Client, mcp: Mcp, thread: Thread, human_only: dict[str, Any]
):
    secret = word("secret")
    message = thread.post(f"old {secret}", metadata={**human_only, "note": secret})
    api.put(f"/api/messages/{message['id']}", json={"content": f"new {secret}"})
    shown = [
        mcp.call("msg_list", thread_id=thread.id)["messages"][0],
        mcp.call("msg_wait", thread_id=thread.id, after_seq=0)["messages"][0],
        mcp.call("msg_get", message_id=message["id"]),
        mcp.call("bus_connect", thread_name=thread.topic)["messages"][0],
        mcp.refused("msg_post", thread_id=thread.id, content="x", expected_last_seq=0)["new_messages"][0],
    ]
    for each in shown:
        assert each["content"] == HIDDEN
        assert set(each["metadata"]) <= {"visibility", "audience"}
    history = mcp.call("msg_edit_history", message_id=message["id"])
    assert (history["current_content"], [e["old_content"] for e in history["edits"]]) == (HIDDEN, [HIDDEN])
    transcript = mcp.read(f"chat://threads/{thread.id}/transcript")
    assert HIDDEN in transcript
    found = mcp.call("msg_search", query=secret)["results"]
    assert [hit["snippet"] for hit in found] == [HIDDEN]
    assert secret not in str(shown) + str(history) + transcript + str(found)


def test_humans_see_what_is_for_humans_only(api: httpx.Client, thread: Thread, human_only: dict[str, Any]):
    secret = word("secret")
    with listen(api, f"{thread.path}/events") as listener:
        message = thread.post(f"old {secret}", metadata=human_only)
        assert listener.next().data == message
    assert message["content"] == f"old {secret}"
    assert thread.messages() == [message]
    assert secret in api.get(f"{thread.path}/export").text


def test_an_agent_who_posts_for_humans_only_does_not_read_it_back(mcp: Mcp, api: httpx.Client, thread: Thread):
    mcp.call("bus_connect", thread_name=thread.topic)
    asked = {"thread_id": thread.id, "content": "for you", "metadata": {"visibility": "human_only"}}
    posted = mcp.call("msg_post", asked)
    assert posted["content"] == HIDDEN
    edited = mcp.call("msg_edit", message_id=posted["id"], content="for you all")
    assert edited["content"] == HIDDEN
    assert thread.messages()[0]["content"] == "for you all"


# Agents


def test_an_agent_registers_lives_and_leaves(api: httpx.Client, mcp: Mcp):
    name = word("Ann")
    about = {
        "ide": "CLI",
        "model": "m1",
        "display_name": name,
        "capabilities": ["code"],
        "skills": [{"id": "s", "name": "S"}],
    }
    with listen(api) as listener:
        agent = mcp.call("agent_register", about)
        assert agent == {
            "id": agent["agent_id"],
            "agent_id": agent["agent_id"],
            "name": agent["name"],
            "display_name": name,
            "slug": name.lower(),
            "token": agent["token"],
            "capabilities": ["code"],
            "skills": [{"id": "s", "name": "S"}],
            "is_online": True,
        }
        who = {"agent_id": agent["agent_id"], "token": agent["token"]}
        assert mcp.call("agent_heartbeat", who) == {"ok": True}
        updated = mcp.call("agent_update", {**who, "description": "writes tests"})
        assert (updated["description"], updated["display_name"], updated["capabilities"]) == (
            "writes tests",
            name,
            ["code"],
        )
        assert mcp.call("agent_unregister", who) == {"ok": True}
        listed = {a["id"]: a for a in mcp.call("agent_list")["agents"]}
        assert listed[agent["id"]]["is_online"] is False
        back = mcp.call("agent_resume", who)
        assert (back["id"], back["is_online"], back["display_name"]) == (agent["id"], True, name)
        assert mcp.call("agent_heartbeat", who) == {"ok": True}
        sentinel = Thread(api).post("end")
        told = [t for t in listener.before_message(sentinel["id"]) if t.data.get("agent_id") == agent["id"]]
    payload = {"thread_id": None, "agent_id": agent["id"], "name": agent["name"], "display_name": name}
    assert told_of(told) == [
        Told(0, "agent.online", payload),
        Told(0, "agent.offline", payload),
        Told(0, "agent.online", payload),
    ]


def test_a_name_of_blanks_is_none(mcp: Mcp):
    ide = word("IDE")
    agent = mcp.call("agent_register", ide=f" {ide} ", model="  ", display_name="  ")
    assert (agent["name"], agent["display_name"]) == (ide, None)


def test_a_listed_agent_shows_no_secret(api: httpx.Client, mcp: Mcp):
    agent = mcp.call("agent_register", display_name=word("Ann"))
    (shown,) = (a for a in api.get("/api/agents").json() if a["id"] == agent["id"])
    assert "token" not in str(shown)
    assert agent["token"] not in str(mcp.call("agent_list"))
    assert api.get(f"/api/agents/{agent['slug']}").json() == shown
    assert set(shown) == {
        "id", "agent_id", "slug", "name", "display_name", "description", "ide", "model", "capabilities", "skills",
        "is_online", "registered_at", "last_heartbeat", "last_activity", "last_activity_time", "waiting_in",
        "client", "project", "owner",
    }  # fmt: skip


def test_acting_as_an_agent_needs_its_token(api: httpx.Client, mcp: Mcp):
    agent = mcp.call("agent_register", display_name=word("Ann"))
    for tool in ("agent_heartbeat", "agent_resume", "agent_update", "agent_unregister"):
        for wrong in ({}, {"token": "wrong"}):
            answer = Mcp(api).refused(tool, {"agent_id": agent["id"], **wrong})
            assert answer["error"] == "UNAUTHORIZED"
    assert api.post("/api/agents/heartbeat", json={"agent_id": agent["id"], "token": "wrong"}).status_code == 401


def test_agents_of_the_same_make_get_different_names(mcp: Mcp):
    model = word("model")
    names = [mcp.call("agent_register", ide="Cursor", model=model)["name"] for _ in range(3)]
    assert names == [f"Cursor ({model})", f"Cursor ({model}) 2", f"Cursor ({model}) 3"]


def test_the_agents_of_a_thread_are_those_who_wrote_in_it(api: httpx.Client, mcp: Mcp, thread: Thread):
    agent = mcp.call("bus_connect", thread_name=thread.topic)["agent"]
    assert api.get(f"{thread.path}/agents").json() == []
    mcp.call("msg_post", thread_id=thread.id, content="hello")
    assert [a["id"] for a in api.get(f"{thread.path}/agents").json()] == [agent["id"]]


# Templates


def test_templates_can_be_listed_read_made_and_used(api: httpx.Client, mcp: Mcp):
    new = {
        "id": word("t"),
        "name": "Mine",
        "description": "d",
        "system_prompt": "Rules.",
        "default_metadata": {"a": 1, "b": 1},
    }
    made = mcp.call("template_create", new)
    assert made == {**new, "is_builtin": False, "created_at": made["created_at"]}
    assert mcp.call("template_get", template_id=new["id"]) == made
    assert api.get(f"/api/templates/{new['id']}").json() == made
    listed = mcp.call("template_list")["templates"]
    assert api.get("/api/templates").json() == listed
    assert made in listed
    assert [t["id"] for t in listed if t["is_builtin"]][:4] == [
        "code-review",
        "security-audit",
        "architecture",
        "brainstorm",
    ]
    response = api.post("/api/threads", json={"topic": word(), "template": new["id"], "metadata": {"b": 2}})
    thread = response.json()
    assert (thread["template_id"], thread["system_prompt"], thread["metadata"]) == (
        new["id"],
        "Rules.",
        {"a": 1, "b": 2},
    )


def test_templates_that_exist_cannot_be_overwritten(api: httpx.Client, mcp: Mcp):
    for id in ("code-review", mcp.call("template_create", id=word("t"), name="x")["id"]):
        assert api.post("/api/templates", json={"id": id, "name": "x"}).status_code == 409


def test_a_template_is_changed_and_its_threads_are_not(api: httpx.Client):
    path = "/api/templates/" + word("t")
    new = {"name": "Mine", "description": "d", "system_prompt": "Rules.", "default_metadata": {"a": 1}}
    made = api.post("/api/templates", json={"id": path.rpartition("/")[2], **new}).json()
    thread = api.post("/api/threads", json={"topic": word(), "template": made["id"]}).json()
    assert api.put(path, json={"name": "Ours"}).json() == {**made, "name": "Ours"}
    changed = {
        **made,
        "name": "Ours",
        "description": None,
        "system_prompt": "Other rules.",
        "default_metadata": {"b": 2},
    }
    change = {"description": "", "system_prompt": "Other rules.", "default_metadata": {"b": 2}}
    assert api.put(path, json=change).json() == changed
    assert api.get(path).json() == changed
    assert api.get(f"/api/threads/{thread['id']}").json()["system_prompt"] == "Rules."


def test_a_template_that_is_built_in_or_unknown_is_not_changed(api: httpx.Client):
    refused = api.put("/api/templates/code-review", json={"name": "x"})
    assert refused.status_code == 409
    assert "built in" in refused.json()["detail"]
    assert api.put("/api/templates/no-such", json={"name": "x"}).status_code == 404


def test_an_unknown_template_is_404(api: httpx.Client, mcp: Mcp):
    assert api.get("/api/templates/no-such").status_code == 404
    assert api.post("/api/threads", json={"topic": word(), "template": "no-such"}).status_code == 404
    assert mcp.refused("template_get", template_id="no-such")["error"] == "TEMPLATE_NOT_FOUND"


# Images


@pytest.mark.parametrize(
    "data, ending, media_type",
    [
        (PNG, ".png", "image/png"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 32, ".jpg", "image/jpeg"),
        (b"GIF89a" + b"\0" * 32, ".gif", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 32, ".webp", "image/webp"),
    ],
)
def test_an_image_can_be_uploaded_attached_and_fetched(
    api: httpx.Client, thread: Thread, data: bytes, ending: str, media_type: str
):
    response = api.post("/api/upload/image", files={"file": ("my picture.bin", data, "application/octet-stream")})
    assert response.status_code == 200
    image = response.json()
    assert image == {"url": image["url"], "name": "my picture.bin"}
    assert image["url"].endswith(ending)
    fetched = api.get(image["url"])
    assert (fetched.status_code, fetched.content, fetched.headers["content-type"]) == (200, data, media_type)
    assert fetched.headers["x-content-type-options"] == "nosniff"
    message = thread.post("look", images=[image])
    assert message["metadata"] == {"images": [image]}


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7", b"MZ", b"<script>"]
)
def test_only_images_can_be_uploaded_whatever_they_are_called(api: httpx.Client, data: bytes):
    response = api.post("/api/upload/image", files={"file": ("image.png", data, "image/png")})
    assert response.status_code == 400
    assert "PNG" in response.json()["detail"]


def test_an_image_may_have_five_megabytes(api: httpx.Client):
    limit = 5 * 1024 * 1024
    fits = PNG + b"\0" * (limit - len(PNG))
    assert api.post("/api/upload/image", files={"file": ("a.png", fits)}).status_code == 200
    for extra in (1, 1024 * 1024):
        response = api.post("/api/upload/image", files={"file": ("a.png", fits + b"\0" * extra)})
        assert response.status_code == 413
        assert "PALAVER_MAX_UPLOAD" in response.json()["detail"]


def test_an_upload_without_a_file_is_refused(api: httpx.Client):
    for options in (
        {"files": {"other": ("a.png", PNG)}},
        {"data": {"file": "text"}},
        {"content": b"nonsense", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": PNG, "headers": {"content-type": "image/png"}},
        {},
    ):
        response = api.post("/api/upload/image", **options)
        assert response.status_code == 400, response.text
        assert "file" in response.json()["detail"]


@pytest.mark.parametrize(
    "name", ["no-such.png", "..%2f..%2fhouse.db", "%2e%2e%2fhouse.db", "0" * 32 + ".svg", "0" * 32 + ".png"]
)
def test_only_uploaded_images_can_be_fetched(api: httpx.Client, name: str):
    assert api.get(f"/uploads/{name}").status_code == 404


@pytest.mark.parametrize(
    "name, data, kind",
    [
        ("report.pdf", b"%PDF-1.7", "application/pdf"),
        ("page.html", b"<script>alert(1)</script>", "text/html"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        ("unknown", b"\0\1\2", "application/octet-stream"),
    ],
)
def test_a_file_of_any_type_is_attached_and_only_ever_downloaded(
    api: httpx.Client, thread: Thread, name: str, data: bytes, kind: str
):
    response = api.post("/api/upload/file", files={"file": (name, data, "text/html")})
    assert response.status_code == 200
    file = response.json()
    assert file == {"url": file["url"], "name": name, "type": kind, "size": len(data)}
    fetched = api.get(file["url"])
    assert fetched.content == data
    assert fetched.headers["content-type"] == "application/octet-stream"
    assert fetched.headers["content-disposition"] == "attachment"
    assert fetched.headers["x-content-type-options"] == "nosniff"
    assert thread.post("look", files=[file])["metadata"] == {"files": [file]}


def test_a_file_that_is_an_image_is_stored_as_one_and_an_empty_file_is_refused(api: httpx.Client):
    file = api.post("/api/upload/file", files={"file": ("a.txt", PNG)}).json()
    assert file["url"].endswith(".png")
    assert file["type"] == "image/png"
    assert api.post("/api/upload/file", files={"file": ("a.txt", b"")}).status_code == 400
    large = api.post("/api/upload/file", files={"file": ("a.txt", b"x" * (5 * 1024 * 1024 + 1))})
    assert large.status_code == 413


# Export


def test_a_thread_can_be_exported_as_markdown(api: httpx.Client, mcp: Mcp, thread: Thread):
    one, two = thread.post("**bold** words"), thread.post("second", author="bob")
    api.post(f"/api/messages/{one['id']}/reactions", json={"reaction": "agree"})
    api.put(f"/api/messages/{two['id']}", json={"content": "second, better"})
    mcp.call("thread_close", thread_id=thread.id, summary="We agreed.")
    response = api.get(f"{thread.path}/export")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/markdown; charset=utf-8"
    assert re.fullmatch(r'attachment; filename="thread-w\w+\.md"', response.headers["content-disposition"])
    created = api.get(thread.path).json()["created_at"]
    assert response.text.splitlines() == [
        f"# {thread.topic}",
        "",
        f"*closed, begun {created}*",
        "",
        f"## 1. ann — {one['created_at']}",
        "",
        "**bold** words",
        "",
        "*agree*",
        "",
        f"## 2. bob — {two['created_at']} (edited)",
        "",
        "second, better",
        "",
        "---",
        "",
        "**Summary.** We agreed.",
    ]


# Secrets


SECRETS = [
    AWS_KEY,
    "ghp_" + "a1B2" * 9,
    "-----BEGIN RSA PRIVATE KEY-----",
    "sk-ant-" + "api03-" + "x" * 40,
    "xoxb-" + "123456789012-abcdefghijkl",
    "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_refused_in_posts_and_edits(api: httpx.Client, mcp: Mcp, thread: Thread, secret: str):
    message = thread.post("fine")
    text = f"here it is: {secret} ok?"
    responses = [
        api.post(f"{thread.path}/messages", json={"author": "ann", "content": text}),
        api.put(f"/api/messages/{message['id']}", json={"content": text}),
        api.put(thread.path, json={"summary": text}),
    ]
    for response in responses:
        assert response.status_code == 400
        assert "PALAVER_CONTENT_FILTER" in response.json()["detail"]
        assert secret not in response.text
    for tool, target in (("msg_post", {"thread_id": thread.id}), ("msg_edit", {"message_id": message["id"]})):
        assert "content filter" in mcp.refused(tool, {**target, "content": text})["error"]
    assert thread.messages() == [message]


@pytest.mark.parametrize(
    "text",
    [
        "the key to success",
        "AKIA is a prefix",
        "sk-short",
        "-----BEGIN CERTIFICATE-----",
        "commit 3f2a9c1b7d",
        "export AWS_SECRET_ACCESS_KEY=…",
    ],
)
def test_ordinary_words_are_not_taken_for_secrets(thread: Thread, text: str):
    assert thread.post(text)["content"] == text


# Servers with other settings, on SQLite only


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """No filter, and three posts a minute for each author."""
    env: dict[str, Any] = {
        "PALAVER_CONTENT_FILTER": "off",
        "PALAVER_RATE_LIMIT": 3,
        "PALAVER_TOOL_LIMITS": "template_list=2",
        "PALAVER_MAX_UPLOAD": "1k",
        "PALAVER_LANGUAGE": "Deutsch",
    }
    with start_server(tmp_path_factory.mktemp("strict"), **env) as server, server.client() as api:
        yield api


def test_the_filter_can_be_switched_off(strict: httpx.Client):
    thread = Thread(strict)
    message = thread.post(AWS_KEY, author=word())
    assert strict.put(f"/api/messages/{message['id']}", json={"content": f"{AWS_KEY}!"}).status_code == 200


def test_a_rate_limit_error_says_when_to_try_again(strict: httpx.Client):
    thread, author, mcp = Thread(strict), word(), Mcp(strict)
    for n in range(3):
        thread.post(str(n), author=author, idempotency_key=str(n))
    response = strict.post(f"{thread.path}/messages", json={"author": author, "content": "more"})
    assert response.status_code == 429
    wait = int(response.headers["retry-after"])
    assert 1 <= wait <= 60
    assert response.json()["detail"]["retry_after"] == wait
    answer = mcp.refused("msg_post", thread_id=thread.id, author=author, content="more")
    assert (answer["error"], 1 <= answer["retry_after"] <= 60) == ("RATE_LIMITED", True)
    assert thread.post("1", author=author, idempotency_key="1")["seq"] == 2  # a retry is not a new post
    assert thread.post("me too", author=word())["seq"] == 4  # others may
    assert Thread(strict).api.get(f"{thread.path}/messages").status_code == 200


def test_a_tool_that_is_called_too_often_says_when_to_come_back(strict: httpx.Client):
    mcp = Mcp(strict)
    for _ in range(2):
        mcp.call("template_list")
    answer = mcp.refused("template_list")
    assert (answer["error"], 1 <= answer["retry_after"] <= 60) == ("RATE_LIMITED", True)
    assert answer["message"].startswith("Rate limit exceeded: 2 calls of template_list a minute. Wait ")
    for _ in range(2):
        assert strict.get("/api/templates").status_code == 200  # a caller of its own
    response = strict.get("/api/templates")
    assert (response.status_code, response.json()["detail"]["error"]) == (429, "RATE_LIMITED")
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert strict.get("/api/threads").status_code == 200


@pytest.mark.parametrize(
    "given, host, search, post",
    [
        ("", "127.0.0.1", 0, 0),
        ("", "0.0.0.0", 600, 600),
        ("off", "0.0.0.0", 0, 0),
        ("60", "127.0.0.1", 60, 60),
        ("60, knowledge.search=5", "127.0.0.1", 5, 60),
        ("knowledge_search=5", "0.0.0.0", 5, 0),
    ],
)
def test_limits_of_tools_are_off_on_loopback_unless_set(given: str, host: str, search: int, post: int):
    environ = {"PALAVER_HOST": host} | ({"PALAVER_TOOL_LIMITS": given} if given else {})
    settings = load(environ=environ)
    assert rate_limits.limit_of(settings, "knowledge.search") == search
    assert rate_limits.limit_of(settings, "msg_post") == post


@pytest.mark.parametrize("given", ["many", "-1", "msg_post=", "1,,2"])
def test_limits_of_tools_that_cannot_be_read_are_refused(given: str):
    with pytest.raises(Invalid, match="PALAVER_TOOL_LIMITS"):
        load(environ={"PALAVER_TOOL_LIMITS": given})


def test_the_limit_counts_an_agent_under_all_of_its_names(strict: httpx.Client):
    thread, mcp, name = Thread(strict), Mcp(strict), word("Ann")
    agent = mcp.call("bus_connect", thread_name=thread.topic, display_name=name)["agent"]
    for author in (agent["id"], name, None):
        mcp.call("msg_post", thread_id=thread.id, content="x", author=author)
    assert mcp.refused("msg_post", thread_id=thread.id, content="x", author=agent["slug"])["error"] == "RATE_LIMITED"


def test_the_size_of_images_can_be_set(strict: httpx.Client):
    assert strict.post("/api/upload/image", files={"file": ("a.png", PNG)}).status_code == 200
    assert strict.post("/api/upload/image", files={"file": ("a.png", PNG + b"\0" * 1024)}).status_code == 413


def test_the_language_can_be_set(strict: httpx.Client):
    assert strict.get("/api/config").json()["preferred_language"] == "Deutsch"


def test_without_a_rate_limit_posts_are_never_refused(thread: Thread):
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(lambda n: thread.post(str(n)), range(100)))) == 100


# Resources and prompts


def test_the_bus_can_be_read_as_resources(api: httpx.Client, mcp: Mcp, thread: Thread):
    thread.post("hello", role="assistant")
    uris = [r["uri"] for r in mcp.ask("resources/list")["resources"] if r["uri"].startswith("chat://")]
    assert uris == ["chat://bus/config", "chat://agents/active", "chat://threads/active", "chat://inbox"]
    templates = [r["uriTemplate"] for r in mcp.ask("resources/templates/list")["resourceTemplates"]]
    templates = [template for template in templates if template.startswith("chat://")]
    assert templates == [f"chat://threads/{{id}}/{what}" for what in ("transcript", "summary", "state")]
    assert json.loads(mcp.read("chat://bus/config")) == mcp.call("bus_get_config")
    agent = mcp.call("agent_register", display_name=word())
    assert agent["id"] in [a["id"] for a in json.loads(mcp.read("chat://agents/active"))]
    assert thread.id in [t["thread_id"] for t in json.loads(mcp.read("chat://threads/active"))]
    base = f"chat://threads/{thread.id}"
    assert inside(mcp.read(f"{base}/transcript")) == f"# {thread.topic} [discuss]\n\n[seq=1] ann (assistant): hello"
    assert "No summary" in mcp.read(f"{base}/summary")
    mcp.call("thread_update", thread_id=thread.id, summary="We agreed.")
    assert inside(mcp.read(f"{base}/summary")) == "We agreed."
    state = json.loads(mcp.read(f"{base}/state"))
    assert state == {
        "thread_id": thread.id,
        "topic": thread.topic,
        "status": "discuss",
        "latest_seq": 1,
        "created_at": api.get(thread.path).json()["created_at"],
    }


def test_the_inbox_is_a_resource(api: httpx.Client, mcp: Mcp, thread: Thread):
    agent = mcp.call("bus_connect", thread_name=thread.topic)["agent"]
    thread.post(f"@{agent['slug']} the parser drops the last line")
    thread.post("@nobody-else something else")
    question = mcp.call("ask_human", text="May I deploy?", wait_s=0)["question_id"]
    inbox = json.loads(inside(mcp.read("chat://inbox")))
    assert [one["text"] for one in inbox["messages"]] == [f"@{agent['slug']} the parser drops the last line"]
    assert [one["question_id"] for one in inbox["questions"]] == [question]
    other = Mcp(api)
    other.call("bus_connect", thread_name=thread.topic)
    assert json.loads(inside(other.read("chat://inbox"))) == {"messages": [], "questions": []}


@pytest.mark.parametrize(
    "uri", ["chat://threads/no-such/transcript", "chat://nothing", "file:///etc/passwd", "chat://threads/a/b/c"]
)
def test_an_unknown_resource_is_an_error_that_names_it(mcp: Mcp, uri: str):
    error = mcp.exchange("resources/read", uri=uri)["error"]
    assert error["code"] == -32602
    assert "not found" in error["message"]


def test_prompts_are_filled_in(mcp: Mcp):
    names = [p["name"] for p in mcp.ask("prompts/list")["prompts"]]
    built_in = ["summarize_thread", "handoff_to_agent", "catchup", "recall", "handoff", "standup"]
    assert names[:6] == built_in  # what follows is in the library
    given = {"topic": "§transcript§ {topic}", "transcript": "ann: hello"}
    (message,) = mcp.ask("prompts/get", name="summarize_thread", arguments=given)["messages"]
    assert inside(message["content"]["text"]) == "Topic: §transcript§ {topic}\n\nann: hello"
    given = {
        "from_agent": "ann",
        "to_agent": "bob",
        "task_description": "paint ¶ it",
        "context": "¶ §task_description§",
    }
    (message,) = mcp.ask("prompts/get", name="handoff_to_agent", arguments=given)["messages"]
    assert inside(message["content"]["text"]) == "¶ §task_description§"
    assert "Task: paint ¶ it\n" in message["content"]["text"]
    for name, arguments in (("summarize_thread", {"topic": "x"}), ("no-such", {})):
        assert mcp.exchange("prompts/get", name=name, arguments=arguments)["error"]["code"] == -32602
