"""Session files as Claude Code and Codex write them, made up for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4


def jsonl(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for line in lines)


# Claude Code


def line(kind: str, session: str = "s", /, **more: Any) -> dict[str, Any]:
    return {
        "parentUuid": None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/ann/garden",
        "sessionId": session,
        "version": "2.0.14",
        "gitBranch": "main",
        "type": kind,
        "uuid": str(uuid4()),
        "timestamp": "2026-05-01T10:00:00.123Z",
    } | more


def typed(text: Any, session: str = "s", /, **more: Any) -> dict[str, Any]:
    return line("user", session, message={"role": "user", "content": text}, **more)


def answered(*blocks: dict[str, Any], session: str = "s", model: str = "claude-sonnet", **more: Any) -> dict[str, Any]:
    message = {"id": "msg_01", "type": "message", "role": "assistant", "model": model, "content": list(blocks)}
    return line("assistant", session, message=message, requestId="req_01", **more)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool_use(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_01", "name": name, "input": input}


def tool_result(content: Any, session: str = "s", /, **more: Any) -> dict[str, Any]:
    block = {"tool_use_id": "toolu_01", "type": "tool_result", "content": content}
    return typed([block], session, toolUseResult={"stdout": "…"}, **more)


def claude_session(session: str, *words: str) -> bytes:
    """A short session in which each of these words is typed, answered, and looked up with a tool: four turns each."""
    lines = [{"type": "file-history-snapshot", "messageId": str(uuid4()), "snapshot": {"trackedFileBackups": {}}}]
    for word in words:
        lines += [
            typed(f"please look for {word}", session),
            line("progress", session, data={"type": "hook_progress"}),
            answered({"type": "thinking", "thinking": f"hm, {word}", "signature": "x"}, session=session),
            answered(text(f"I will look for {word}."), session=session),
            answered(tool_use("Grep", pattern=word), session=session),
            tool_result(f"garden.txt: {word}", session),
            line("system", session, subtype="turn_duration", durationMs=12),
        ]
    return jsonl(*lines)


TURNS_A_WORD = 4


def claude_file(folder: Path, session: str, *words: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session}.jsonl"
    path.write_bytes(claude_session(session, *words))
    return path


# Codex


def rollout(kind: str, /, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2025-10-03T09:15:22.123Z", "type": kind, "payload": payload}


def item(kind: str, /, **payload: Any) -> dict[str, Any]:
    return rollout("response_item", type=kind, **payload)


def message(role: str, *parts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": part} for part in parts])


def meta(thread: str, **more: Any) -> dict[str, Any]:
    about = {
        "id": thread,
        "timestamp": "2025-10-03T09:15:20.000Z",
        "cwd": "/home/ann/garden",
        "originator": "codex_cli_rs",
    }
    return rollout("session_meta", **about | more)


def codex_session(thread: str, *words: str) -> bytes:
    """The same as a rollout of Codex: four turns a word."""
    lines = [
        meta(thread),
        message("developer", "<permissions instructions>"),
        message(
            "user", "# AGENTS.md instructions for /home/ann/garden", "<environment_context>…</environment_context>"
        ),
        rollout("turn_context", cwd="/home/ann/garden"),
    ]
    for word in words:
        lines += [
            message("user", f"please look for {word}"),
            rollout("event_msg", type="user_message", message=f"please look for {word}"),
            item("reasoning", summary=[], encrypted_content="…"),
            message("assistant", f"I will look for {word}."),
            rollout("event_msg", type="agent_message", message=f"I will look for {word}."),
            item("function_call", name="shell", arguments=json.dumps({"command": ["grep", word]}), call_id="c"),
            item(
                "function_call_output",
                call_id="c",
                output=json.dumps({"output": f"garden.txt: {word}", "metadata": {}}),
            ),
            rollout("event_msg", type="token_count", info=None),
        ]
    return jsonl(*lines)


def codex_file(folder: Path, thread: str, *words: str) -> Path:
    place = folder / "2025" / "10" / "03"
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"rollout-2025-10-03T09-15-20-{thread}.jsonl"
    path.write_bytes(codex_session(thread, *words))
    return path
