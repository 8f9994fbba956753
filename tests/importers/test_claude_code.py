"""What is read out of Claude Code's session files, and what is not."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.samples import answered, jsonl, line, text, tool_result, tool_use, typed

from palaver.importers import ReadProgress, Said, Unreadable
from palaver.importers.coding_agents import claude_code
from palaver.importers.coding_agents.claude_code import begin, read_line, recognises, superseded

SESSION = "0b5e2f6e-6a3e-4c1c-9a53-5d1f6e2c7a10"


def reading() -> ReadProgress:
    return begin(Path(f"{SESSION}.jsonl"))


def read(line: dict[str, Any]) -> list[Said]:
    return read_line(jsonl(line), reading())


def said(line: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in read(line)]


# What is kept


def test_typed_text_is_the_users_under_the_uuid_and_time_of_its_line():
    one = typed("Where does the ivy grow?")
    ts = datetime(2026, 5, 1, 10, 0, 0, 123000, tzinfo=UTC)
    assert read(one) == [Said(one["uuid"], "user", "Where does the ivy grow?", ts)]


def test_the_texts_of_a_message_in_blocks_are_one_turn():
    image = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    assert said(typed([text("Look at this."), image, text("What is it?")])) == [("user", "Look at this.\nWhat is it?")]


def test_an_answer_on_several_lines_is_several_turns():
    lines = [answered(text("First,")), answered(text("second."))]
    found = [one for line in lines for one in read(line)]
    assert [(one.id, one.text) for one in found] == [(lines[0]["uuid"], "First,"), (lines[1]["uuid"], "second.")]


def test_several_things_on_one_line_have_ids_of_their_own():
    one = answered(text("I look."), tool_use("Bash", command="ls"), text("Done."))
    assert [(s.id.removeprefix(one["uuid"]), s.role) for s in read(one)] == [
        ("", "assistant"),
        (".1", "tool"),
        (".2", "assistant"),
    ]


def test_a_call_is_its_tool_and_its_input():
    assert said(answered(tool_use("Bash", command="ls  -l"))) == [("tool", '[tool Bash] {"command":"ls  -l"}')]


def test_a_long_call_is_cut():
    ((_, call),) = said(answered(tool_use("Read", note="é" * 9000)))
    assert len(call) == len("[tool Read] ") + 2000 + 1
    assert call.endswith("é…")


def test_a_long_edit_is_whole():
    ((_, call),) = said(answered(tool_use("Write", content="é" * 90_000)))
    assert call.endswith('é"}')
    assert len(call) > 90_000


@pytest.mark.parametrize(
    "content, expected",
    [
        ("ivy.txt", "ivy.txt"),
        ([text("ivy.txt"), {"type": "image", "source": {}}, text("oak.txt")], "ivy.txt\noak.txt"),
        ("x" * 10_001, "x" * 10_000 + "…"),
    ],
)
def test_what_a_tool_gave_back_is_the_tools(content: Any, expected: str):
    assert said(tool_result(content)) == [("tool", expected)]


def test_a_result_and_what_was_typed_with_it_are_two_turns():
    blocks = [{"type": "tool_result", "tool_use_id": "t", "content": "rejected"}, text("No, the other one.")]
    assert said(typed(blocks)) == [("user", "No, the other one."), ("tool", "rejected")]


def test_keys_that_an_agent_saw_are_not_taken_along():
    key = "ghp_" + "a1B2" * 9
    block = {"type": "tool_result", "tool_use_id": "t", "content": f"TOKEN={key}\nPATH=/bin"}
    assert said(typed([block, text(f"use {key} for it")])) == [
        ("user", "use [a GitHub token] for it"),
        ("tool", "TOKEN=[a GitHub token]\nPATH=/bin"),
    ]
    call = answered(tool_use("Bash", command=f"echo {key}"))
    assert said(call) == [("tool", '[tool Bash] {"command":"echo [a GitHub token]"}')]


def test_side_chains_stay_with_their_session_and_the_model_wrote_their_prompts():
    assert said(typed("Look for ivy.", isSidechain=True)) == [("assistant", "Look for ivy.")]
    assert said(answered(text("It grows here."), isSidechain=True)) == [("assistant", "It grows here.")]
    assert said(tool_result("ivy.txt", isSidechain=True)) == [("tool", "ivy.txt")]


def test_a_prompt_for_a_subagent_is_the_title_of_its_own_file_only():
    prompt = jsonl(typed("Look for ivy.", isSidechain=True))
    for name, title in ((f"{SESSION}.jsonl", None), ("agent-a1.jsonl", "Look for ivy.")):
        state = begin(Path(name))
        read_line(prompt, state)
        assert state.title == title


def test_a_reminder_is_taken_out_of_what_was_typed():
    words = "<system-reminder>\nThe file was changed.\n</system-reminder>\nGo on."
    assert said(typed(words)) == [("user", "Go on.")]
    many = (
        "Do <system-reminder>a</system-reminder> \n<system-reminder>b</system-reminder>this. <system-reminder> is open"
    )
    assert said(typed(many)) == [("user", "Do this. <system-reminder> is open")]


# What is left out


@pytest.mark.parametrize(
    "left_out",
    [
        line("progress", data={"type": "bash_progress"}),
        line("attachment", attachment={"type": "file"}),
        line("system", subtype="compact_boundary", content="Conversation compacted"),
        {"type": "summary", "summary": "About ivy", "leafUuid": "u"},
        {"type": "queue-operation", "operation": "enqueue", "content": "later"},
        {"type": "something-new", "content": "x"},
        answered({"type": "thinking", "thinking": "hm", "signature": "x"}),
        answered({"type": "redacted_thinking", "data": "x"}),
        answered(text("API Error: 529"), isApiErrorMessage=True),
        answered(text("No response requested."), model="<synthetic>"),
        answered(text("  \n")),
        typed("Instructions of a skill", isMeta=True),
        typed("This session is being continued …", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        typed("<command-name>/clear</command-name>\n<command-message>clear</command-message>"),
        typed("<command-message>review</command-message>\n<command-name>/review</command-name>"),
        typed("<local-command-stdout>ok</local-command-stdout>"),
        typed("<local-command-caveat>Caveat: …</local-command-caveat>"),
        typed("Caveat: The messages below were generated by the user while running local commands. DO NOT respond"),
        typed([text("[Request interrupted by user for tool use]")]),
        typed([text("<ide_opened_file>The user opened ivy.txt</ide_opened_file>")]),
        typed("<system-reminder>only this</system-reminder>"),
        typed([{"type": "image", "source": {"data": "AAAA"}}]),
        tool_result(None),
        tool_result([{"type": "tool_reference", "tool_name": "x"}]),
    ],
)
def test_what_nobody_said_is_left_out(left_out: dict[str, Any]):
    assert read(left_out) == []


# What the file tells about itself


def test_a_session_is_called_like_its_file():
    assert begin(Path("x", f"{SESSION}.jsonl")).session_id == SESSION
    assert begin(Path("x", SESSION, "subagents", "agent-a1b2c3d.jsonl")).session_id == f"{SESSION}.agent-a1b2c3d"


def test_a_file_with_another_name_is_called_as_its_lines_say():
    state = begin(Path("copy of it.jsonl"))
    assert state.session_id == ""
    read_line(jsonl(line("progress", "the-session")), state)
    read_line(jsonl(line("progress", "another")), state)
    assert state.session_id == "the-session"


def test_titles_come_from_the_user_else_from_the_first_words():
    state = reading()
    read_line(jsonl(typed("Where does\nthe ivy grow?")), state)
    assert (state.title, state.cwd) == ("Where does the ivy grow?", "/home/ann/garden")
    read_line(jsonl({"type": "ai-title", "aiTitle": "Ivy", "sessionId": "s"}), state)
    assert state.title == "Ivy"


def test_a_title_somebody_gave_counts_most_then_a_made_one_then_a_summary_of_this_session():
    state = reading()
    for one in (
        {"type": "summary", "summary": "Another session", "leafUuid": "not-here"},
        {"type": "summary", "summary": "This session", "leafUuid": "here"},
        typed("How it begins", uuid="first"),
    ):
        read_line(jsonl(one), state)
    assert state.title == "How it begins"
    read_line(jsonl(answered(text("x"), uuid="here")), state)
    assert state.title == "This session"
    for named, title in (
        ({"type": "custom-title", "customTitle": "Mine"}, "Mine"),
        ({"type": "ai-title", "aiTitle": "Made"}, "Mine"),
        ({"type": "summary", "summary": "Later", "leafUuid": "here"}, "Mine"),
        ({"type": "custom-title", "customTitle": "Mine again"}, "Mine again"),
    ):
        read_line(jsonl(named), state)
        assert state.title == title


# What was taken back


def kept(*lines: dict[str, Any]) -> list[str]:
    """The uuids that stay when the whole file is read."""
    gone = superseded(jsonl(line) for line in lines)
    return [line["uuid"] for number, line in enumerate(lines, 1) if number not in gone]


def test_what_was_rewound_is_left_out_where_the_whole_file_is_read():
    """Branches: the text the user saw last is what is found."""
    lines = [
        typed("first", uuid="u1"),
        answered(text("one"), uuid="a1", parentUuid="u1"),
        line("system", uuid="s1", parentUuid="a1", subtype="turn_duration"),
        typed("taken back", uuid="u2", parentUuid="s1"),
        answered(text("for nothing"), uuid="a2", parentUuid="u2"),
        typed("instead", uuid="u3", parentUuid="a1"),
        answered(text("three"), uuid="a3", parentUuid="u3"),
    ]
    assert kept(*lines) == ["u1", "a1", "s1", "u3", "a3"]
    assert kept(*lines[:5]) == ["u1", "a1", "s1", "u2", "a2"]


def test_of_an_answer_that_was_made_anew_the_last_one_stays():
    old, new = answered(text("old"), uuid="a1", parentUuid="u1"), answered(text("new"), uuid="a2", parentUuid="u1")
    old["message"]["id"], new["message"]["id"] = "msg_1", "msg_2"
    assert kept(typed("x", uuid="u1"), old, new) == ["u1", "a2"]


def test_tools_called_at_once_side_chains_and_broken_chains_stay():
    lines = [
        typed("x", uuid="u1"),
        answered(tool_use("A"), uuid="a1", parentUuid="u1"),
        answered(tool_use("B"), uuid="a2", parentUuid="a1"),
        tool_result("a", uuid="r1", parentUuid="a1"),
        tool_result("b", uuid="r2", parentUuid="a2"),
        typed("a task", uuid="side", parentUuid=None, isSidechain=True),
        typed("from before", uuid="lost", parentUuid="unknown"),
        answered(text("done"), uuid="a3", parentUuid="r2"),
        typed("on", uuid="u2", parentUuid=None, logicalParentUuid="a3"),
    ]
    assert kept(*lines) == [one["uuid"] for one in lines]


def test_without_a_uuid_the_number_of_the_line_is_the_id():
    state = reading()
    read_line(jsonl(line("progress")), state)
    (one,) = read_line(jsonl(typed("hello", uuid=None)), state)
    assert one.id == f"{SESSION}:2"


def test_without_a_time_it_is_that_of_the_line_before():
    state = reading()
    read_line(jsonl(line("progress", timestamp="2026-05-02T00:00:00Z")), state)
    (one,) = read_line(jsonl(typed("hello", timestamp="0001-01-01T00:00:00+23:59")), state)
    assert one.ts == datetime(2026, 5, 2, tzinfo=UTC)
    (one,) = read_line(jsonl(typed("hello", timestamp=7)), reading())
    assert one.ts is None


def test_files_are_recognised_by_their_first_lines():
    path = Path(f"{SESSION}.jsonl")
    snapshot = {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}
    assert recognises(path, jsonl(typed("hello")))
    assert recognises(path, jsonl(snapshot))
    assert recognises(path, jsonl({"type": "summary", "summary": "x", "leafUuid": "u"}))
    assert recognises(path, jsonl(typed("long" * 100))[:200])
    assert not recognises(path.with_suffix(".txt"), jsonl(typed("hello")))
    assert not recognises(path, b"")
    assert not recognises(path, b"hello\n")
    ours = {"id": "1", "session_id": "s", "agent_id": "a", "role": "user", "content": '{"sessionId":"x","type":"user"}'}
    assert not recognises(path, jsonl(ours))


# What is broken


@pytest.mark.parametrize(
    "raw, why",
    [
        (b"{half\n", "not JSON"),
        (b"[1]\n", "no JSON object"),
        (b'{"a":1}\n', "without a type"),
        (b'{"type":7}\n', "without a type"),
        (b'{"type":"user","uuid":"u"}\n', "without a message"),
        (b'{"type":"user","message":"hello"}\n', "without a message"),
        (b'{"type":"assistant","message":{"content":7}}\n', "without content"),
        (b"[" * 100_000 + b"\n", "not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(raw: bytes, why: str):
    state = reading()
    with pytest.raises(Unreadable, match=why):
        read_line(raw, state)
    assert state.lines == 1


@pytest.mark.parametrize(
    "raw, expected",
    [
        (b'"a\\u0000b"', "a�b"),
        (b'"a\\ud800b"', "a�b"),
        (b'"a\xff\xfeb"', "a��b"),
        ('"🌿 \\ud83c\\udf3f"'.encode(), "🌿 🌿"),
    ],
)
def test_what_cannot_be_stored_is_replaced(raw: bytes, expected: str):
    (one,) = read_line(b'{"type":"user","uuid":"u","message":{"content":' + raw + b"}}\n", reading())
    assert one.text == expected


def test_a_call_nested_too_deeply_for_one_encoder_is_read_all_the_same():
    deep = b'{"a":' * 400 + b"1" + b"}" * 400
    raw = (
        b'{"type":"assistant","uuid":"u","message":{"content":[{"type":"tool_use","name":"T","input":' + deep + b"}]}}"
    )
    (one,) = read_line(raw, reading())
    assert one.text.startswith('[tool T] {"a":{"a":')


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
names = st.sampled_from(["type", "text", "content", "name", "input", "model", "role", "tool_use_id"])
kinds = st.sampled_from(["user", "assistant", "text", "tool_use", "tool_result", "thinking", "summary", "ai-title"])
block = st.dictionaries(names, anything | kinds, max_size=5) | anything
near = st.fixed_dictionaries(
    {"type": kinds | anything},
    optional={
        "message": st.dictionaries(names, st.lists(block, max_size=3) | block, max_size=4) | anything,
        "uuid": anything,
        "timestamp": anything | st.datetimes().map(str),
        "sessionId": anything,
        "cwd": anything,
        "isMeta": anything,
        "summary": anything,
        "aiTitle": anything,
    },
)


@given(st.lists(near | anything, max_size=5))
def test_no_line_is_too_strange(lines: list[Any]):
    state = reading()
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
    claude_code.recognises(Path("x.jsonl"), raw)
    with suppress(Unreadable):
        read_line(raw, reading())
