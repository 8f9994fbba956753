"""GitHub Copilot CLI: `session-state/<session>/events.jsonl` (seen with version 1.0.102).

Kept, each with the id of its event (further ones of the same event as `<id>.1`, `<id>.2` …).

Left out: system prompts, the context that the program adds to a prompt, usage records, starts and ends of turns and
sessions, and file snapshots.

A session is one file, which only grows. The project is the folder of the session. The title is the beginning of the
first prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from palaver import importers
from palaver.importers import Part, ReadProgress, Said, Unreadable
from palaver.importers.coding_agents.own_calls import is_own_tool

_START = re.compile(rb'\{\s*"type"\s*:\s*"session\.start"')
_PRODUCER = re.compile(rb'"producer"\s*:\s*"copilot-agent"')


def recognises(path: Path, head: bytes) -> bool:
    """By its first line, or by its place if that line is lost."""
    first = head.lstrip().partition(b"\n")[0]
    if path.name == "events.jsonl" and path.parent.parent.name == "session-state" and first.startswith(b"{"):
        return True
    return path.suffix == ".jsonl" and bool(_START.match(first) and _PRODUCER.search(first))


def begin(path: Path) -> ReadProgress:
    """The session is in the first line. Until then it is named after the folder."""
    return ReadProgress(name=importers.clean(path.parent.name if path.stem == "events" else path.stem))


def read_line(raw: bytes, reading: ReadProgress) -> list[Said]:
    reading.lines += 1
    line = importers.parse_object(raw)
    kind, data = line.get("type"), line.get("data")
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise Unreadable("without a type")
    if importers.parse_time(line.get("timestamp")):
        reading.at = line["timestamp"]
    said: list[Part] = []
    match kind:
        case "session.start" | "session.resume":
            reading.session_id = reading.session_id or importers.valid_id(data.get("sessionId")) or ""
            context = data.get("context")
            if isinstance(context, dict):
                reading.learn_cwd(context.get("cwd"))
        case "user.message":
            if text := importers.masked_text(data.get("content")):
                reading.title = reading.title or " ".join(text.split())[:100]
                said.append(("user", text, None))
        case "assistant.message":
            if text := importers.masked_text(data.get("content")):
                said.append(("assistant", text, None))
            for call in importers.objects_of(data.get("toolRequests")):
                said.append(("tool", _call(call, reading), importers.facts_of_call(call.get("toolCallId"))))
        case "tool.execution_complete":
            if text := _result(data, reading):
                is_error = data.get("success") is False
                said.append(("tool", text, importers.facts_of_call(data.get("toolCallId"), is_error=is_error)))
    id = importers.valid_id(line.get("id")) or f"{reading.name[:180]}:{reading.lines}"
    ts = importers.parse_time(reading.at)
    return [Said(f"{id}.{n}" if n else id, role, text, ts, tool) for n, (role, text, tool) in enumerate(said) if text]


def _call(call: dict[str, Any], reading: ReadProgress) -> str:
    """The text of a tool call; empty for a call of palaver itself, so that the others keep their numbers."""
    if is_own_tool(call.get("name"), call.get("mcpServerName")):
        reading.call_own(call.get("toolCallId"))
        return ""
    return importers.tool_call(call.get("name"), call.get("arguments"), reading.tool_output)


def _result(data: dict[str, Any], reading: ReadProgress) -> str | None:
    if reading.is_own_result(data.get("toolCallId")):
        return None
    is_error = data.get("success") is False
    match data:
        case {"result": {"content": text}}:
            return importers.tool_result(text, reading.tool_output, is_error=is_error)
        case {"error": {"message": text}}:
            return importers.tool_result(text, reading.tool_output, is_error=True)
    return None


def superseded(raws: Iterable[bytes]) -> set[int]:
    return set()


def name_beside(path: Path, reading: ReadProgress) -> str | None:
    return None
