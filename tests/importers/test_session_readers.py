"""The readers of Copilot CLI, opencode and Cline, with strange and hostile files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.importers.shapes import anything, as_json, assert_storable, few_ids, file_item, item_of

from palaver.importers import Unreadable
from palaver.importers.coding_agents import cline, copilot, opencode
from palaver.importers.coding_agents.session_files import SessionFiles
from palaver.importers.registry import CHATS

COPILOT = SessionFiles("copilot", copilot)

call = st.fixed_dictionaries({}, optional={"name": anything, "arguments": anything, "toolCallId": few_ids | anything})
event = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["session.start", "user.message", "assistant.message", "tool.execution_complete"])
        | anything,
        "data": st.fixed_dictionaries(
            {},
            optional={
                "content": anything,
                "toolRequests": st.lists(call | anything, max_size=3) | anything,
                "toolCallId": few_ids | anything,
                "result": st.fixed_dictionaries({"content": anything}) | anything,
                "error": st.fixed_dictionaries({"message": anything}) | anything,
                "sessionId": few_ids | anything,
                "context": st.fixed_dictionaries({"cwd": anything}) | anything,
            },
        )
        | anything,
    },
    optional={"id": few_ids | anything, "timestamp": anything},
)


@given(st.lists(event | anything, max_size=5))
def test_no_copilot_session_is_too_strange(events: list[Any]):
    item = item_of(b"\n".join(map(as_json, events)), "events.jsonl")
    with suppress(Unreadable):
        assert_storable(COPILOT.conversations(item))


message = st.fixed_dictionaries(
    {},
    optional={
        "ts": st.integers() | few_ids | anything,
        "say": st.sampled_from([*cline._SPOKEN, "command", "command_output", "tool", "use_mcp_server"]) | anything,
        "ask": st.sampled_from(["command_output", "followup", "mcp_server_response"]) | anything,
        "text": st.builds(json.dumps, anything) | anything,
        "partial": anything,
    },
)


@given(st.lists(message | anything, max_size=5) | anything)
def test_no_cline_task_is_too_strange(messages: Any):
    raw = as_json(messages)
    item = item_of(raw, "tasks/1/ui_messages.json")
    cline.recognises(item, raw)
    with suppress(Unreadable):
        assert_storable(cline.conversations(item))


part = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool", "reasoning"]) | anything},
    optional={
        "text": anything,
        "synthetic": anything,
        "tool": st.text(max_size=5) | anything,
        "time": st.fixed_dictionaries({"start": anything, "end": anything}) | anything,
        "state": st.fixed_dictionaries(
            {"status": st.sampled_from(["completed", "error"]) | anything},
            optional={"input": anything, "output": anything, "error": anything, "time": anything},
        )
        | anything,
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), part | anything), max_size=4),
    st.builds(json.dumps, anything) | st.none(),
    anything,
)
def test_no_opencode_database_is_too_strange(
    tmp_path: Path, parts: list[tuple[str, Any]], revert: str | None, time: Any
):
    path = tmp_path / "opencode.db"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE session (id, directory, title, revert, time_created, time_updated)")
    database.execute("CREATE TABLE message (id, session_id, time_created, time_updated, data)")
    database.execute("CREATE TABLE part (id, message_id, session_id, data)")
    database.execute("INSERT INTO session VALUES ('s', x'ff', NULL, ?, 'soon', 7)", (revert,))
    for number, (role, data) in enumerate(parts):
        about = as_json({"role": role, "time": time})
        database.execute("INSERT INTO message VALUES (?, 's', ?, 1, ?)", (f"m{number}", number, about))
        database.execute("INSERT INTO part VALUES (?, ?, 's', ?)", (f"p{number}", f"m{number}", as_json(data)))
    database.commit()
    database.close()
    item = file_item(path)
    assert opencode.recognises(item, path.read_bytes()[:100])
    assert_storable(opencode.conversations(item))
    opencode.last_change(item)


@given(st.binary())
def test_no_bytes_are_too_strange(raw: bytes):
    for importer, name in ((COPILOT, "events.jsonl"), (cline, "ui_messages.json")):
        item = item_of(raw, name)
        importer.recognises(item, raw)
        with suppress(Unreadable):
            assert_storable(importer.conversations(item))


def test_each_real_file_is_recognised_by_its_own_reader_first():
    real = Path(__file__).parent / "real"
    names = {"copilot-events.jsonl": "copilot", "gemini-session.jsonl": "gemini", "gemini-session.json": "gemini"}
    for file, expected in names.items():
        raw = (real / file).read_bytes()
        item = item_of(raw, "events.jsonl" if expected == "copilot" else f"session-1.{file.rpartition('.')[2]}")
        assert next(one.name for one in CHATS if one.recognises(item, raw[:65536])) == expected
