"""Cline: `tasks/<task>/ui_messages.json` of its editor extension and its command line.

Seen with CLI 2.18 (core 3.82). Further messages of the user, questions and plans were not in the files seen; their form
is from the program's source.

Kept, each with its time as id, in the order of the file: the task, messages, commands, and the output of commands and
MCP tools. Contents of files that a tool read are not in this file.

Left out: requests to the model, messages that are not finished (`partial`), questions of the program such as whether to
go on, and checkpoints.

The project is the folder in `state/taskHistory.json`, beside `tasks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from palaver.importers import Unreadable, object_in, objects_of, storable_text, tool_result
from palaver.importers.coding_agents.own_calls import is_own_tool
from palaver.importers.files.streams import open_beside
from palaver.importers.item import Item, RawConversation, RawMessage, Skipped, parse_any_time, tool_call_or_none
from palaver.importers.library.item_text import parse_json, read_session
from palaver.model.library import Conversation
from palaver.text.tool_output import ToolOutput

name = "cline"
session_names = ("ui_messages.json",)

LONGEST_HISTORY = 32 * 1024 * 1024
_SPOKEN = {
    "task": "user",
    "user_feedback": "user",
    "text": "assistant",
    "completion_result": "assistant",
    "plan_mode_respond": "assistant",
    "followup": "assistant",
}


def recognises(item: Item, head: bytes) -> bool:
    start = head.lstrip()
    return item.file_name in session_names and start.startswith(b"[") and b'"say"' in start and b'"ts"' in start


def last_change(item: Item) -> int:
    return 0


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    messages = objects_of(parse_json(read_session(item)))
    task = item.path.parent.name if item.path else item.name.rpartition("/")[0].rpartition("/")[2]
    about = _history(item, task)
    folder = storable_text(about.get("cwdOnTaskInitialization"))
    yield from RawConversation(task, _said(messages, item.tool_output), folder=folder).build(item.name, name)


def _history(item: Item, task: str) -> dict[str, Any]:
    """The entry of a task in the list of tasks."""
    if item.path is None:
        return {}
    with suppress(OSError, Unreadable), open_beside(item.path.parents[2] / "state" / "taskHistory.json") as file:
        entries = objects_of(parse_json(file.read(LONGEST_HISTORY)))
        return next((one for one in entries if one.get("id") == task), {})
    return {}


def _said(messages: list[dict[str, Any]], kept: ToolOutput) -> Iterator[RawMessage]:
    is_own = False
    for message in messages:
        kind, text = message.get("say") or message.get("ask"), message.get("text")
        if message.get("partial") is True or not isinstance(kind, str):
            continue
        id, at = message.get("ts"), parse_any_time(message.get("ts"))
        match kind:
            case kind if kind in _SPOKEN:
                # Questions and plans are objects with their text in a field.
                given = object_in(text) if kind in ("plan_mode_respond", "followup") else None
                said = (given.get("response") or given.get("question")) if given else text
                yield RawMessage(id, _SPOKEN[kind], said, at)
            case "command":
                yield RawMessage(id, "tool", tool_call_or_none("execute_command", {"command": text}, kept), at)
            case "command_output":
                yield RawMessage(id, "tool", tool_result(text, kept), at)
            case "tool":
                call = object_in(text)
                given = {key: value for key, value in call.items() if key not in ("tool", "content")}
                yield RawMessage(id, "tool", tool_call_or_none(call.get("tool"), given, kept), at)
            case "use_mcp_server":
                call = object_in(text)
                is_own = is_own_tool(call.get("toolName"), call.get("serverName"))
                if not is_own:
                    shown = f"{call.get('serverName')}.{call.get('toolName') or call.get('uri')}"
                    yield RawMessage(id, "tool", tool_call_or_none(shown, call.get("arguments"), kept), at)
            case "mcp_server_response" if not is_own:
                yield RawMessage(id, "tool", tool_result(text, kept), at)
