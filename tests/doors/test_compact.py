"""What MCP costs a model: small tool lists, compact answers, and how to ask for more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.helpers import EVERYTHING, Mcp, Thread, started
from tests.tokens import count_tokens, tool_tokens

from palaver.operations import OPERATIONS, toolsets

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True, scope="session")

SPECIFIED = {
    "msg_search", "msg_react", "msg_unreact", "msg_list", "msg_wait", "bus_connect", "conversation_search",
    "conversation_search_own", "media_transcript",
    *(f"{source}_{verb}" for source in ("notes", "media", "chats", "characters", "prompts", "knowledge")
      for verb in ("search", "get")),
}  # fmt: skip


def listed(api: httpx.Client, query: str = "") -> list[dict[str, Any]]:
    return list(Mcp(api, f"/mcp{query}").ask("tools/list")["tools"])


# The lists


@pytest.mark.parametrize(
    "query, tools, tokens", [("", 32, 5_000), ("?tools=core", 12, 2_500), ("?tools=CORE", 12, 2_500)]
)
def test_a_tool_list_keeps_to_its_size(api: httpx.Client, query: str, tools: int, tokens: int):
    found = listed(api, query)
    assert len(found) <= tools
    assert sum(tool_tokens(tool) for tool in found) <= tokens
    assert not any("outputSchema" in tool for tool in found)


def test_the_default_has_every_tool_of_the_specifications(api: httpx.Client):
    names = {tool["name"] for tool in listed(api)}
    assert names >= SPECIFIED | {
        "msg_post",
        "msg_edit",
        "thread_create",
        "thread_list",
        "session_append",
        "notes_create",
    }
    assert {tool["name"] for tool in listed(api, "?tools=core")} < names
    assert {tool["name"] for tool in listed(api, "?tools=standard")} == names
    assert names < {tool["name"] for tool in listed(api, "?tools=all")}


def test_groups_and_single_tools_are_named_in_any_case(api: httpx.Client):
    core = {tool["name"] for tool in listed(api, "?tools=core")}
    assert {tool["name"] for tool in listed(api, "?tools=Core,THREAD_delete&tools=notes.update")} == core | {
        "thread_delete",
        "notes_update",
    }


@pytest.mark.parametrize("query", ["?tools=cor", "?tools=core,nonsense", "?answers=short"])
def test_an_unknown_name_in_the_address_is_an_error_that_lists_the_known_ones(api: httpx.Client, query: str):
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    response = api.post(f"/mcp{query}", json=asked, headers={"accept": "application/json, text/event-stream"})
    assert response.status_code == 400
    said = response.json()["error"]["message"]
    assert "compact or full" in said if "answers" in query else ("core, standard, all" in said and "msg_post" in said)


def test_an_unknown_toolset_in_the_settings_is_told_at_the_start(api: httpx.Client, tmp_path: Path):
    for command in (("serve", "--port", "0"), ("mcp",)):
        done = started(tmp_path, *command, PALAVER_TOOLSETS="core,nonsense")
        assert (done.returncode, "'nonsense'" in done.stderr, "core, standard" in done.stderr) == (2, True, True)


def test_every_tool_can_be_called_whether_listed_or_not(api: httpx.Client):
    client = Mcp(api, "/mcp?tools=msg_post")
    names = [tool.plain_name for operation in OPERATIONS for tool in operation.tools]
    for name in names:
        result = client.ask("tools/call", name=name, arguments={"xyzzy": 1})
        assert result["isError"]
    assert {tool["name"] for tool in listed(api, "?tools=msg_post")} == {"msg_post"}


def test_every_argument_of_a_compact_schema_is_known(api: httpx.Client):
    """What a schema lists is accepted; what it leaves out is named in the tool's `hidden`."""
    tools = {tool.plain_name: (operation, tool) for operation in OPERATIONS for tool in operation.tools}
    for found in listed(api, "?tools=all"):
        operation, tool = tools[found["name"]]
        shown, known = set(found["inputSchema"].get("properties", {})), set(operation.request.model_fields)
        hidden = {name for name in tool.hidden if "." not in name}
        assert known - shown == hidden | ({tool.instead} if tool.instead else set())
        assert shown - known <= {"agent_id", "token"}
        assert {name.partition(".")[0] for name in tool.hidden} <= known


# The answers


def test_a_short_message_costs_little_beside_its_text(api: httpx.Client, thread: Thread):
    texts = [f"short message number {n}" for n in range(50)]
    for text in texts:
        thread.post(text, author="Claude Code")
    client = Mcp(api, "/mcp")
    answer = client.answer("msg_list", thread_id=thread.id).raw["content"][0]["text"]
    around = count_tokens(answer) - sum(count_tokens(text) for text in texts)
    assert around / len(texts) <= 60
    connected = client.answer("bus_connect", thread_name=thread.topic).raw["content"][0]["text"]
    assert len(connected) < 12_000
    full = Mcp(api, "/mcp?answers=full").answer("bus_connect", thread_name=thread.topic).raw["content"][0]["text"]
    assert len(full) > 2 * len(connected)


def test_a_compact_message_has_what_is_there_and_nothing_twice(api: httpx.Client, thread: Thread):
    client = Mcp(api, "/mcp")
    first = thread.post("hello")
    plain = {"id": first["id"], "seq": 1, "author": "ann", "created_at": first["created_at"][:19] + "Z"}
    plain |= {"content": "hello", "reactions": []}
    answer = client.call("msg_list", thread_id=thread.id)
    assert answer["messages"] == [plain]
    assert (answer["thread_id"], answer["current_seq"], answer["has_more"]) == (thread.id, 1, False)
    assert client.call("msg_get", message_id=first["id"]) == {**plain, "thread_id": thread.id}
    thread.post(
        "again", priority="high", mentions=["bob"], reply_to_msg_id=first["id"], metadata={"a": None}, role="tool"
    )
    reaction = client.call("msg_react", message_id=first["id"], agent_id="bob", reaction="agree")
    reaction["id"] = reaction.pop("reaction_id")
    client.call("msg_edit", message_id=first["id"], content="hello there")
    one, two = client.call("msg_wait", thread_id=thread.id, timeout_ms=0)["messages"]
    assert one["reactions"] == [reaction]
    assert (one["edit_version"], one["content"]) == (1, "hello there")
    assert {name: two[name] for name in ("priority", "mentions", "reply_to_msg_id", "metadata", "role")} == {
        "priority": "high",
        "mentions": ["bob"],
        "reply_to_msg_id": first["id"],
        "metadata": {"a": None},
        "role": "tool",
    }


def test_full_objects_come_by_the_address_or_by_the_call(api: httpx.Client, thread: Thread):
    message = thread.post("hello")
    assert Mcp(api, "/mcp?answers=full").call("msg_list", thread_id=thread.id)["messages"] == [message]
    client = Mcp(api, "/mcp")
    assert client.call("msg_list", thread_id=thread.id, verbose=True)["messages"] == [message]
    assert client.call("msg_list", thread_id=thread.id, verbose=False)["messages"] != [message]
    assert "verbose" in client.refused("msg_list", thread_id=thread.id, verbose="yes")["error"]


@pytest.mark.parametrize("answers", ["compact", "full"])
def test_answers_are_what_the_listed_output_schemas_say(api: httpx.Client, thread: Thread, answers: str):
    message = thread.post("hello")
    client = Mcp(api, f"/mcp?schemas=output&tools=all&answers={answers}")
    schemas = {tool["name"]: tool.get("outputSchema") for tool in client.ask("tools/list")["tools"]}
    for tool, arguments in (
        ("bus_connect", {"thread_name": thread.topic}),
        ("msg_list", {"thread_id": thread.id}),
        ("msg_wait", {"thread_id": thread.id, "timeout_ms": 0}),
        ("msg_get", {"message_id": message["id"]}),
        ("msg_post", {"thread_id": thread.id, "content": "x"}),
        ("thread_list", {}),
        ("agent_list", {}),
    ):
        jsonschema.validate(client.call(tool, arguments), schemas[tool])


def test_messages_keep_to_a_budget_and_say_how_to_get_the_rest(api: httpx.Client, thread: Thread):
    for n in range(30):
        thread.post(f"{n} " + "word " * 400)
    client = Mcp(api, "/mcp")
    connected = client.call("bus_connect", thread_name=thread.topic)
    assert count_tokens(json.dumps(connected)) < 5_000
    assert connected["truncated"] is True
    first = connected["messages"][0]["seq"]
    assert f"before_seq={first}" in connected["hint"]
    assert connected["messages"][-1]["seq"] == 30
    seqs: list[int] = []
    while True:
        page = client.call("msg_list", thread_id=thread.id, after_seq=seqs[-1] if seqs else 0)
        assert count_tokens(json.dumps(page)) < 8_000
        seqs += [message["seq"] for message in page["messages"]]
        if not page["has_more"]:
            break
        assert f"after_seq={seqs[-1]}" in page["hint"]
    assert seqs == list(range(1, 31))
    more = client.call("msg_list", thread_id=thread.id, max_tokens=200_000)
    assert (len(more["messages"]), more["has_more"]) == (30, False)


def test_a_huge_message_is_cut_and_msg_get_gives_it_whole(api: httpx.Client, thread: Thread):
    text = "漢字 " * 100_000
    message = thread.post(text)
    client = Mcp(api, "/mcp")
    (shown,) = client.call("msg_list", thread_id=thread.id)["messages"]
    assert len(shown["content"]) < 30_000
    assert "msg_get" in shown["content"]
    assert client.call("msg_get", message_id=message["id"])["content"] == text


def test_a_stale_seq_carries_the_missed_messages_in_its_text(api: httpx.Client, thread: Thread):
    for n in range(40):
        thread.post(f"missed {n} " + "word " * 300)
    result = Mcp(api, "/mcp").answer("msg_post", thread_id=thread.id, content="x", expected_last_seq=0)
    assert (result.is_error, result.value["error"], result.value["current_seq"]) == (True, "SEQ_MISMATCH", 40)
    assert "structuredContent" not in result.raw
    assert result.value["new_messages"][-1]["content"].startswith("missed 39")
    assert "before_seq" in result.value["hint"]
    stale = {"thread_id": thread.id, "content": "x", "expected_last_seq": 0}
    for whole in (
        Mcp(api, EVERYTHING).refused("msg_post", stale),
        Mcp(api, "/mcp").refused("msg_post", stale, verbose=True),
    ):
        assert len(whole["new_messages"]) == 40


def test_core_and_standard_name_tools_that_exist(api: httpx.Client):
    for names in (toolsets.CORE, toolsets.STANDARD):
        assert set(toolsets.select_tools(names)) == set(names)
