"""How much of a coding agent's tool output importers keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.importers.samples import answered, jsonl, text, tool_result, tool_use, typed

from palaver.importers import LineReader
from palaver.importers.coding_agents import claude_code, codex
from palaver.importers.discover import find_sources
from palaver.model.library import Conversation
from palaver.text.tool_output import ToolOutput

LONG = "\n".join(f"line {n}: " + "x" * 30 for n in range(500))
FIRST, LAST, MIDDLE = "line 0: ", "line 499: ", "line 200: "
SESSION = "0b5e2f6e-6a3e-4c1c-9a53-5d1f6e2c7a10"


def kept(reader: LineReader, name: str, raw: bytes, wanted: ToolOutput) -> list[str]:
    reading = reader.begin(Path(name))
    reading.tool_output = wanted
    return [said.text for line in raw.splitlines(keepends=True) for said in reader.read_line(line, reading)]


def failed(content: str) -> dict[str, Any]:
    line = tool_result(content)
    line["message"]["content"][0]["is_error"] = True
    return line


CLAUDE = jsonl(
    typed("Please look.", SESSION),
    answered(text("I look."), tool_use("Read", note="c" * 900, file_path="/a/b.py")),
    answered(tool_use("Write", content="c" * 90_000, file_path="/a/b.py")),
    tool_result(LONG),
    failed(LONG[:5_000]),
)


def test_claude_code_short_keeps_names_brief_arguments_both_ends_and_errors():
    said, answer, call, edit, result, error = kept(claude_code, f"{SESSION}.jsonl", CLAUDE, "short")
    assert (said, answer) == ("Please look.", "I look.")
    assert call.startswith('[tool Read] {"note":"ccc')
    assert "c" * 90_000 in edit
    assert call.endswith('"file_path":"/a/b.py"}')
    assert len(call) < 300
    assert FIRST in result
    assert LAST in result
    assert MIDDLE not in result
    assert error == LONG[:5_000]


def test_claude_code_none_and_full():
    assert kept(claude_code, f"{SESSION}.jsonl", CLAUDE, "none") == ["Please look.", "I look."]
    *_, call, edit, result, error = kept(claude_code, f"{SESSION}.jsonl", CLAUDE, "full")
    assert "c" * 90_000 in edit
    assert "c" * 900 in call
    assert result == LONG[:10_000] + "…"
    assert error == LONG[:5_000]


def call_and_output(output: Any) -> bytes:
    payloads = [
        {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": '{"command":["ls"]}'},
        {"type": "function_call_output", "call_id": "c1", "output": output},
    ]
    return jsonl(*({"timestamp": "2026-05-01T10:00:00Z", "type": "response_item", "payload": one} for one in payloads))


@pytest.mark.parametrize(
    "output, is_whole",
    [
        (LONG[:9_000], False),
        ("Exit code: 0\nOutput:\n" + LONG[:9_000], False),
        ("Exit code: 1\nOutput:\n" + LONG[:9_000], True),
        ("Chunk ID: 1\nProcess exited with code 2\n" + LONG[:9_000], True),
        ({"output": LONG[:9_000], "metadata": {"exit_code": 3}}, True),
        ({"output": LONG[:9_000], "metadata": {"exit_code": 0}}, False),
        ({"content": LONG[:9_000], "success": False}, True),
    ],
)
def test_codex_keeps_errors_whole(output: Any, is_whole: bool):
    raw = call_and_output(output)
    call, result = kept(codex, "rollout-2026-05-01T10-00-00-abc.jsonl", raw, "short")
    assert call == '[tool shell] {"command":["ls"]}'
    assert ("line 150: " in result) == is_whole
    assert FIRST in result
    assert kept(codex, "rollout-2026-05-01T10-00-00-abc.jsonl", raw, "none") == []


@pytest.mark.parametrize("wanted, count", [("none", 2), ("short", 6), ("full", 6)])
def test_what_is_wanted_reaches_the_importer(tmp_path: Path, wanted: ToolOutput, count: int):
    (tmp_path / f"{SESSION}.jsonl").write_bytes(CLAUDE)
    found = [one for one in find_sources([tmp_path], tool_output=wanted) if not hasattr(one, "why")]
    (one,) = [c for place in found for c in place.contents() if isinstance(c, Conversation)]
    assert len(one.messages) == count
    assert any(MIDDLE in said.text for said in one.messages if said.role == "tool") == (wanted == "full")
