"""Receipts: what the sender of a message is told of each agent that it names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.catchup.test_wake import BACKGROUND, Desk, text_of
from tests.conftest import Engine
from tests.helpers import PATIENCE, Mcp, Server, Thread, eventually, listen, start_server, word
from tests.mcp_clients import Stateless


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"receipts-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def desk(place: Server) -> Desk:
    return Desk(place)


@pytest.fixture
def api(place: Server) -> Iterator[httpx.Client]:
    with place.client() as client:
        yield client


def receipts(api: httpx.Client, message: dict[str, Any], **params: Any) -> list[dict[str, Any]]:
    response = api.get(f"/api/messages/{message['id']}/receipts", params=params)
    assert response.status_code == 200, response.text
    return list(response.json()["receipts"])


def only(found: list[dict[str, Any]]) -> tuple[Any, ...]:
    (one,) = found
    return (one["state"], one["way"], one["turn"])


def test_a_receipt_follows_a_wake_to_the_answer(desk: Desk, api: httpx.Client):
    thread, waiting = Thread(api), desk.held()
    with listen(api) as heard:
        message = thread.post(f"@{desk.agent} which port?")
        assert only(message["receipts"]) == ("stored", None, None)
        assert text_of(waiting)
        assert only(receipts(api, message)) == ("delivered", "wake", None)
        desk.report("confirm")
        assert only(receipts(api, message)) == ("read", "wake", 1)
        told = [one.data for one in heard.until(lambda one: "read" in json.dumps(one.data.get("receipts", "")))]
    states = [one["receipts"][0]["state"] for one in told if "receipts" in one]
    assert states == ["stored", "read"]
    desk.report("stop")
    assert only(receipts(api, message)) == ("read", "wake", 1)
    answer = thread.post("8080", author=desk.agent)
    (found,) = receipts(api, message)
    assert (found["state"], found["answer_id"], found["way"]) == ("answered", answer["id"], "wake")


def test_a_message_that_came_while_the_agent_wrote_an_answer_is_shown_later(desk: Desk, api: httpx.Client):
    thread, waiting = Thread(api), desk.held()
    thread.post(f"@{desk.agent} which port?")
    assert text_of(waiting)
    second = thread.post(f"@{desk.agent} and which host?")
    for answer in ("8080", "As I said."):
        thread.post(answer, author=desk.agent)
    assert only(receipts(api, second)) == ("stored", None, None)
    assert "and which host?" in desk.report("stop")["text"]
    desk.report("confirm")
    assert only(receipts(api, second)) == ("read", "stop", 1)


def test_a_prompt_a_stop_and_a_briefing_are_ways_and_turns_are_counted(desk: Desk, api: httpx.Client, place: Server):
    thread = Thread(api)
    desk.report("prompt", prompt="one")
    at_stop = thread.post(f"@{desk.agent} a")
    desk.report("stop")
    desk.report("stop")
    at_prompt = thread.post(f"@{desk.agent} b")
    desk.report("prompt", prompt="two")
    assert only(receipts(api, at_prompt)) == ("delivered", "prompt", None)
    desk.report("session-end")
    at_start = thread.post(f"@{desk.agent} c")
    Desk(place, project=desk.told["project"]).report("confirm")
    found = [only(receipts(api, one)) for one in (at_stop, at_prompt, at_start)]
    assert found == [("read", "stop", 1), ("read", "prompt", 2), ("read", "briefing", 1)]


def test_a_receipt_survives_an_empty_context_and_the_message_comes_again(desk: Desk, api: httpx.Client):
    message = Thread(api).post(f"@{desk.agent} remember me")
    desk.report("prompt", prompt="one")
    desk.report("confirm")
    assert "remember me" in desk.report("session-start", source="clear")["text"]
    assert only(receipts(api, message)) == ("read", "prompt", 1)


def test_reading_the_thread_over_mcp_is_a_way(desk: Desk, api: httpx.Client):
    told = desk.briefing["text"].replace(".", " ").replace(",", " ").split()
    mcp = Mcp(api)
    thread = Thread(api)
    message = thread.post(f"@{desk.agent} look here")
    with listen(api) as heard:
        credentials = {"agent_id": told[told.index("agent_id") + 1], "token": told[told.index("token") + 1]}
        mcp.call("msg_list", thread_id=thread.id, **credentials)
        heard.until(lambda one: one.type == "msg.receipt" and one.data["receipts"][0]["state"] == "read")
    assert only(receipts(api, message)) == ("read", "mcp", None)


@pytest.mark.parametrize("label, state", [("agree", "reacted"), ("Declined", "declined")])
def test_a_reaction_is_told(desk: Desk, api: httpx.Client, label: str, state: str):
    message = Thread(api).post(f"@{desk.agent} agreed?")
    agent_id = api.get(f"/api/agents/{desk.agent}").json()["id"]
    api.post(f"/api/messages/{message['id']}/reactions", json={"agent_id": agent_id, "reaction": label})
    (found,) = receipts(api, message)
    assert (found["state"], found["reaction"]) == (state, label)


def test_the_sender_learns_at_once_whom_a_message_cannot_reach(desk: Desk, api: httpx.Client, place: Server):
    gone, removed, client = Desk(place), Desk(place), word("codex")
    gone.report("session-end")
    api.post("/api/agents/unregister", json={})
    message = Thread(api).post(f"@{desk.agent} @{removed.agent} @{gone.agent} @nobody-{client} hello")
    api.delete(f"/api/agents/{removed.agent}")
    found = {one["reason"]: one["state"] for one in receipts(api, message)}
    assert found == {
        "It is at its prompt and cannot be woken. It gets this with the next prompt.": "stored",
        "Nobody has this name.": "not_reached",
        "The agent was removed.": "not_reached",
        "No session of it runs. It reads this when one starts.": "not_reached",
    }


def test_an_agent_whose_hooks_say_nothing_is_not_reached(api: httpx.Client):
    codex = Stateless(api, "codex", path=f"/mcp?project=/nowhere/{word('p')}")
    own = codex.call("bus_connect", thread_name=word("topic "))["agent"]["slug"]
    (found,) = receipts(api, Thread(api).post(f"@{own} hello"))
    assert (found["state"], found["reason"].partition(":")[0]) == ("not_reached", "Its hooks do not report")


def test_a_hidden_message_has_no_receipts(desk: Desk, api: httpx.Client):
    message = Thread(api).post(f"@{desk.agent} secret", metadata={"visibility": "human_only"})
    assert receipts(api, message) == []


def test_a_call_waits_until_the_message_is_read(desk: Desk, api: httpx.Client):
    message = Thread(api).post(f"@{desk.agent} read me")
    waiting = BACKGROUND.submit(receipts, api, message, wait_s=60)
    desk.report("prompt", prompt="one")
    desk.report("confirm")
    assert only(waiting.result(PATIENCE)) == ("read", "prompt", 1)


def test_post_wait_read_prints_the_receipts(desk: Desk, api: httpx.Client, place: Server):
    thread = Thread(api)
    command = [
        sys.executable,
        "-m",
        "palaver",
        "post",
        thread.id,
        f"@{desk.agent} @nobody-here hi",
        "--wait-read",
        "--json",
    ]
    with subprocess.Popen(command, env=place.env, stdout=subprocess.PIPE, text=True) as posting:
        eventually(lambda: thread.messages())
        desk.report("prompt", prompt="one")
        desk.report("confirm")
        said, _ = posting.communicate(timeout=PATIENCE)
    assert sorted(one["state"] for one in json.loads(said)["receipts"]) == ["not_reached", "read"]


def test_a_message_that_nobody_read_in_time_comes_back_and_rings(desk: Desk, api: httpx.Client, place: Server):
    sender, thread = Desk(place), Thread(api)
    message = thread.post(f"@{desk.agent} urgent", author=sender.agent, return_after_s=5)
    text = text_of(sender.wait())
    assert "palaver, now: Not read in time by Claude Code in" in text
    assert thread.messages()[-1]["reply_to_msg_id"] == message["id"]
