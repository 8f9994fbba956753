"""What is read out of Codex's session files, and what is not."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.samples import codex_session, item, jsonl, message, meta, rollout, typed

from palaver.importers import ReadProgress, Said, Unreadable
from palaver.importers.coding_agents.codex import begin, read_line, recognises

THREAD = "0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"
FILE = Path("sessions", "2025", "10", "03", f"rollout-2025-10-03T09-15-20-{THREAD}.jsonl")


def read(*lines: dict[str, Any], path: Path = FILE) -> tuple[list[Said], ReadProgress]:
    state = begin(path)
    return [said for line in lines for said in read_line(jsonl(line), state)], state


def said(line: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in read(line)[0]]


# What is kept


def test_a_session_is_its_messages_and_its_tools():
    state = begin(FILE)
    found = [said for raw in codex_session(THREAD, "ivy").splitlines(True) for said in read_line(raw, state)]
    assert [(one.role, one.text) for one in found] == [
        ("user", "please look for ivy"),
        ("assistant", "I will look for ivy."),
        ("tool", '[tool shell] {"command":["grep","ivy"]}'),
        ("tool", "garden.txt: ivy"),
    ]
    assert {one.ts for one in found} == {datetime(2025, 10, 3, 9, 15, 22, 123000, tzinfo=UTC)}
    assert (state.session_id, state.cwd, state.title) == (THREAD, "/home/ann/garden", "please look for ivy")


@pytest.mark.parametrize(
    "line, expected",
    [
        (item("function_call", name="shell", arguments='{ "command": "ls" }'), '[tool shell] {"command":"ls"}'),
        (item("function_call", name="shell", arguments="not json"), "[tool shell] not json"),
        (item("function_call", name=None, arguments={"a": 1}), '[tool ?] {"a":1}'),
        (item("custom_tool_call", name="apply_patch", input="*** Begin Patch"), "[tool apply_patch] *** Begin Patch"),
        (item("local_shell_call", action={"command": ["ls"]}), '[tool local_shell] {"command":["ls"]}'),
        (item("web_search_call", action={"query": "ivy"}), '[tool web_search] {"query":"ivy"}'),
        (item("function_call_output", output="plain"), "plain"),
        (item("function_call_output", output='{"output":"inside","metadata":{"exit_code":0}}'), "inside"),
        (item("function_call_output", output='{"output"'), '{"output"'),
        (item("function_call_output", output={"content": "older", "success": True}), "older"),
        (item("function_call_output", output=[{"type": "input_text", "text": "a"}, {"type": "input_image"}]), "a"),
        (item("custom_tool_call_output", output="y" * 10_001), "y" * 10_000 + "…"),
    ],
)
def test_calls_and_what_came_back_are_the_tools(line: dict[str, Any], expected: str):
    assert said(line) == [("tool", expected)]


def test_what_was_typed_beside_injected_text_is_kept():
    assert said(message("user", "<environment_context>…</environment_context>", "Look for ivy.")) == [
        ("user", "Look for ivy.")
    ]


# What is left out


@pytest.mark.parametrize(
    "left_out",
    [
        message("developer", "Be kind."),
        message("system", "Be kind."),
        message("user", "# AGENTS.md instructions for /home/ann"),
        message("user", "<user_instructions>x</user_instructions>"),
        message("user", "<environment_context>x</environment_context>"),
        message("user", '<hook_prompt hook_run_id="1">palaver: new messages for you.</hook_prompt>'),
        message("user", "<turn_aborted>x</turn_aborted>"),
        message("user", "<user_shell_command>x</user_shell_command>"),
        message("user", "\n<subagent_notification>x</subagent_notification>"),
        message("assistant", " "),
        item("reasoning", summary=[{"type": "summary_text", "text": "hm"}]),
        item("ghost_snapshot", ghost_commit={}),
        item("function_call_output", output=""),
        rollout("event_msg", type="user_message", message="a copy"),
        rollout("event_msg", type="agent_message", message="a copy"),
        rollout("turn_context", cwd="/"),
        rollout("compacted", message="a summary"),
        rollout("world_state", text="x"),
        rollout("something_new", text="x"),
        {"record_type": "state"},
    ],
)
def test_what_nobody_said_is_left_out(left_out: dict[str, Any]):
    assert read(meta(THREAD), left_out)[0] == []


# Older files


def test_a_file_without_envelopes_is_read_with_the_time_of_its_session():
    lines: list[dict[str, Any]] = [
        {"id": THREAD, "timestamp": "2025-06-01T08:00:00.000Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look for ivy."}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "There is none."}]},
    ]
    found, state = read(*lines, path=Path("old.jsonl"))
    assert [one.role for one in found] == ["user", "tool", "assistant"]
    assert {one.ts for one in found} == {datetime(2025, 6, 1, 8, tzinfo=UTC)}
    assert state.session_id == THREAD
    assert recognises(Path("old.jsonl"), jsonl(*lines))


# Ids


def test_the_same_file_read_again_or_elsewhere_gives_the_same_ids():
    lines = [meta(THREAD), message("user", "yes"), message("user", "yes")]
    first, _ = read(*lines)
    again, _ = read(*lines, path=Path("archived_sessions", FILE.name))
    assert first == again
    assert len({one.id for one in first}) == 2


def test_other_words_in_the_same_place_have_another_id():
    (first,), _ = read(message("user", "yes"))
    (other,), _ = read(message("user", "no"))
    assert first.id != other.id


def test_a_fork_keeps_the_name_of_its_own_file():
    _, state = read(meta("fork"), meta("origin"), path=Path("copied.jsonl"))
    assert state.session_id == "fork"
    _, state = read(meta("origin"), meta("fork"))
    assert state.session_id == THREAD


def test_two_files_of_one_thread_are_one_session_with_different_ids():
    second = FILE.with_name(FILE.name.replace(".jsonl", "_r2.jsonl"))
    (one,), state = read(message("user", "yes"))
    (other,), state2 = read(message("user", "yes"), path=second)
    assert state.session_id == state2.session_id == THREAD
    assert one.id != other.id


def test_files_are_recognised_by_name_or_by_their_first_line():
    assert recognises(FILE, b"")
    assert recognises(FILE.with_name(FILE.name + ".zst"), b"\x28\xb5")
    assert recognises(Path("copy.jsonl"), jsonl(meta(THREAD), message("user", "yes")))
    assert not recognises(Path("copy.jsonl"), jsonl(message("user", "yes")))
    assert not recognises(Path("copy.jsonl"), jsonl(typed("yes")))
    assert not recognises(Path("history.jsonl"), b'{"session_id":"s","ts":1,"text":"x"}\n')


# What is broken


@pytest.mark.parametrize(
    "raw",
    [
        b"{half",
        b"7",
        b'{"type":"response_item","payload":"x"}',
        b'{"type":"response_item"}',
        b'{"payload":{}}',
        b'{"type":"response_item","payload":{"type":"message","role":"user","content":7}}',
    ],
)
def test_a_line_that_cannot_be_read_is_said_so(raw: bytes):
    with pytest.raises(Unreadable):
        read_line(raw, begin(FILE))


def test_an_object_of_no_known_kind_is_said_so():
    state = begin(FILE)
    read_line(jsonl(meta(THREAD)), state)
    with pytest.raises(Unreadable):
        read_line(b'{"a":1}', state)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
kinds = st.sampled_from(
    ["message", "function_call", "function_call_output", "custom_tool_call", "local_shell_call", "reasoning"]
)
block = st.fixed_dictionaries({"type": anything, "text": anything}) | anything
near_item = st.fixed_dictionaries(
    {"type": kinds | anything},
    optional={
        "role": st.sampled_from(["user", "assistant", "developer"]) | anything,
        "content": st.lists(block, max_size=3) | anything,
        "name": anything,
        "arguments": anything,
        "output": anything | st.builds(lambda inner: json.dumps({"output": inner}), anything),
        "id": anything,
        "timestamp": anything,
        "cwd": anything,
    },
)
near = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["response_item", "session_meta", "event_msg"]) | anything,
        "payload": near_item | anything,
    },
    optional={"timestamp": anything | st.datetimes().map(str)},
)


@given(st.lists(near | near_item | anything, max_size=5), st.sampled_from([FILE, Path("x.jsonl")]))
def test_no_line_is_too_strange(lines: list[Any], path: Path):
    state = begin(path)
    for one_line in lines:
        try:
            found = read_line(json.dumps(one_line).encode() + b"\n", state)
        except Unreadable:
            continue
        for one in found:
            assert one.text.strip()
            assert len(one.text) <= 1_000_000
            assert 0 < len(one.id) <= 256
            (one.id + one.text).encode()


@given(st.binary())
def test_no_bytes_are_too_strange(raw: bytes):
    recognises(Path("x.jsonl"), raw)
    with suppress(Unreadable):
        read_line(raw, begin(FILE))
