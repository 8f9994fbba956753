"""Reactions, sentence by sentence, through both doors, on both engines."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.conftest import Engine, Restarted
from tests.helpers import Mcp, Thread, Told, listen, word

from palaver.app import App
from palaver.model.people import Caller
from palaver.operations.bus.messages import ListMessages, list_messages
from palaver.operations.bus.waiting import WaitForMessages
from palaver.settings import Settings
from palaver.store.engines.database import Reader

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@pytest.fixture
def message(thread: Thread) -> dict[str, Any]:
    return thread.post("what do you think?")


@pytest.fixture
def path(message: dict[str, Any]) -> str:
    return f"/api/messages/{message['id']}/reactions"


@pytest.fixture
def agent(api: httpx.Client) -> dict[str, Any]:
    """An agent that is registered, with the name others see."""
    about = {"ide": "Cursor", "model": "claude-sonnet", "display_name": f"Cursor {word()}"}
    return dict(api.post("/api/agents/register", json=about).json())


def react(api: httpx.Client, path: str, reaction: str, agent_id: str | None = "agent-1") -> dict[str, Any]:
    response = api.post(path, json={"agent_id": agent_id, "reaction": reaction})
    assert response.status_code == 201, response.text
    return dict(response.json())


def labels(api: httpx.Client, path: str) -> list[str]:
    return [r["reaction"] for r in api.get(path).json()]


# Data model


def test_a_reaction_has_exactly_these_fields(api: httpx.Client, path: str, message: dict[str, Any], agent: dict):
    reaction = react(api, path, "agree", agent["id"])
    assert re.fullmatch(UUID, reaction["id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", reaction["created_at"])
    assert reaction == {
        "id": reaction["id"],
        "message_id": message["id"],
        "agent_id": agent["id"],
        "agent_name": agent["display_name"],
        "reaction": "agree",
        "created_at": reaction["created_at"],
    }


def test_reactions_are_stored_persistently(restarted: Restarted):
    path = f"/api/messages/{restarted.message['id']}/reactions"
    assert restarted.api.get(path).json() == [restarted.reaction]


def test_the_name_is_the_display_name_at_the_time_of_reacting(
    api: httpx.Client, mcp: Mcp, path: str, agent: dict[str, Any]
):
    react(api, path, "before", agent["id"])
    new_name = f"Renamed {word()}"
    mcp.call("agent_update", agent_id=agent["id"], token=agent["token"], display_name=new_name)
    react(api, path, "after", agent["id"])
    names = {r["reaction"]: r["agent_name"] for r in api.get(path).json()}
    assert names == {"before": agent["display_name"], "after": new_name}
    assert react(api, path, "before", agent["id"])["agent_name"] == agent["display_name"]


def test_an_agent_without_a_display_name_reacts_under_its_name(api: httpx.Client, path: str):
    agent = api.post("/api/agents/register", json={"ide": "Cursor", "model": word()}).json()
    assert react(api, path, "agree", agent["id"])["agent_name"] == agent["name"]


def test_an_unknown_agent_may_react_and_has_no_name(api: httpx.Client, path: str):
    reaction = react(api, path, "agree", "somebody-unknown")
    assert (reaction["agent_id"], reaction["agent_name"]) == ("somebody-unknown", None)


def test_different_labels_agents_and_messages_are_different_reactions(api: httpx.Client, thread: Thread):
    one, other = (f"/api/messages/{thread.post(text)['id']}/reactions" for text in ("one", "other"))
    ids = {
        react(api, path, label, agent)["id"]
        for path in (one, other)
        for label in ("agree", "done")
        for agent in ("agent-1", "agent-2", None)
    }
    assert len(ids) == 12
    assert len(api.get(one).json()) == len(api.get(other).json()) == 6


def test_uniqueness_is_case_sensitive(api: httpx.Client, path: str):
    assert react(api, path, "Agree")["id"] != react(api, path, "agree")["id"]
    assert labels(api, path) == ["Agree", "agree"]


# Idempotency


def test_reacting_twice_returns_the_existing_reaction(api: httpx.Client, mcp: Mcp, path: str, message: dict):
    first = react(api, path, "agree")
    assert react(api, path, "agree") == first
    tool = mcp.call("msg_react", message_id=message["id"], agent_id="agent-1", reaction="agree")
    assert tool["reaction_id"] == first["id"]
    assert api.get(path).json() == [first]


def test_reacting_anonymously_is_allowed_over_rest_and_idempotent(api: httpx.Client, path: str):
    first = react(api, path, "agree", None)
    assert (first["agent_id"], first["agent_name"]) == (None, None)
    for nobody in ({}, {"agent_id": ""}, {"agent_id": "  "}):
        again = api.post(path, json={**nobody, "reaction": "agree"})
        assert (again.status_code, again.json()) == (201, first)
    removed = api.delete(f"{path}/agree").json()
    assert (removed["removed"], removed["agent_id"]) == (True, None)
    assert api.delete(f"{path}/agree").json()["removed"] is False


def test_many_at_once_are_still_one_reaction(api: httpx.Client, path: str):
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: react(api, path, "agree")["id"], range(24)))
    assert len(ids) == 1
    assert len(api.get(path).json()) == 1


def test_taking_off_what_is_not_there_is_no_error(api: httpx.Client, mcp: Mcp, path: str, message: dict):
    response = api.delete(f"{path}/agree", params={"agent_id": "agent-1"})
    assert (response.status_code, response.json()) == (
        200,
        {"removed": False, "message_id": message["id"], "reaction": "agree", "agent_id": "agent-1"},
    )
    assert mcp.call("msg_unreact", message_id=message["id"], agent_id="agent-1", reaction="agree") == {
        "removed": False,
        "message_id": message["id"],
        "reaction": "agree",
    }


def test_one_agent_does_not_take_off_the_label_of_another(api: httpx.Client, path: str):
    react(api, path, "agree", "agent-1")
    assert api.delete(f"{path}/agree", params={"agent_id": "agent-2"}).json()["removed"] is False
    assert api.delete(f"{path}/agree").json()["removed"] is False
    assert labels(api, path) == ["agree"]


# MCP tools


def test_msg_react_answers_with_exactly_these_fields(mcp: Mcp, message: dict[str, Any], agent: dict[str, Any]):
    answer = mcp.call("msg_react", message_id=message["id"], agent_id=agent["id"], reaction="agree")
    assert answer == {
        "reaction_id": answer["reaction_id"],
        "message_id": message["id"],
        "agent_id": agent["id"],
        "agent_name": agent["display_name"],
        "reaction": "agree",
        "created_at": answer["created_at"],
    }
    assert re.fullmatch(UUID, answer["reaction_id"])


def test_msg_react_on_an_unknown_message_says_so(mcp: Mcp):
    answer = mcp.refused("msg_react", message_id="nonexistent-id", agent_id="agent-1", reaction="agree")
    assert answer.pop("message")
    assert answer == {"error": "MESSAGE_NOT_FOUND", "message_id": "nonexistent-id"}


def test_msg_unreact_answers_with_exactly_these_fields(mcp: Mcp, message: dict[str, Any]):
    asked = {"message_id": message["id"], "agent_id": "agent-1", "reaction": "agree"}
    mcp.call("msg_react", asked)
    gone = {"message_id": message["id"], "reaction": "agree"}
    assert mcp.call("msg_unreact", asked) == {"removed": True, **gone}
    assert mcp.call("msg_unreact", asked) == {"removed": False, **gone}


def test_unreact_on_an_unknown_message_removes_nothing(api: httpx.Client, mcp: Mcp):
    response = api.delete("/api/messages/nonexistent-id/reactions/agree", params={"agent_id": "agent-1"})
    assert (response.status_code, response.json()) == (
        200,
        {"removed": False, "message_id": "nonexistent-id", "reaction": "agree", "agent_id": "agent-1"},
    )
    asked = {"message_id": "nonexistent-id", "agent_id": "agent-1", "reaction": "agree"}
    assert mcp.call("msg_unreact", asked)["removed"] is False


@pytest.mark.parametrize("tool", ["msg_react", "msg_unreact"])
@pytest.mark.parametrize("left_out", ["message_id", "agent_id", "reaction"])
def test_all_three_arguments_are_required_as_a_tool(mcp: Mcp, message: dict[str, Any], tool: str, left_out: str):
    asked = {"message_id": message["id"], "agent_id": "agent-1", "reaction": "agree"}
    del asked[left_out]
    assert left_out in mcp.refused(tool, asked)["error"]
    (listed,) = (t for t in mcp.ask("tools/list")["tools"] if t["name"] == tool)
    assert sorted(listed["inputSchema"]["required"]) == ["agent_id", "message_id", "reaction"]


def test_an_empty_agent_id_is_as_good_as_none_as_a_tool(mcp: Mcp, message: dict[str, Any]):
    for tool in ("msg_react", "msg_unreact"):
        refused = mcp.refused(tool, message_id=message["id"], reaction="agree", agent_id="")
        assert refused == {"error": "agent_id: is required."}


def test_a_connected_agent_need_not_name_itself(mcp: Mcp, message: dict[str, Any]):
    agent = mcp.call("bus_connect", thread_name=f"topic {word()}")["agent"]
    answer = mcp.call("msg_react", message_id=message["id"], reaction="agree")
    assert answer["agent_id"] == agent["agent_id"]


# REST


def test_posting_a_reaction_is_201(api: httpx.Client, path: str):
    for _ in range(2):
        assert api.post(path, json={"agent_id": "agent-1", "reaction": "agree"}).status_code == 201


def test_deleting_a_reaction_answers_with_exactly_these_fields(api: httpx.Client, path: str, message: dict[str, Any]):
    react(api, path, "agree")
    response = api.delete(f"{path}/agree", params={"agent_id": "agent-1"})
    assert (response.status_code, response.json()) == (
        200,
        {"removed": True, "message_id": message["id"], "reaction": "agree", "agent_id": "agent-1"},
    )
    assert api.get(path).json() == []


def test_agent_id_is_passed_in_the_request_body_or_query_string(api: httpx.Client, path: str):
    for body, query in (({"agent_id": "agent-1"}, None), (None, {"agent_id": "agent-1"})):
        api.post(path, json={"agent_id": "agent-1", "reaction": "agree"})
        answer = api.request("DELETE", f"{path}/agree", json=body, params=query).json()
        assert (answer["removed"], answer["agent_id"]) == (True, "agent-1")
        posted = api.post(path, json={**(body or {}), "reaction": "done"}, params=query)
        assert (posted.status_code, posted.json()["agent_id"]) == (201, "agent-1")
    both = api.post(path, json={"agent_id": "in the body", "reaction": "done"}, params={"agent_id": "elsewhere"})
    assert both.json()["agent_id"] == "in the body"


def test_reactions_are_listed_oldest_first_as_a_plain_list(api: httpx.Client, path: str):
    posted = [react(api, path, label, agent) for label, agent in (("zeta", "z"), ("alpha", "b"), ("mid", "a"))]
    response = api.get(path)
    assert (response.status_code, response.json()) == (200, posted)
    assert [r["created_at"] for r in posted] == sorted(r["created_at"] for r in posted)


def test_a_reaction_put_on_again_goes_to_the_end(api: httpx.Client, path: str):
    for label in ("one", "two", "three"):
        react(api, path, label)
    api.delete(f"{path}/one", params={"agent_id": "agent-1"})
    react(api, path, "one")
    assert labels(api, path) == ["two", "three", "one"]


def test_a_message_without_reactions_has_an_empty_list(api: httpx.Client, path: str):
    assert api.get(path).json() == []


def test_an_unknown_message_is_404(api: httpx.Client):
    path = "/api/messages/nonexistent-id/reactions"
    for response in (api.get(path), api.post(path, json={"agent_id": "a", "reaction": "agree"})):
        assert response.status_code == 404
        assert "nonexistent-id" in response.json()["detail"]


def test_a_deleted_message_is_404_and_its_reactions_are_gone(api: httpx.Client, path: str, message: dict[str, Any]):
    react(api, path, "agree")
    api.delete(f"/api/messages/{message['id']}")
    assert api.get(path).status_code == 404
    assert api.post(path, json={"reaction": "agree"}).status_code == 404
    assert api.delete(f"{path}/agree", params={"agent_id": "agent-1"}).json()["removed"] is False


@pytest.mark.parametrize("label", ["", " ", "\t\n", "\u3000\u00a0"])
def test_an_empty_label_is_refused_with_these_words(api: httpx.Client, mcp: Mcp, path: str, message: dict, label: str):
    said = "Reaction must be non-empty: send a short label such as agree, or an emoji."
    response = api.post(path, json={"agent_id": "agent-1", "reaction": label})
    assert (response.status_code, response.json()) == (400, {"detail": said})
    answer = mcp.refused("msg_react", message_id=message["id"], agent_id="agent-1", reaction=label)
    assert answer == {"error": said}
    assert api.get(path).json() == []


def test_an_empty_label_is_refused_even_on_an_unknown_message(api: httpx.Client):
    assert api.post("/api/messages/nonexistent-id/reactions", json={"reaction": " "}).status_code == 400


# Labels


def test_labels_are_trimmed(api: httpx.Client, mcp: Mcp, path: str, message: dict[str, Any]):
    first = react(api, path, "  agree\n")
    assert first["reaction"] == "agree"
    assert react(api, path, "agree") == first
    answer = mcp.call("msg_unreact", message_id=message["id"], agent_id="agent-1", reaction=" agree ")
    assert (answer["removed"], answer["reaction"]) == (True, "agree")


def test_a_label_has_at_most_64_characters(api: httpx.Client, mcp: Mcp, path: str, message: dict[str, Any]):
    assert react(api, path, "x" * 64)["reaction"] == "x" * 64
    assert react(api, path, "👍" * 64)["reaction"] == "👍" * 64
    assert react(api, path, " " + "y" * 64 + " ")["reaction"] == "y" * 64
    for label in ("x" * 65, "👍" * 65, "x" * 10_000):
        response = api.post(path, json={"reaction": label})
        assert response.status_code == 400
        said = f"Reaction must be at most 64 characters long; this one has {len(label):,}."
        assert response.json()["detail"] == said
        assert mcp.refused("msg_react", message_id=message["id"], agent_id="a", reaction=label)["error"] == said
    assert len(api.get(path).json()) == 3


@pytest.mark.parametrize(
    "label",
    [
        "👍",
        "❌",
        "🔥",
        "👩‍👩‍👧‍👦",
        "très bien",
        "同意",
        "a b",
        "50%",
        "a?b#c",
        "a/b",
        "/",
        "//",
        "a/../b",
        "&=+",
        '"<b>"',
        "\\",
        "%2F",
        "two\nlines",
    ],
)
def test_any_text_is_a_label_and_can_be_taken_off_again(api: httpx.Client, mcp: Mcp, thread: Thread, label: str):
    message_id = thread.post("hello")["id"]
    path = f"/api/messages/{message_id}/reactions"
    assert react(api, path, label)["reaction"] == label
    assert labels(api, path) == [label]
    # Not through the client's own idea of a path: it would shorten 'a/../b' before sending it.
    request = api.build_request("DELETE", f"{path}/x?agent_id=agent-1")
    request.url = request.url.copy_with(raw_path=f"{path}/{quote(label, safe='')}?agent_id=agent-1".encode())
    removed = api.send(request)
    assert removed.status_code == 200, removed.text
    assert (removed.json()["removed"], removed.json()["reaction"]) == (True, label)
    assert labels(api, path) == []


def test_taking_off_the_label_two_dots_does_not_delete_the_message(
    api: httpx.Client, path: str, message: dict[str, Any]
):
    """A browser makes /api/messages/ID/ of /api/messages/ID/reactions/.. before anybody sees it."""
    react(api, path, "..", None)
    response = api.delete(f"/api/messages/{message['id']}/", follow_redirects=True)
    assert response.status_code == 404
    assert labels(api, path) == [".."]


def test_a_slash_in_a_label_works_unquoted_too(api: httpx.Client, path: str):
    react(api, path, "yes/no")
    assert api.delete(f"{path}/yes/no", params={"agent_id": "agent-1"}).json()["removed"] is True


# Reactions in listings


def test_messages_carry_their_reactions_wherever_they_are_listed(
    api: httpx.Client, mcp: Mcp, thread: Thread, message: dict[str, Any], path: str
):
    reactions = [react(api, path, "agree", "a"), react(api, path, "important", "b"), react(api, path, "agree", None)]
    plain = thread.post("no reactions here")
    expected = [{**message, "reactions": reactions}, plain]
    assert plain["reactions"] == []
    assert thread.messages() == expected
    assert mcp.call("msg_list", thread_id=thread.id)["messages"] == expected
    assert mcp.call("msg_wait", thread_id=thread.id, after_seq=0)["messages"] == expected
    assert api.get(f"{thread.path}/wait").json()["messages"] == expected
    assert api.get(f"/api/messages/{message['id']}").json() == expected[0]
    assert mcp.call("msg_get", message_id=message["id"]) == expected[0]
    assert mcp.call("bus_connect", thread_name=thread.topic)["messages"] == expected


@pytest.mark.parametrize("answers", ["compact", "full"])
def test_a_reaction_in_a_listing_has_all_six_fields(api: httpx.Client, thread: Thread, path: str, answers: str):
    """'Each reaction is an independent record with id, message_id, agent_id, agent_name, reaction, created_at'."""
    reactions = [react(api, path, "agree", "a"), react(api, path, "agree", None)]
    assert all(
        set(one) == {"id", "message_id", "agent_id", "agent_name", "reaction", "created_at"} for one in reactions
    )
    client = Mcp(api, f"/mcp?answers={answers}")
    for tool, arguments in (
        ("msg_list", {"thread_id": thread.id}),
        ("msg_wait", {"thread_id": thread.id, "after_seq": 0}),
        ("bus_connect", {"thread_name": thread.topic}),
    ):
        assert client.call(tool, arguments)["messages"][0]["reactions"] == reactions
    assert client.call("msg_get", message_id=reactions[0]["message_id"])["reactions"] == reactions


def test_reactions_on_a_page_are_those_of_its_messages(api: httpx.Client, thread: Thread):
    for n in range(1, 8):
        react(api, f"/api/messages/{thread.post(str(n))['id']}/reactions", f"label-{n}")
    page = thread.messages(after_seq=2, limit=3)
    assert [[r["reaction"] for r in m["reactions"]] for m in page] == [["label-3"], ["label-4"], ["label-5"]]


class Counting:
    """A connection that counts its statements."""

    def __init__(self, connection: Any) -> None:
        self._connection, self.statements = connection, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def fetch(self, *args: Any) -> Any:
        self.statements += 1
        return self._connection.fetch(*args)


@pytest.mark.parametrize("count", [1, 40])
async def test_the_reactions_of_a_page_are_fetched_by_one_statement(engine: Engine, tmp_path: Path, count: int):
    from palaver.operations.bus import waiting
    from palaver.operations.bus.messages import PostMessage, post_message
    from palaver.operations.bus.reactions import React
    from palaver.operations.bus.reactions import react as reacting
    from palaver.operations.bus.threads import CreateThread, create_thread

    app = App(Settings(home=tmp_path, database_url=engine.fresh()))
    try:
        here, caller = await app.open(), Caller(kind="human")
        thread = await create_thread.perform(here, caller, CreateThread(topic="many"))
        for n in range(count):
            message = await post_message.perform(here, caller, PostMessage(thread_id=thread.id, content=str(n)))
            await reacting.perform(here, caller, React(message_id=message.id, reaction="agree", agent_id="a"))

        def listing(read: Reader) -> tuple[int, Any]:
            counting = Counting(read.connection)
            answer = list_messages.work(Reader(counting, read.settings), caller, ListMessages(thread_id=thread.id))
            return counting.statements, answer

        statements, answer = await here.read(listing)
        assert all(len(message.reactions) == 1 for message in answer.messages)
        assert len(answer.messages) == count
        assert statements == 3  # the thread, the messages, the reactions

        def waited(read: Reader) -> tuple[int, Any]:
            counting = Counting(read.connection)
            return counting.statements, waiting._unread(
                Reader(counting, read.settings), caller, WaitForMessages(thread_id=thread.id)
            )

        _, answer = await here.read(waited)
        assert all(len(message.reactions) == 1 for message in answer.messages)
    finally:
        await app.close()


# Events


def test_reacting_and_taking_off_tell_listeners_once_each_and_nothing_else(
    api: httpx.Client, mcp: Mcp, thread: Thread, message: dict[str, Any], path: str, agent: dict[str, Any]
):
    with listen(api, f"{thread.path}/events") as listener:
        reaction = react(api, path, "agree", agent["id"])
        react(api, path, "agree", agent["id"])
        asked = {"message_id": message["id"], "agent_id": agent["id"], "reaction": "agree"}
        mcp.call("msg_react", asked)
        mcp.call("msg_unreact", {**asked, "reaction": "never"})
        mcp.call("msg_unreact", asked)
        mcp.call("msg_unreact", asked)
        api.delete(f"{path}/agree", params={"agent_id": agent["id"]})
        told = listener.before_message(thread.post("the end")["id"])
    assert [replace(t, id=0) for t in told] == [
        Told(
            0,
            "msg.react",
            {
                "reaction_id": reaction["id"],
                "message_id": message["id"],
                "agent_id": agent["id"],
                "agent_name": agent["display_name"],
                "reaction": "agree",
                "thread_id": thread.id,
            },
        ),
        Told(
            0,
            "msg.unreact",
            {"message_id": message["id"], "agent_id": agent["id"], "reaction": "agree", "thread_id": thread.id},
        ),
    ]


def test_anonymous_reactions_are_told_once_too(api: httpx.Client, thread: Thread, path: str):
    with listen(api, f"{thread.path}/events") as listener:
        for _ in range(2):
            react(api, path, "agree", None)
        for _ in range(2):
            api.delete(f"{path}/agree")
        told = listener.before_message(thread.post("the end")["id"])
    assert [(t.type, t.data["agent_id"]) for t in told] == [("msg.react", None), ("msg.unreact", None)]


def test_a_refused_reaction_tells_nothing(api: httpx.Client, thread: Thread, path: str):
    with listen(api, f"{thread.path}/events") as listener:
        api.post(path, json={"reaction": " "})
        api.post(path, json={"reaction": "x" * 65})
        api.post("/api/messages/nonexistent-id/reactions", json={"reaction": "agree"})
        assert listener.before_message(thread.post("the end")["id"]) == []


def test_reactions_of_another_thread_are_not_heard_here(api: httpx.Client, thread: Thread, path: str):
    other = Thread(api)
    elsewhere = other.post("elsewhere")
    with listen(api, f"{thread.path}/events") as listener:
        react(api, f"/api/messages/{elsewhere['id']}/reactions", "agree")
        react(api, path, "here")
        told = listener.before_message(thread.post("the end")["id"])
    assert [(t.type, t.data["reaction"]) for t in told] == [("msg.react", "here")]


# Errors


@pytest.mark.parametrize("reaction", [None, 5, True, ["agree"], {"a": 1}])
def test_a_label_of_the_wrong_type_is_refused_by_name(
    api: httpx.Client, mcp: Mcp, path: str, message: dict, reaction: Any
):
    response = api.post(path, json={"agent_id": "agent-1", "reaction": reaction})
    assert response.status_code == 422
    assert "reaction" in response.json()["detail"]
    assert "reaction" in mcp.refused("msg_react", message_id=message["id"], agent_id="a", reaction=reaction)["error"]


@pytest.mark.parametrize("label", ["nul\x00", "\ud800"])
def test_a_label_that_cannot_be_stored_is_refused_by_name(api: httpx.Client, path: str, label: str):
    import json

    body = json.dumps({"agent_id": "agent-1", "reaction": label})
    response = api.post(path, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert "reaction" in response.json()["detail"]


def test_reacting_as_part_of_a_crowd_loses_nothing(api: httpx.Client, path: str):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: react(api, path, f"label-{n}"), range(40)))
    assert sorted(labels(api, path)) == sorted(f"label-{n}" for n in range(40))
