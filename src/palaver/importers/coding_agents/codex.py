"""Codex CLI: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`, and the older files whose lines have no envelope.

Kept, each with an id of the file's thread, the number of the line and a hash of it: `response_item` lines alone (events
repeat the messages). A file that is moved, archived or read again gives the same ids; other texts give other ids.

Left out: texts that the program adds in the user's name (instructions, environment, notifications, aborted turns, shell
commands, hooks), messages of the developer and the system, events, context, and compactions.

Turns that were rolled back are left out, also in a file that is followed. The name of a session is in
`session_index.jsonl`, beside `sessions`.

Older files have no time on their lines: all messages have the time of their session.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from palaver import importers
from palaver.importers import Part, ReadProgress, Said, Unreadable
from palaver.importers.coding_agents.own_calls import is_own_tool
from palaver.importers.files.streams import open_beside

_NAME = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-((?P<thread>[0-9A-Za-z-]+)(?:_[\w-]+)?)\.jsonl(?:\.zst)?")
_FIRST = re.compile(rb'\s*\{(?=.*"type"\s*:\s*"session_meta")(?=.*"payload"\s*:)')
_OLD_FIRST = re.compile(rb'\s*\{\s*"id"\s*:\s*"[^"]+"\s*,\s*"timestamp"\s*:.*"(?:instructions|git)"\s*:')

LONGEST_INDEX = 16 * 1024 * 1024

_FAILED = re.compile(r"^(?:Exit code|Process exited with code):? -?[1-9]", re.MULTILINE | re.IGNORECASE)
_FAILED_BESIDE = re.compile(r'"exit_code"\s{0,9}:\s{0,9}-?[1-9]')
_INJECTED = (
    "<hook_prompt",
    "# AGENTS.md instructions",
    "<user_instructions>",
    "<environment_context>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
)
_ENVELOPES = {
    "session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state",
    "inter_agent_communication", "inter_agent_communication_metadata", "security_risk_score",
}  # fmt: skip


def recognises(path: Path, head: bytes) -> bool:
    """By its name, which is the same in every version, or by its first line."""
    if _NAME.fullmatch(path.name):
        return True
    first = head.partition(b"\n")[0]
    return path.suffix == ".jsonl" and bool(_FIRST.match(first) or _OLD_FIRST.match(first))


def begin(path: Path) -> ReadProgress:
    found = _NAME.fullmatch(path.name)
    if found is None or len(found[1]) > 160:
        return ReadProgress(name="")
    return ReadProgress(name=found[1], session_id=found["thread"])


def read_line(raw: bytes, reading: ReadProgress) -> list[Said]:
    reading.lines += 1
    line = importers.parse_object(raw)
    kind, payload = line.get("type"), line.get("payload")
    if "payload" in line or (isinstance(kind, str) and kind in _ENVELOPES):
        if not isinstance(kind, str) or not isinstance(payload, dict):
            raise Unreadable("of a wrong shape")
        if importers.parse_time(line.get("timestamp")):
            reading.at = line["timestamp"]
        if kind == "session_meta":
            _learn(payload, reading)
        if kind == "event_msg" and payload.get("type") == "thread_rolled_back":
            reading.is_forked = True
        item = payload if kind == "response_item" else None
    else:
        item = line if isinstance(kind, str) else None
        if item is None and reading.lines == 1:
            _learn(line, reading)
        elif item is None and "record_type" not in line:
            raise Unreadable("of a wrong shape")
    role, text, tool = (_item(item, reading) if item else None) or ("tool", "", None)
    if not text:
        return []
    if role == "user" and reading.title is None:
        reading.title = " ".join(text.split())[:100]
    mark = hashlib.blake2b(raw.strip(), digest_size=4).hexdigest()
    id = f"{reading.name or reading.session_id}:{reading.lines}:{mark}"
    return [Said(id, role, text, importers.parse_time(reading.at), tool)]


def _learn(about: dict[str, Any], reading: ReadProgress) -> None:
    """Take the folder, the time and the id of the session. The first line counts: a fork repeats its origin's."""
    reading.learn_cwd(about.get("cwd"))
    if importers.parse_time(about.get("timestamp")) and reading.at is None:
        reading.at = about["timestamp"]
    if reading.lines == 1:
        reading.parent = importers.valid_id(about.get("parent_thread_id"))
    if not reading.session_id:
        reading.session_id = importers.valid_id(about.get("id")) or importers.valid_id(about.get("session_id")) or ""


def _item(item: dict[str, Any], reading: ReadProgress) -> Part | None:
    """The message, call or result of an item. Calls of palaver's own tools and their results are left out."""
    kept, id = reading.tool_output, item.get("call_id")
    call = importers.facts_of_call(id)
    match item.get("type"):
        case "message":
            role, content = item.get("role"), item.get("content")
            if role not in ("user", "assistant"):
                return None
            if not isinstance(content, list | str):
                raise Unreadable("without content")
            texts = [content] if isinstance(content, str) else importers.block_texts(content)
            if role == "user":
                texts = [text for text in texts if not text.lstrip().startswith(_INJECTED)]
            said = importers.masked_text("\n".join(text for text in texts if text.strip()))
            return (role, said, None) if said else None
        case "function_call" | "custom_tool_call" | "mcp_tool_call" | "mcp_call" if _calls_own_tool(item):
            reading.call_own(id)
        case "function_call_output" | "custom_tool_call_output" | "mcp_tool_call_output" if reading.is_own_result(id):
            return None
        case "function_call":
            arguments = item.get("arguments")
            if isinstance(arguments, str):
                try:
                    arguments = orjson.loads(arguments)
                except orjson.JSONDecodeError:
                    arguments = importers.clean(arguments)
            return "tool", importers.tool_call(item.get("name"), arguments, kept), call
        case "custom_tool_call":
            return "tool", importers.tool_call(item.get("name"), item.get("input"), kept), call
        case "local_shell_call":
            return "tool", importers.tool_call("local_shell", item.get("action"), kept), call
        case "web_search_call":
            return "tool", importers.tool_call("web_search", item.get("action"), kept), call
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            output = item.get("output")
            is_error = _has_failed(output)
            if isinstance(output, str) and output.startswith('{"output"'):  # JSON {"output": …, "metadata": …} as text
                with suppress(orjson.JSONDecodeError):
                    output = orjson.loads(output)
            if isinstance(output, dict):
                output = output.get("output", output.get("content"))
            text = importers.tool_result(output, kept, is_error=is_error)
            return ("tool", text, importers.facts_of_call(id, is_error=is_error)) if text else None
    return None


def _calls_own_tool(item: dict[str, Any]) -> bool:
    return is_own_tool(item.get("name"), item.get("namespace") or item.get("server") or item.get("server_label"))


def _has_failed(value: Any) -> bool:
    """By the exit code, which is beside the output or in its first lines."""
    match value:
        case str() if value.startswith('{"output"'):
            return bool(_FAILED_BESIDE.search(value, max(0, len(value) - 500)))
        case str():
            return bool(_FAILED.search(value, 0, 500))
        case list():
            return any(_FAILED.search(text, 0, 500) for text in importers.block_texts(value[:1]))
        case {"success": False}:
            return True
        case {"metadata": {"exit_code": int(code)}}:
            return code != 0
        case {"output": output} | {"content": output}:
            return _has_failed(output)
    return False


# The whole file, and the index beside it


def superseded(raws: Iterable[bytes]) -> set[int]:
    """The lines of turns that were rolled back."""
    turns: list[int] = []
    gone: set[int] = set()
    for number, raw in enumerate(raws, 1):
        if b"thread_rolled_back" not in raw and b'"user"' not in raw:
            continue
        try:
            line = importers.parse_object(raw)
            said = _item(line["payload"], ReadProgress("")) if line.get("type") == "response_item" else None
        except (Unreadable, KeyError, AttributeError, TypeError):
            continue
        if said and said[0] == "user":
            turns.append(number)
        match line:
            case {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": int(count)}} if count > 0:
                if turns:
                    gone.update(range(turns[max(0, len(turns) - count)], number))
                del turns[-count:]
    return gone


def name_beside(path: Path, reading: ReadProgress) -> str | None:
    for folder in path.parents:
        if folder.name in ("sessions", "archived_sessions"):
            index = folder.parent / "session_index.jsonl"
            try:
                state = index.stat()
                return _names(index, state.st_mtime_ns, state.st_size).get(reading.session_id)
            except OSError:
                return None
    return None


@lru_cache(maxsize=4)
def _names(index: Path, mtime: int, size: int) -> dict[str, str]:
    """The name of each thread; the last one counts."""
    found: dict[str, str] = {}
    if size > LONGEST_INDEX:
        return found
    with open_beside(index) as file:
        lines = file.read(LONGEST_INDEX).splitlines()
    for raw in lines:
        try:
            line = importers.parse_object(raw)
        except Unreadable:
            continue
        id, name = line.get("id"), importers.masked_text(line.get("thread_name"))
        if isinstance(id, str) and name:
            found[id] = name
    return found
