"""What importers keep of tool calls besides the text, and the branches beside the one that was shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers.samples import answered, item, jsonl, line, meta, tool_use, typed
from tests.importers.shapes import all_of, as_json, file_item, item_of
from tests.importers.test_real_sessions import MADE

from palaver.importers.chats import claude_ai, palaver_export
from palaver.importers.coding_agents import claude_code, codex, copilot, gemini, opencode
from palaver.importers.coding_agents.session_files import SessionFiles
from palaver.importers.item import Importer
from palaver.model.events import encode
from palaver.model.library import Conversation, ToolFacts

READERS: dict[str, Importer] = {
    "copilot": SessionFiles("copilot", copilot),
    "gemini": gemini,
    "opencode": opencode,
}


def facts(conversation: Conversation) -> list[ToolFacts | None]:
    return [said.tool for said in conversation.messages if said.role == "tool"]


@pytest.mark.parametrize("program", READERS)
def test_each_result_in_a_file_of_the_real_program_names_its_call(program: str, tmp_path: Path):
    path = MADE[program](tmp_path)
    found, _ = all_of(READERS[program], file_item(path))
    kept = [one for conversation in found for one in facts(conversation)]
    assert len(kept) >= 2
    assert all(one and one.call for one in kept)
    calls = [one.call for one in kept if one]
    assert all(calls.count(call) == 2 for call in calls)
    if program == "opencode":
        assert any(one and one.ms is not None for one in kept)


def test_codex_knows_calls_and_failures():
    raw = jsonl(
        meta("t"),
        item("function_call", name="shell", arguments='{"command":["false"]}', call_id="c1"),
        item("function_call_output", call_id="c1", output='{"output":"no","metadata":{"exit_code":1}}'),
    )
    (found,), _ = all_of(SessionFiles("codex", codex), item_of(raw, "rollout-2026-01-01T00-00-00-t.jsonl"))
    assert facts(found) == [ToolFacts("c1"), ToolFacts("c1", is_error=True)]


def test_codex_and_claude_code_know_the_session_that_started_a_subagent(tmp_path: Path):
    raw = jsonl(
        meta("t", parent_thread_id="p"), item("message", role="user", content=[{"type": "input_text", "text": "x"}])
    )
    (found,), _ = all_of(SessionFiles("codex", codex), item_of(raw, "rollout-2026-01-01T00-00-00-t.jsonl"))
    assert found.parent == "codex:p"
    session = "0b7c5e0e-1111-4222-8333-944445555666"
    path = tmp_path / session / "subagents" / "agent-7.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(jsonl(typed("the task", session, isSidechain=True)))
    (below,), _ = all_of(SessionFiles("claude-code", claude_code), file_item(path))
    assert (below.id, below.parent) == (f"claude-code:{session}.agent-7", f"claude-code:{session}")


def test_claude_code_names_calls_even_if_one_line_has_several():
    calls = [{**tool_use("Bash", command=name), "id": name} for name in ("a", "b")]
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": name, "is_error": name == "b"} for name in ("b", "a")
    ]
    raw = jsonl(typed("go"), answered(*calls), line("user", message={"role": "user", "content": results}))
    (found,), _ = all_of(SessionFiles("claude-code", claude_code), item_of(raw, "s.jsonl"))
    assert facts(found) == [ToolFacts("a"), ToolFacts("b"), ToolFacts("b", is_error=True), ToolFacts("a")]


def claude_message(id: str, parent: str | None, sender: str, text: str, second: int) -> dict[str, Any]:
    return {
        "uuid": id, "parent_message_uuid": parent, "sender": sender, "text": text,
        "created_at": f"2026-01-01T00:00:{second:02d}Z", "content": [{"type": "text", "text": text}],
    }  # fmt: skip


def test_branches_of_claude_ai_are_kept_and_restored_from_an_export():
    export = [{"uuid": "c", "name": "Ivy", "chat_messages": [
        claude_message("q", None, "human", "question", 1),
        claude_message("a1", "q", "assistant", "first answer", 2),
        claude_message("q2", "a1", "human", "asked there", 3),
        claude_message("a2", "q", "assistant", "second answer", 4),
    ]}]  # fmt: skip
    (found,), _ = all_of(claude_ai, item_of(as_json(export)))
    assert [said.text for said in found.messages] == ["question", "second answer"]
    (branch,) = found.branches
    assert branch.after == "q"
    assert [said.text for said in branch.messages] == ["first answer", "asked there"]
    (again,), _ = all_of(palaver_export, item_of(encode(found) + b"\n", "everything.jsonl"))
    assert again == found
    assert json.loads(encode(found))["branches"][0]["after"] == "q"
