"""Calls of palaver's own tools, and what they gave back, are left out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.importers.samples import answered, item, jsonl, meta, text, tool_use, typed
from tests.importers.shapes import all_of, file_item, item_of, told
from tests.importers.test_cursor import database
from tests.importers.test_gemini import META, NAME, message

from palaver.importers import ReadProgress
from palaver.importers.coding_agents import claude_code, codex, cursor, gemini
from palaver.importers.coding_agents.own_calls import is_own_tool

SESSION = "0b5e2f6e-6a3e-4c1c-9a53-5d1f6e2c7a10"


@pytest.mark.parametrize(
    "name",
    [
        "mcp__palaver__msg_post",
        "mcp__Palaver__knowledge_search",
        "mcp__my_palaver__msg_post",
        "mcp__plugin_palaver_palaver__conversation_search_own",
        "palaver__msg_post",
        "mcp_palaver_msg_post",
        "mcp_user-palaver_msg_post",
        "palaver_msg_post",
        "palaver/msg_post",
        "palaver.msg_post",
    ],
)
def test_palavers_own_tools_are_known_by_their_server(name: str):
    assert is_own_tool(name)


@pytest.mark.parametrize(
    "name",
    [
        "Bash",
        "mcp__github__palaver_search",
        "github__find_palaver",
        "mcp_github_palaver",
        "search",
        "palaver",
        "",
        None,
        7,
    ],
)
def test_other_tools_are_not(name: Any):
    assert not is_own_tool(name)
    assert is_own_tool(name, "palaver")


def said(reader: Any, name: str, *lines: dict[str, Any]) -> list[tuple[str, str]]:
    """Read line by line, with the reading kept in between as `palaver watch` keeps it."""
    reading = reader.begin(Path(name))
    found = []
    for line in lines:
        found += [(one.role, one.text) for one in reader.read_line(jsonl(line), reading)]
        reading = ReadProgress(**orjson.loads(orjson.dumps(reading)))
    return found


def test_claude_code_keeps_what_was_typed_and_answered_around_its_calls_of_palaver():
    own = tool_use("mcp__palaver__knowledge_search", query="ivy")
    other = tool_use("Bash", command="ls")
    own["id"], other["id"] = "own", "other"
    results = [
        {"type": "tool_result", "tool_use_id": id, "content": content}
        for id, content in (("own", "an old ivy"), ("other", "ivy.txt"))
    ]
    asked, answer, came = typed("Where is it?"), answered(text("I ask palaver."), own, other), typed(results)
    lines = [asked, answer, came, answered(text("Here."))]
    assert said(claude_code, f"{SESSION}.jsonl", *lines) == [
        ("user", "Where is it?"),
        ("assistant", "I ask palaver."),
        ("tool", '[tool Bash] {"command":"ls"}'),
        ("tool", "ivy.txt"),
        ("assistant", "Here."),
    ]
    reading = claude_code.begin(Path(f"{SESSION}.jsonl"))
    ids = [one.id.rpartition(".")[2] for one in claude_code.read_line(jsonl(answer), reading)]
    assert ids == [answer["uuid"], "2"]  # what is left out keeps its number


def test_claude_code_loading_palavers_tools_is_left_out_too():
    own = tool_use("ToolSearch", query="select:mcp__palaver__msg_post,mcp__palaver__msg_wait", max_results=2)
    other = tool_use("ToolSearch", query="select:mcp__github__list_issues")
    found = said(claude_code, f"{SESSION}.jsonl", answered(text("I load them."), own, other))
    assert [role for role, _ in found] == ["assistant", "tool"]
    assert "github" in found[1][1]


@pytest.mark.parametrize(
    "call",
    [
        {"name": "palaver__msg_post"},
        {"name": "mcp__palaver__msg_post"},
        {"name": "msg_post", "namespace": "mcp__palaver__"},
    ],
)
def test_codex_leaves_out_its_calls_of_palaver(call: dict[str, Any]):
    lines = [
        meta("t"),
        item("function_call", call_id="own", arguments="{}", **call),
        item("function_call", call_id="other", name="shell", arguments="{}"),
        item("function_call_output", call_id="own", output="posted ivy"),
        item("function_call_output", call_id="other", output="ivy.txt"),
    ]
    assert said(codex, "rollout-2025-10-03T09-15-20-t.jsonl", *lines) == [
        ("tool", "[tool shell] {}"),
        ("tool", "ivy.txt"),
    ]


@pytest.mark.parametrize(
    "call",
    [
        {"name": "mcp_palaver_msg_post"},
        {"name": "palaver__msg_post"},
        {"name": "msg_post", "displayName": "msg_post (palaver MCP Server)"},
    ],
)
def test_gemini_leaves_out_its_calls_of_palaver(call: dict[str, Any]):
    tool = {"id": "t", "args": {"a": 1}, "resultDisplay": "posted", **call}
    (found,), _ = all_of(gemini, item_of(jsonl(META, message("1", "gemini", "I post.", toolCalls=[tool])), NAME))
    assert told(found) == [("assistant", "I post.")]


def test_what_gemini_saved_under_a_name_has_no_calls_of_palaver():
    turns = [
        {
            "role": "model",
            "parts": [{"text": "I post."}, {"functionCall": {"name": "mcp_palaver_msg_post", "args": {}}}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "mcp_palaver_msg_post", "response": {"output": "x"}}}],
        },
    ]
    (found,), _ = all_of(gemini, item_of(orjson.dumps(turns), "checkpoint-a.json"))
    assert told(found) == [("assistant", "I post.")]


@pytest.mark.parametrize(
    "call",
    [
        {"name": "mcp_palaver_msg_post", "rawArgs": "{}"},
        {"name": "call_mcp_tool", "rawArgs": '{"server":"palaver","toolName":"msg_post"}'},
    ],
)
def test_cursor_leaves_out_its_calls_of_palaver(tmp_path: Path, call: dict[str, Any]):
    path = tmp_path / "state.vscdb"
    bubble = {"type": 2, "bubbleId": "b", "text": "I post.", "toolFormerData": {"result": "posted", **call}}
    database(path, {"composerData:c": {"conversation": [bubble]}}).close()
    (found,), _ = all_of(cursor, file_item(path))
    assert told(found) == [("assistant", "I post.")]


# Projects


def test_gemini_knows_its_project_from_the_file_beside_its_chats(tmp_path: Path):
    chats = tmp_path / "garden" / "chats"
    chats.mkdir(parents=True)
    path = chats / NAME
    path.write_bytes(jsonl(META, message("1", "user", "hello")))
    (found,), _ = all_of(gemini, file_item(path))
    assert found.project is None
    (tmp_path / "garden" / ".project_root").write_text("/nowhere/garden\n")
    (found,), _ = all_of(gemini, file_item(path))
    assert found.project == "/nowhere/garden"
    (tmp_path / "secret").write_text("a secret outside")
    (tmp_path / "garden" / ".project_root").unlink()
    (tmp_path / "garden" / ".project_root").symlink_to(tmp_path / "secret")  # a link may lead out of the folder
    (found,), _ = all_of(gemini, file_item(path))
    assert found.project is None


def test_gemini_knows_its_project_from_its_directories():
    about = META | {"directories": ["/nowhere/more", "/nowhere/garden"]}
    (found,), _ = all_of(gemini, item_of(jsonl(about, message("1", "user", "hello")), NAME))
    assert found.project == "/nowhere/more"
    about["projectHash"] = hashlib.sha256(b"/nowhere/garden").hexdigest()
    (found,), _ = all_of(gemini, item_of(jsonl(about, message("1", "user", "hello")), NAME))
    assert found.project == "/nowhere/garden"


@pytest.mark.parametrize(
    "about, bubble, project",
    [
        ({}, {"workspaceProjectDir": "/nowhere/garden"}, "/nowhere/garden"),
        ({}, {"workspaceUris": ["file:///nowhere/my%20garden"]}, "/nowhere/my garden"),
        ({}, {"workspaceUris": ["vscode-remote://ssh/nowhere"]}, None),
        ({}, {"workspaceUris": ["file:///c%3A/src/garden"]}, "c:/src/garden"),
        ({"workspaceIdentifier": {"uri": {"fsPath": "/nowhere/garden"}}}, {}, "/nowhere/garden"),
        ({}, {}, None),
    ],
)
def test_cursor_knows_its_project_from_its_workspace(
    tmp_path: Path, about: dict[str, Any], bubble: dict[str, Any], project: str | None
):
    path = tmp_path / "state.vscdb"
    bubbles = [{"type": 1, "bubbleId": "a", "text": "hello"}, {"type": 2, "bubbleId": "b", "text": "hi", **bubble}]
    database(path, {"composerData:c": {"conversation": bubbles, **about}}).close()
    (found,), _ = all_of(cursor, file_item(path))
    assert found.project == project
    if project is None:
        (tmp_path / "workspace.json").write_text('{"folder": "file:///nowhere/beside"}')
        (found,), _ = all_of(cursor, file_item(path))
        assert found.project == "/nowhere/beside"
