"""What the official conformance suite asks of a server, without the suite: `make conformance` runs the whole of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import anyio.from_thread
import httpx
import mcp_types as types
import pytest
from mcp.client.client import Client
from tests.conformance.run import BEFORE
from tests.helpers import Server, start_server

NOW = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": NOW,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the suite's fixtures."""
    with start_server(tmp_path_factory.mktemp("fitted"), before=BEFORE) as server:
        yield server


@pytest.fixture(scope="module")
def door(fitted: Server) -> Iterator[httpx.Client]:
    with fitted.client() as client:
        yield client


def ask(
    door: httpx.Client, method: str, meta: dict[str, Any] | None = META, headers: dict[str, str] | None = None, **params
) -> tuple[int, dict[str, Any]]:
    """A stateless request, the headers of which say what its body says unless told otherwise."""
    said = {"accept": "application/json, text/event-stream", "mcp-protocol-version": NOW, "mcp-method": method}
    if named := params.get("name") or params.get("uri"):
        said["mcp-name"] = named
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, **({"_meta": meta} if meta else {})}}
    response = door.post("/mcp", json=body, headers=said | (headers or {}))
    if response.headers["content-type"].startswith("text/event-stream"):
        frames = [json.loads(line[5:]) for line in response.text.split("\n") if line.startswith("data:")]
        return response.status_code, next(frame for frame in frames if frame.get("id") == 7)
    return response.status_code, response.json()


@pytest.mark.parametrize(
    "meta, headers, code",
    [
        (None, {}, -32602),
        ({**META, "io.modelcontextprotocol/clientCapabilities": None}, {}, -32602),
        ({**META, "io.modelcontextprotocol/protocolVersion": "v999"}, {"mcp-protocol-version": "v999"}, -32022),
        ({**META, "io.modelcontextprotocol/protocolVersion": "v999"}, {}, -32020),
        (META, {"mcp-method": "tools/call"}, -32020),
    ],
    ids=["no meta", "no capabilities", "unknown version", "another version in the header", "another method"],
)
def test_a_stateless_request_must_say_what_it_is(door: httpx.Client, meta: Any, headers: dict[str, str], code: int):
    status, answer = ask(door, "tools/list", meta, headers)
    assert (status, answer["error"]["code"], answer["id"]) == (400, code, 7), answer


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"])
def test_what_the_stateless_era_does_not_know_is_404(door: httpx.Client, method: str):
    status, answer = ask(door, method)
    assert (status, answer["error"]["code"], answer["id"]) == (404, -32601, 7)


@pytest.mark.parametrize(
    "method, given, ttl, scope",
    [
        ("server/discover", {}, 300_000, "public"),
        ("tools/list", {}, 300_000, "private"),
        ("resources/list", {}, 300_000, "public"),
        ("resources/templates/list", {}, 300_000, "public"),
        ("prompts/list", {}, 60_000, "private"),
        ("resources/read", {"uri": "media://types"}, 60_000, "private"),
        ("resources/read", {"uri": "chat://threads/active"}, 0, "private"),
    ],
)
def test_an_answer_says_how_long_it_may_be_kept(
    door: httpx.Client, method: str, given: dict[str, Any], ttl: int, scope: str
):
    _, answer = ask(door, method, **given)
    assert (answer["result"]["ttlMs"], answer["result"]["cacheScope"]) == (ttl, scope)


def test_a_resource_that_is_not_there_is_named_in_the_error(door: httpx.Client):
    status, answer = ask(door, "resources/read", uri="test://not-there")
    assert (status, answer["error"]["code"]) == (400, -32602)
    assert answer["error"]["data"] == {"uri": "test://not-there"}


def test_a_capability_the_client_has_not_is_not_relied_on(door: httpx.Client):
    status, answer = ask(door, "tools/call", name="test_missing_capability", arguments={})
    assert (status, answer["error"]["code"]) == (400, -32021)
    assert answer["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}


def test_a_question_back_to_the_client_is_answered_with_the_state_it_came_with(door: httpx.Client):
    able = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    tool: dict[str, Any] = {"name": "test_input_required_result_request_state", "arguments": {}}
    _, asked = ask(door, "tools/call", able, **tool)
    assert asked["result"]["resultType"] == "input_required"
    given = {"confirm": {"action": "accept", "content": {"ok": True}}}
    state = asked["result"]["requestState"]
    _, done = ask(door, "tools/call", able, **tool, inputResponses=given, requestState=state)
    assert done["result"]["content"][0]["text"] == "state-ok"
    _, forged = ask(door, "tools/call", able, **tool, inputResponses=given, requestState=state + "x")
    assert forged["error"]["code"] == -32602


def test_who_listens_is_told_what_it_asked_for_and_nothing_else(door: httpx.Client):
    body = {"jsonrpc": "2.0", "id": "here", "method": "subscriptions/listen"}
    params = {"_meta": META, "notifications": {"toolsListChanged": True}}
    said = {"accept": "text/event-stream, application/json", "mcp-protocol-version": NOW, "mcp-method": body["method"]}
    with door.stream("POST", "/mcp", json={**body, "params": params}, headers=said) as response:
        frames = (json.loads(line[5:]) for line in response.iter_lines() if line.startswith("data:"))
        assert next(frames)["method"] == "notifications/subscriptions/acknowledged"
        for tool in ("test_trigger_prompt_change", "test_trigger_tool_change"):
            ask(door, "tools/call", name=tool, arguments={})
        heard = next(frames)
    assert heard["method"] == "notifications/tools/list_changed"
    assert heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "here"


@pytest.mark.parametrize("version", ["2025-11-25", NOW])
def test_a_tool_that_takes_a_while_says_so(fitted: Server, version: str):
    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async def call() -> types.CallToolResult:
        mode: Any = "legacy" if version < NOW else version
        async with Client(f"{fitted.url}/mcp", mode=mode) as client:
            return await client.call_tool("test_tool_with_progress", {}, progress_callback=hear)

    with anyio.from_thread.start_blocking_portal() as portal:
        result = portal.call(call)
    assert isinstance(result.content[0], types.TextContent)
    assert result.content[0].text == "Done."
    assert len(told) >= 3
    assert all(one < other for one, other in itertools.pairwise(told))


def test_a_session_can_be_asked_back_while_it_calls(fitted: Server):
    async def sample(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Paris"), model="m")

    async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"username": "ann", "email": "ann@example.org"})

    async def both() -> list[str]:
        async with Client(
            f"{fitted.url}/mcp", mode="legacy", sampling_callback=sample, elicitation_callback=elicit
        ) as client:
            answers = [
                await client.call_tool("test_sampling", {"prompt": "What is the capital of France?"}),
                await client.call_tool("test_elicitation", {"message": "Who are you?"}),
            ]
        return [content.text for answer in answers for content in answer.content if content.type == "text"]

    with anyio.from_thread.start_blocking_portal() as portal:
        sampled, elicited = portal.call(both)
    assert sampled == "LLM response: Paris"
    assert "action=accept" in elicited
    assert "ann@example.org" in elicited


@pytest.mark.parametrize(
    "headers, status",
    [({"host": "evil.example.com"}, 403), ({"origin": "http://evil.example.com"}, 403), ({"host": "localhost"}, 200)],
)
def test_a_name_that_points_here_does_not_come_in(door: httpx.Client, headers: dict[str, str], status: int):
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    said = {"accept": "application/json, text/event-stream", **headers}
    assert door.post("/mcp", json=body, headers=said).status_code == status
