"""The same question through every door has the same answer, on both engines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.conftest import ONE_ENGINE, Engine
from tests.helpers import Mcp, Server, Thread, eventually, inside, started_with, word
from tests.mcp_clients import DOORS, through

from palaver.operations import OPERATIONS

READING = {
    "bus_get_config", "thread_list", "thread_get", "msg_list", "msg_get", "msg_wait", "msg_edit_history", "msg_search",
    "agent_list", "template_list", "template_get",
}  # fmt: skip
pytestmark = pytest.mark.on_postgres(door=["http-2025", "stdio", "stdio-alone"])
"""The protocols do not depend on the engine. Only a process on stdio opens the database itself."""

BUS = {tool.name: operation for operation in OPERATIONS for tool in operation.tools if tool.toolset == "bus"}


@pytest.fixture(scope="module", params=DOORS)
def door(request: pytest.FixtureRequest, server: Server, api: httpx.Client) -> Iterator[Mcp]:
    """One way in for agents; whatever uses it runs through all of them."""
    with through(request.param, server, api) as client:
        client.door = request.param  # type: ignore[attr-defined]
        yield client


@pytest.fixture(scope="module")
def talk(api: httpx.Client) -> dict[str, Any]:
    """A thread in which all sorts of things have happened."""
    thread = Thread(api)
    agent = api.post("/api/agents/register", json={"display_name": word("Ann")}).json()
    first = thread.post(f"hello {(unique := word())} <b>&", mentions=["bob"], metadata={"a": [1, {"b": None}]})
    thread.post("the answer", reply_to_msg_id=first["id"], priority="high", author=agent["id"])
    api.put(f"/api/messages/{first['id']}", json={"content": f"hello again {unique}"})
    api.post(f"/api/messages/{first['id']}/reactions", json={"reaction": "agree", "agent_id": agent["id"]})
    template = api.post("/api/templates", json={"id": word("t"), "name": "Mine"}).json()
    return {"thread": thread, "message": first["id"], "word": unique, "agent": agent, "template": template["id"]}


QUESTIONS = [
    ("bus_get_config", {}, "/api/config"),
    ("thread_get", {"thread_id": "{thread}"}, "/api/threads/{thread}"),
    ("thread_list", {"limit": 3}, "/api/threads?limit=3"),
    ("thread_list", {"status": "review", "include_archived": True}, "/api/threads?status=review&include_archived=true"),
    ("msg_get", {"message_id": "{message}"}, "/api/messages/{message}"),
    ("msg_edit_history", {"message_id": "{message}"}, "/api/messages/{message}/history"),
    ("msg_search", {"query": "{word}"}, "/api/search?q={word}"),
    (
        "msg_search",
        {"query": "{word}", "limit": 0, "thread_id": "{thread}"},
        "/api/search?q={word}&limit=0&thread_id={thread}",
    ),
    ("msg_search", {"query": "*"}, "/api/search?q=*"),
    ("msg_search", {"query": "x", "thread_id": "nowhere"}, "/api/search?q=x&thread_id=nowhere"),
    ("template_get", {"template_id": "{template}"}, "/api/templates/{template}"),
]
LISTS = [
    ("msg_list", {"thread_id": "{thread}"}, "/api/threads/{thread}/messages", "messages"),
    (
        "msg_list",
        {"thread_id": "{thread}", "after_seq": 1, "limit": 1},
        "/api/threads/{thread}/messages?after_seq=1&limit=1",
        "messages",
    ),
    ("agent_list", {}, "/api/agents", "agents"),
    ("template_list", {}, "/api/templates", "templates"),
]


def filled(talk: dict[str, Any], text: Any) -> Any:
    names = {k: v.id if k == "thread" else v for k, v in talk.items() if k != "agent"}
    return text.format(**names) if isinstance(text, str) else text


@pytest.mark.parametrize("tool, arguments, path", QUESTIONS)
def test_a_tool_and_its_route_give_the_same_answer(
    api: httpx.Client, door: Mcp, talk: dict[str, Any], tool: str, arguments: dict[str, Any], path: str
):
    given = {name: filled(talk, value) for name, value in arguments.items()}
    assert door.call(tool, given) == api.get(filled(talk, path)).json()


def lasting(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what time changes: agents of other tests may fall silent between two calls."""
    changing = {"is_online", "last_activity", "last_activity_time"}
    return [{key: value for key, value in one.items() if key not in changing} for one in found]


@pytest.mark.parametrize("tool, arguments, path, field", LISTS)
def test_a_list_over_rest_is_the_list_in_the_tools_answer(
    api: httpx.Client, door: Mcp, talk: dict[str, Any], tool: str, arguments: dict[str, Any], path: str, field: str
):
    given = {name: filled(talk, value) for name, value in arguments.items()}
    assert lasting(door.call(tool, given)[field]) == lasting(api.get(filled(talk, path)).json())


def test_what_is_done_through_one_door_is_seen_through_the_others(api: httpx.Client, door: Mcp, mcp: Mcp):
    topic = f"topic {word()}"
    connected = door.call("bus_connect", thread_name=topic, display_name=word("Ann"))
    thread_id, agent_id = connected["thread"]["thread_id"], connected["agent"]["agent_id"]
    posted = door.call("msg_post", thread_id=thread_id, content="hello", author=agent_id)
    reaction = door.call("msg_react", message_id=posted["id"], agent_id=agent_id, reaction="agree")
    edited = door.call("msg_edit", message_id=posted["id"], content=f"hello {(unique := word())}")
    (seen,) = api.get(f"/api/threads/{thread_id}/messages").json()
    assert seen == {
        **posted,
        "content": edited["content"],
        "edited_at": edited["edited_at"],
        "edit_version": 1,
        "reactions": [{"id": reaction["reaction_id"], **{k: v for k, v in reaction.items() if k != "reaction_id"}}],
    }
    assert mcp.call("msg_search", query=unique)["total"] == 1
    deleted = door.call("msg_delete", message_id=posted["id"])
    assert (deleted["deleted"], api.get(f"/api/threads/{thread_id}/messages").json()) == (True, [])


def test_whoever_waits_behind_one_door_is_woken_through_another(api: httpx.Client, door: Mcp):
    thread = Thread(api)
    agent = door.call("agent_register", display_name=word())
    who = {"agent_id": agent["agent_id"], "token": agent["token"]}

    def is_waiting() -> bool:
        return any(a["waiting_in"] == thread.id for a in api.get("/api/agents").json())

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(door.call, "msg_wait", {"thread_id": thread.id, "timeout_ms": 30_000, **who})
        eventually(is_waiting)
        message = thread.post("wake up")
        assert waiting.result(10)["messages"] == [message]


LOST = "Message 'no-such' not found. List the messages of its thread, or search for it."

ERRORS = [
    ("msg_search", {"query": ""}, {"error": "query must not be empty"}),
    (
        "msg_get",
        {"message_id": "no-such"},
        {"error": "MESSAGE_NOT_FOUND", "message_id": "no-such", "message": LOST},
    ),
    ("msg_search", {"qeury": "x"}, {"error": "Unknown argument 'qeury'. Did you mean 'query'?"}),
    ("msg_search", {"query": 5}, {"error": "query: must be text."}),
    ("msg_search", {}, {"error": "query: is required."}),
    ("thread_get", {"thread_id": None}, {"error": "thread_id: is required."}),
]


@ONE_ENGINE
@pytest.mark.parametrize("tool, arguments, expected", ERRORS)
def test_an_error_is_the_same_through_every_door(door: Mcp, tool: str, arguments: dict[str, Any], expected: dict):
    answer = door.answer(tool, arguments)
    assert (answer.value, answer.is_error) == (expected, True)


@ONE_ENGINE
def test_an_unknown_tool_is_a_protocol_error(mcp: Mcp):
    said = mcp.exchange("tools/call", name="msg_serch", arguments={})["error"]
    assert said == {"code": -32602, "message": "There is no tool 'msg_serch'. Did you mean 'msg_search'?"}


def test_human_only_messages_are_masked_behind_every_door(api: httpx.Client, door: Mcp):
    thread, secret = Thread(api), word("secret")
    message = thread.post(secret, metadata={"visibility": "human_only"})
    answers = [
        door.call("msg_list", thread_id=thread.id),
        door.call("msg_get", message_id=message["id"]),
        door.call("msg_search", query=secret)["results"],
    ]
    assert "[human-only content hidden]" in str(answers)
    assert secret not in str(answers)
    assert secret not in door.read(f"chat://threads/{thread.id}/transcript")


def test_resources_are_the_same_behind_every_door(door: Mcp, mcp: Mcp, talk: dict[str, Any]):
    base = f"chat://threads/{talk['thread'].id}"
    assert inside(door.read(f"{base}/transcript")) == inside(mcp.read(f"{base}/transcript"))
    for what in ("summary", "state"):
        assert door.read(f"{base}/{what}") == mcp.read(f"{base}/{what}")
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        (one,), (other,) = (
            [value for value in client.ask(method).values() if isinstance(value, list)] for client in (door, mcp)
        )
        assert one == other


# The list of tools


def tools(client: Mcp) -> list[dict[str, Any]]:
    return list(client.ask("tools/list")["tools"])


def test_the_list_of_tools_is_the_same_behind_every_door_and_every_time(door: Mcp, mcp: Mcp):
    assert tools(door) == tools(door) == tools(mcp)


@pytest.fixture(scope="module")
def listed(api: httpx.Client) -> list[dict[str, Any]]:
    return tools(Mcp(api))


@ONE_ENGINE
def test_the_tools_of_the_bus_are_those_of_the_contract(listed: list[dict[str, Any]]):
    names = [tool["name"] for tool in listed]
    assert len(set(names)) == len(names)
    assert set(BUS) <= set(names)
    assert set(BUS) == {
        "bus_connect", "bus_get_config",
        *(f"thread_{verb}" for verb in ("create", "list", "get", "update", "close", "archive", "delete")),
        *(f"msg_{verb}" for verb in ("post", "list", "get", "wait", "edit", "edit_history", "search", "react", "unreact", "delete")),
        *(f"agent_{verb}" for verb in ("register", "resume", "heartbeat", "list", "update", "unregister")),
        *(f"template_{verb}" for verb in ("list", "get", "create")), "ask_human", "handoff",
    }  # fmt: skip


@ONE_ENGINE
def test_every_tool_is_named_and_described_so_that_all_clients_take_it(listed: list[dict[str, Any]]):
    for tool in listed:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"])
        assert tool["description"]
        if tool["name"] in BUS:
            assert (tool["name"], tool["annotations"]["readOnlyHint"]) == (tool["name"], tool["name"] in READING)
        is_text = tool["name"] in (
            "conversation_search",
            "catch_up",
            "why",
            "fix",
        )  # they answer in text, and nothing else
        assert ("outputSchema" in tool) is not is_text
        for schema in (tool["inputSchema"],) if is_text else (tool["inputSchema"], tool["outputSchema"]):
            assert schema["type"] == "object"
            jsonschema.Draft202012Validator.check_schema(schema)
        assert tool["inputSchema"].get("additionalProperties", False) is False
        for name, field in tool["inputSchema"].get("properties", {}).items():
            assert field.get("description") or field.get("enum"), f"{tool['name']}.{name} says nothing about itself"


@ONE_ENGINE
def test_tools_that_delete_say_so(listed: list[dict[str, Any]]):
    destructive = {t["name"] for t in listed if t["annotations"].get("destructiveHint")}
    assert {"thread_delete", "msg_delete"} <= destructive
    assert not destructive & {"msg_post", "msg_react", "bus_connect", "thread_create"}


@ONE_ENGINE
@pytest.mark.parametrize("way_in", DOORS[:3])
def test_a_client_can_ask_for_some_groups_of_tools_only(server: Server, api: httpx.Client, way_in: str):
    with through(way_in, server, api, "?tools=bus") as client:
        assert {tool["name"] for tool in tools(client)} == set(BUS)
    for both in ("?tools=archive,%20sessions", "?tools=archive&tools=sessions"):
        with through(way_in, server, api, both) as client:
            assert {tool["name"] for tool in tools(client)} == {
                "conversation_search",
                "conversation_search_own",
                "session_append",
            }
    with through(way_in, server, api, "?tools=Notes_Search,msg.post,CONVERSATION.search") as client:
        assert {tool["name"] for tool in tools(client)} == {"notes_search", "msg_post", "conversation_search_own"}


def test_every_tool_has_an_example_here():
    assert set(EXAMPLES) == set(BUS)


def _connected(talk: dict[str, Any]) -> dict[str, Any]:
    return {"agent_id": talk["agent"]["agent_id"], "token": talk["agent"]["token"]}


def _recorded(talk: dict[str, Any]) -> str:
    """The id of a session of the agent."""
    turns = f"/api/v1/agents/{talk['agent']['agent_id']}/sessions/{(session := word())}/messages"
    talk["thread"].api.post(turns, json={"role": "user", "content": "Write umlauts into the CSV export"})
    return session


EXAMPLES: dict[str, Any] = {
    "bus_connect": lambda t: {"thread_name": t["thread"].topic, **_connected(t)},
    "bus_get_config": lambda t: {},
    "thread_create": lambda t: {"topic": word(), "template": "brainstorm", "metadata": {"a": 1}},
    "thread_list": lambda t: {},
    "thread_get": lambda t: {"thread_id": t["thread"].id},
    "thread_update": lambda t: {"thread_id": t["thread"].id, "summary": word()},
    "thread_close": lambda t: {"thread_id": Thread(t["thread"].api).id},
    "thread_archive": lambda t: {"thread_id": Thread(t["thread"].api).id},
    "thread_delete": lambda t: {"thread_id": Thread(t["thread"].api).id},
    "msg_post": lambda t: {"thread_id": t["thread"].id, "content": "x", "mentions": ["a"], "metadata": {"b": [None]}},
    "msg_list": lambda t: {"thread_id": t["thread"].id},
    "msg_get": lambda t: {"message_id": t["message"]},
    "msg_wait": lambda t: {"thread_id": t["thread"].id},
    "msg_edit": lambda t: {"message_id": t["thread"].post("x")["id"], "content": "y"},
    "msg_edit_history": lambda t: {"message_id": t["message"]},
    "msg_search": lambda t: {"query": t["word"]},
    "msg_react": lambda t: {"message_id": t["message"], "agent_id": "a", "reaction": word()},
    "msg_unreact": lambda t: {"message_id": t["message"], "agent_id": "a", "reaction": "never"},
    "msg_delete": lambda t: {"message_id": t["thread"].post("x")["id"]},
    "handoff": lambda t: {"session": _recorded(t), **_connected(t)},
    "ask_human": lambda t: {"text": "go on?", "wait_s": 0, **_connected(t)},
    "agent_register": lambda t: {"skills": [{"id": "s"}], "capabilities": ["c"]},
    "agent_resume": _connected,
    "agent_heartbeat": _connected,
    "agent_list": lambda t: {},
    "agent_update": lambda t: {**_connected(t), "description": "d"},
    "agent_unregister": _connected,
    "template_list": lambda t: {},
    "template_get": lambda t: {"template_id": "brainstorm"},
    "template_create": lambda t: {"id": word("t"), "name": "x"},
}


@pytest.mark.parametrize("tool", sorted(EXAMPLES))
def test_every_answer_is_what_its_schema_says_and_takes_null_for_absent(
    mcp: Mcp, listed: list[dict[str, Any]], talk: dict[str, Any], tool: str
):
    (schema,) = (t["outputSchema"] for t in listed if t["name"] == tool)
    (asked,) = (t["inputSchema"] for t in listed if t["name"] == tool)
    for fill in ({}, dict.fromkeys(asked.get("properties", {}))):
        given = EXAMPLES[tool](talk)
        jsonschema.Draft202012Validator(asked).validate(given)
        answer = mcp.call(tool, {**fill, **given})
        jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(answer)
        assert set(schema.get("required", ())) <= set(answer) <= set(schema.get("properties", answer))


@ONE_ENGINE
@pytest.mark.parametrize("tool", sorted(EXAMPLES))
def test_an_unknown_argument_is_refused_by_name(mcp: Mcp, talk: dict[str, Any], tool: str):
    for intruder in ("user_id", "workspace", "db_path", "xyzzy"):
        answer = mcp.refused(tool, {**EXAMPLES[tool](talk), intruder: "x"})
        assert answer["error"].startswith(f"Unknown argument '{intruder}'.")


def test_the_commands_of_a_terminal_reach_the_same_data(
    engine: Engine, server: Server, api: httpx.Client, talk: dict[str, Any]
):
    done = started_with(server.env, "--json", "search", talk["word"])
    by_rest = api.get("/api/search", params={"q": talk["word"]}).json()
    assert [hit["message_id"] for hit in json.loads(done.stdout)["results"]] == [talk["message"]]
    assert json.loads(done.stdout)["total"] == by_rest["total"] == 1
