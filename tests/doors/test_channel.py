"""`palaver mcp --channel`: a message to the agent reaches Claude Code as a notification, which begins a turn."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from mcp_types import METHOD_NOT_FOUND
from tests.catchup.test_wake import Desk
from tests.doors.test_mcp_pipe import Stdio, is_pipe, stdio
from tests.helpers import (
    PATIENCE,
    Server,
    Thread,
    environment,
    eventually,
    free_port,
    palaver_command,
    start_server,
    word,
)

from palaver.text.hook_text import WOKEN

CHANNEL: dict[str, Any] = {"claude/channel": {}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp("channel")) as server:
        yield server


def post(server: Server, content: str) -> str:
    """A person posts a message. Returns its id."""
    with server.client() as api:
        return str(Thread(api).post(content, author="ann")["id"])


def receipt(server: Server, message: str) -> dict[str, Any]:
    with server.client() as api:
        (found,) = api.get(f"/api/messages/{message}/receipts").json()["receipts"]
    return dict(found)


def reaches(server: Server, message: str, *states: str) -> dict[str, Any]:
    """The receipt of a message as soon as it has one of these states."""
    eventually(lambda: receipt(server, message)["state"] in states)
    return receipt(server, message)


def is_there(server: Server, agent: str) -> bool:
    with server.client() as api:
        return agent in {one["slug"] for one in api.get("/api/agents").json()}


def heard(client: Stdio) -> str:
    """The text of the next thing that the client hears, which must be a notification of the channel."""
    said = client.hear()
    assert said["method"] == "notifications/claude/channel"
    assert all(isinstance(value, str) for value in said["params"].get("meta", {}).values())
    return str(said["params"]["content"])


def is_there_for_one_of(waiting: Future[Any], client: Stdio) -> None:
    """A receipt may say that a message was delivered before it has come through the door."""
    eventually(lambda: waiting.done() or client.has_spoken())


@pytest.mark.parametrize("way", [(), ("--alone",)], ids=["pipe", "alone"])
def test_each_message_is_one_notification_in_the_fence(running: Server, way: tuple[str, ...]):
    name = word("zoe-")
    with stdio(running.home, "--channel", "--agent", name, *way) as client:
        assert is_pipe(client) is not bool(way)
        assert client.greeting["capabilities"]["experimental"] == CHANNEL
        assert "<channel" in client.greeting["instructions"]
        eventually(lambda: is_there(running, name))
        for said in ("the lighthouse is dark", "the lamp is lit"):
            message = post(running, f"@{name} {said}")
            first, mark, line, end = heard(client).split("\n")
            assert first == WOKEN
            assert mark.split()[1].rstrip(":") == end.rstrip("]").split()[-1]
            assert "person ann" in line
            assert line.endswith(f"@{name} {said}")
            assert reaches(running, message, "read")["way"] == "wake"


def test_without_the_option_nothing_is_pushed(running: Server):
    name = word("zoe-")
    with stdio(running.home, "--agent", name) as client:
        assert "experimental" not in client.greeting["capabilities"]
        client.call("msg_post", thread_id=client.call("thread_create", topic=word())["thread_id"], content="I am here")
        message = post(running, f"@{name} the lighthouse is dark")
        assert receipt(running, message)["state"] in ("stored", "not_reached")


def test_claude_code_is_kept_from_the_revision_without_channels(running: Server):
    """It asks with server/discover first, and begins with the handshake if that is unknown."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "claude-code", "version": "2"}}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}},
        {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": about},
    ]
    done = subprocess.run(
        palaver_command("mcp", "--channel"), env=environment(running.home), cwd=running.home, capture_output=True,
        input="".join(json.dumps(one) + "\n" for one in asked), text=True, timeout=PATIENCE,
    )  # fmt: skip
    refused, greeting = map(json.loads, done.stdout.splitlines())
    assert refused["error"]["code"] == METHOD_NOT_FOUND
    assert greeting["result"]["capabilities"]["experimental"] == CHANNEL


def test_messages_arrive_after_a_restart_of_the_server(tmp_path: Path):
    port, name = free_port(), word("zoe-")
    with contextlib.ExitStack() as stack:
        with start_server(tmp_path, port=port) as server:
            client = stack.enter_context(stdio(tmp_path, "--channel", "--agent", name))
            eventually(lambda: is_there(server, name))
            post(server, f"@{name} before")
            assert "before" in heard(client)
        with start_server(tmp_path, port=port) as server:
            post(server, f"@{name} after")
            assert "after" in heard(client)


def test_an_agent_that_connects_later_is_called_from_then_on(running: Server):
    with stdio(running.home, "--channel") as client:
        agent = client.call("bus_connect", thread_name=word(), display_name=word("Zoe"))["agent"]
        post(running, f"@{agent['name']} the lighthouse is dark")
        assert "lighthouse" in heard(client)


def test_a_session_with_hooks_gets_a_message_once(running: Server):
    """At work the channel brings it. Idle, its waiter or the channel does."""
    desk = Desk(running, client="tests", project=str(running.home))
    with stdio(running.home, "--channel") as client:
        desk.report("prompt")
        post(running, f"@{desk.agent} the lighthouse is dark")
        assert "lighthouse" in heard(client)
        assert desk.report("stop")["text"] == ""
        waiting = desk.held()
        for number in range(5):
            message = post(running, f"@{desk.agent} lamp {number}")
            reaches(running, message, "delivered", "read")
            is_there_for_one_of(waiting, client)
            if waiting.done():
                assert f"lamp {number}" in waiting.result()["text"]
                assert desk.report("stop")["text"] == ""
                waiting = desk.held()
            else:
                assert f"lamp {number}" in heard(client)
        assert desk.report("prompt")["text"] == ""
        assert client.ask("ping") == {}
