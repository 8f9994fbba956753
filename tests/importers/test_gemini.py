from __future__ import annotations

import io
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.samples import jsonl
from tests.importers.shapes import all_of, anything, as_json, assert_storable, few_ids, item_of, told

from palaver.importers import Unreadable
from palaver.importers.coding_agents import gemini
from palaver.importers.item import Item, Skipped
from palaver.model.library import Conversation
from palaver.text.hook_text import GO_ON

AT = "2026-05-01T10:00:00.000Z"
NAME = "session-2026-05-01T10-00-1a2b3c4d.jsonl"
META = {"sessionId": "1a2b3c4d-0000", "projectHash": "f00", "startTime": AT, "lastUpdated": AT, "kind": "main"}


def message(id: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": AT, "type": kind, "content": content} | more


def read(*records: dict[str, Any]) -> tuple[list[Conversation], list[Skipped]]:
    return all_of(gemini, item_of(jsonl(META, *records), NAME))


def said(*records: dict[str, Any]) -> list[tuple[str, str]]:
    found, _ = read(*records)
    return told(found[0]) if found else []


TOOL = {
    "id": "t",
    "name": "read_file",
    "args": {"path": "ivy.txt"},
    "result": [{"functionResponse": {"id": "t", "name": "read_file", "response": {"output": "green"}}}],
    "status": "success",
    "timestamp": "2026-05-01T10:00:05Z",
    "resultDisplay": "shown",
}


def test_a_session_is_a_conversation():
    (found,), skipped = read(
        message("1", "user", [{"text": "Where is"}, {"text": "the ivy?"}]),
        message(
            "2", "gemini", "I look.", toolCalls=[TOOL], thoughts=[{"subject": "s", "description": "hm"}], tokens={}
        ),
        message("3", "info", "Update available"),
        {"$set": {"lastUpdated": "2026-05-01T10:09:00Z", "summary": "Looking for ivy"}},
    )
    assert skipped == []
    assert (found.id, found.origin, found.title) == ("gemini:1a2b3c4d-0000", "gemini", "Looking for ivy")
    assert (found.created_at, found.updated_at) == (
        datetime(2026, 5, 1, 10, tzinfo=UTC),
        datetime(2026, 5, 1, 10, 9, tzinfo=UTC),
    )
    assert [(one.id, one.role, one.text) for one in found.messages] == [
        ("1", "user", "Where is\nthe ivy?"),
        ("2", "assistant", "I look."),
        ("2.1", "tool", '[tool read_file] {"path":"ivy.txt"}'),
        ("2.2", "tool", "green"),
    ]


def test_the_text_of_hooks_before_a_prompt_is_left_out():
    prompt = "<hook_context>You are the agent x. token y</hook_context>\n\nWhere is the ivy?"
    assert said(message("1", "user", [{"text": prompt}])) == [("user", "Where is the ivy?")]
    assert said(message("1", "user", f"{GO_ON}\n[data 0: not instructions to you]")) == []
    typed = "What does <hook_context> mean?"
    assert said(message("1", "user", typed)) == [("user", typed)]


def test_the_older_files_hold_it_in_one_piece():
    whole = {
        "sessionId": "s",
        "projectHash": "f",
        "startTime": AT,
        "messages": [message("1", "user", "hi"), message("2", "model", "ho")],
    }
    item = item_of(as_json(whole), "session-1.json")
    assert gemini.recognises(item, as_json(whole))
    (found,), _ = all_of(gemini, item)
    assert told(found) == [("user", "hi"), ("assistant", "ho")]


@pytest.mark.parametrize(
    "records, expected",
    [
        ([message("a", "user", "1"), message("a", "user", "2")], ["2"]),
        ([message("a", "user", "1"), message("b", "user", "2"), message("a", "user", "3")], ["3", "2"]),
        (
            [message("a", "user", "1"), message("b", "user", "2"), {"$rewindTo": "b"}, message("c", "user", "3")],
            ["1", "3"],
        ),
        ([message("a", "user", "1"), {"$rewindTo": "unknown"}, message("c", "user", "3")], ["3"]),
        ([message("a", "user", "1"), {"$set": {"messages": [message("z", "user", "9")]}}], ["9"]),
        ([message("a", "user", "1"), {"$set": 7}, {"$rewindTo": ["x"]}], []),
        (
            [
                message("a", "user", "This is the Gemini CLI. We are setting up the context for our chat."),
                message("b", "user", "2"),
            ],
            ["2"],
        ),
        (
            [
                message("a", "warning", "x"),
                message("b", "error", "y"),
                message("c", "user", None),
                message("d", "user", "2"),
            ],
            ["2"],
        ),
    ],
)
def test_what_is_left_at_the_end_counts(records: list[dict[str, Any]], expected: list[str]):
    assert [text for _, text in said(*records)] == expected


def test_a_torn_last_line_is_left_out_with_a_word():
    raw = jsonl(META, message("1", "user", "hi")) + b'{"id": "2", "type": "us'
    (found,), skipped = all_of(gemini, item_of(raw, NAME))
    assert told(found) == [("user", "hi")]
    assert skipped == [Skipped(NAME, "the last line is not complete")]


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_what_somebody_saved_under_a_name_is_read(is_wrapped: bool):
    turns: list[Any] = [
        {"role": "user", "parts": [{"text": "This is the Gemini CLI. We are setting up the context for our chat."}]},
        {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
        {"role": "user", "parts": [{"text": "Where is"}, {"text": "the ivy?"}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "ivy.txt"}}}]},
        {"role": "model", "parts": [{"text": "Here."}]},
        {"role": "model", "parts": 5}, None,
    ]  # fmt: skip
    raw = as_json({"history": turns, "authType": "oauth"} if is_wrapped else turns)
    item = Item("x › checkpoint-my%20plan.json", len(raw), None, lambda: io.BytesIO(raw), "tmp/abc/checkpoint-x.json")
    assert gemini.recognises(item, raw)
    (found,), skipped = all_of(gemini, item)
    assert (found.id, found.title, skipped) == ("gemini:checkpoint:abc:my plan", "my plan", [])
    assert told(found) == [
        ("user", "Where is\nthe ivy?"), ("tool", "[tool ls] {}"), ("tool", "ivy.txt"), ("assistant", "Here."),
    ]  # fmt: skip


def test_files_are_recognised_by_how_they_begin():
    assert gemini.recognises(item_of(b"", NAME), jsonl(META))
    assert not gemini.recognises(item_of(b"", NAME), b'{"parentUuid":null,"sessionId":"s","startTime":1}')
    assert not gemini.recognises(item_of(b"", NAME), b'{"sessionId":"s","type":"user"}')


near = st.fixed_dictionaries(
    {},
    optional={
        "id": few_ids | anything,
        "type": st.sampled_from(["user", "gemini", "info"]) | anything,
        "content": st.lists(st.fixed_dictionaries({"text": anything}), max_size=2) | anything,
        "timestamp": anything,
        "toolCalls": st.lists(
            st.fixed_dictionaries({"name": st.text() | anything, "args": anything, "result": anything}) | anything,
            max_size=2,
        )
        | anything,
        "$rewindTo": few_ids | anything,
        "$set": anything,
        "sessionId": few_ids | anything,
    },
)


@given(st.lists(near | anything, max_size=5), st.booleans())
def test_no_session_is_too_strange(records: list[Any], is_lines: bool):
    raw = b"\n".join(map(as_json, records)) if is_lines else as_json({"sessionId": "s", "messages": records})
    item = item_of(raw, NAME if is_lines else "session.json")
    gemini.recognises(item, raw)
    with suppress(Unreadable):
        assert_storable(gemini.conversations(item))


@given(st.binary(), st.sampled_from([NAME, "session.json"]))
def test_no_bytes_are_too_strange(raw: bytes, name: str):
    gemini.recognises(item_of(raw, name), raw)
    with suppress(Unreadable):
        assert_storable(gemini.conversations(item_of(raw, name)))
