from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.shapes import all_of, anything, as_json, assert_storable, few_ids, item_of, told

from palaver.importers import Unreadable
from palaver.importers.chats import claude_ai
from palaver.importers.item import Skipped
from palaver.model.library import Conversation

ID = "5f1c0a52-5d0e-4d53-a7f5-2b8c7d9e0f11"
ROOT = "00000000-0000-4000-8000-000000000000"
NOT_SUPPORTED = "```\nThis block is not supported on your current device yet.\n```"


def message(
    uuid: str, sender: Any, *blocks: Any, at: str = "2026-03-01T10:00:00.123456Z", **more: Any
) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "text": "flat text, with thinking in it",
        "content": [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks],
        "sender": sender,
        "created_at": at,
        "updated_at": at,
        "attachments": [],
        "files": [],
    } | more


def conversation(*messages: Any, **more: Any) -> dict[str, Any]:
    about = {
        "uuid": ID,
        "name": "Ivy",
        "summary": "",
        "created_at": "2026-03-01T10:00:00.123456Z",
        "updated_at": "2026-03-01T10:05:00+00:00",
        "account": {"uuid": "a"},
        "chat_messages": list(messages),
    }
    return about | more


def read(*conversations: Any) -> tuple[list[Conversation], list[Skipped]]:
    return all_of(claude_ai, item_of(as_json(list(conversations))))


def said(*messages: Any) -> list[tuple[str, str]]:
    found, _ = read(conversation(*messages))
    return told(found[0]) if found else []


def test_a_conversation_has_its_ids_times_title_and_words():
    (found,), skipped = read(
        conversation(message("u1", "human", "Where is the ivy?"), message("u2", "assistant", "There."))
    )
    assert skipped == []
    assert (found.id, found.origin, found.title) == (f"claude-ai:{ID}", "claude-ai", "Ivy")
    assert found.created_at == datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)
    assert found.updated_at == datetime(2026, 3, 1, 10, 5, tzinfo=UTC)
    assert [(one.id, one.role, one.text, one.ts) for one in found.messages] == [
        ("u1", "user", "Where is the ivy?", found.created_at),
        ("u2", "assistant", "There.", found.created_at),
    ]


def test_tools_stand_where_they_were_called_and_thinking_is_left_out():
    (found,), _ = read(
        conversation(
            message(
                "u1",
                "assistant",
                {"type": "thinking", "thinking": "hm", "summaries": []},
                "I will look.",
                {"type": "tool_use", "id": "t", "name": "web_search", "input": {"query": "ivy"}},
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "text", "text": "found it", "uuid": "x"}],
                },
                {
                    "type": "tool_use",
                    "name": "artifacts",
                    "input": {"command": "create", "id": "i", "title": "Plan", "content": "p" * 5000},
                },
                {"type": "tool_use", "name": "create_file", "input": {"path": "/a.py", "file_text": "print()"}},
                {"type": "tool_result", "content": None},
                "Here",
                "it is.",
            )
        )
    )
    assert [(one.id, one.role, one.text) for one in found.messages] == [
        ("u1", "assistant", "I will look."),
        ("u1.1", "tool", '[tool web_search] {"query":"ivy"}'),
        ("u1.2", "tool", "found it"),
        ("u1.3", "tool", "[tool artifacts] Plan\n" + "p" * 5000),
        ("u1.4", "tool", "[tool create_file] /a.py\nprint()"),
        ("u1.5", "assistant", "Here\nit is."),
    ]


def test_the_flat_text_counts_only_where_there_are_no_blocks():
    flat = message("u1", "assistant", text=f"{NOT_SUPPORTED}\nHere it is.")
    assert said(flat) == [("assistant", "Here it is.")]
    assert said(message("u1", "assistant", "blocks")) == [("assistant", "blocks")]


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": ""}], [{"type": "text"}, None], None, "x"])
def test_where_the_blocks_hold_no_words_the_flat_text_counts(content: Any):
    assert said(message("u1", "human", content=content, text="only here")) == [("user", "only here")]


def test_what_is_attached_belongs_to_what_was_said():
    pasted = {"file_name": "", "file_size": 9, "file_type": "txt", "extracted_content": "a long paste"}
    file = {"file_name": "ivy.pdf", "extracted_content": "about ivy"}
    assert said(message("u1", "human", "", text="", attachments=[pasted])) == [("user", "a long paste")]
    assert said(
        message(
            "u1", "human", "see", attachments=[file, 7], files=[{"file_name": "ivy.pdf"}, {"file_name": "b.png"}, {}]
        )
    ) == [("user", "see\n\n[file ivy.pdf]\nabout ivy\n\n[file b.png]")]


@pytest.mark.parametrize(
    "about, path",
    [
        ({}, ["q", "new"]),
        ({"current_leaf_message_uuid": "more"}, ["q", "old", "more"]),
        ({"current_leaf_message_uuid": "unknown"}, ["q", "new"]),
    ],
)
def test_the_branch_with_the_newest_end_is_kept(about: dict[str, Any], path: list[str]):
    (found,), _ = read(
        conversation(
            message("q", "human", "question", parent_message_uuid=ROOT),
            message("old", "assistant", "old answer", parent_message_uuid="q", at="2026-03-01T10:01:00Z"),
            message("new", "assistant", "new answer", parent_message_uuid="q", at="2026-03-01T10:09:00Z"),
            message("more", "human", "go on", parent_message_uuid="old", at="2026-03-01T10:05:00Z"),
            **about,
        )
    )
    assert [one.id for one in found.messages] == path


def test_without_links_the_order_of_the_list_counts():
    assert [
        text for _, text in said(message("b", "human", "1"), message("a", "assistant", "2"), message("c", "human", "3"))
    ] == ["1", "2", "3"]


def test_a_circle_ends():
    links = {"a": "b", "b": "a"}
    assert len(said(*(message(id, "human", id, parent_message_uuid=parent) for id, parent in links.items()))) == 2


def test_empty_conversations_are_left_out_with_a_word():
    found, skipped = read(
        conversation(),
        conversation(message("u", "system", "x")),
        {"chat_messages": 7},
        conversation(message("u", "human", "x"), uuid=None),
    )
    assert found == []
    assert [one.why for one in skipped] == [
        "nothing was said in it",
        "nothing was said in it",
        "a conversation without messages",
        "a conversation without an id",
    ]


def test_files_are_recognised_by_what_is_in_them():
    export = as_json([conversation(message("u1", "human", "x"))])
    assert claude_ai.recognises(item_of(export, "whatever"), export)
    assert not claude_ai.recognises(item_of(b"", "users.json"), b'[{"uuid": "x", "full_name": "Ann"}]')
    assert not claude_ai.recognises(item_of(b""), b'[{"title": "x", "mapping": {')


block = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result"]) | anything},
    optional={
        "text": anything,
        "name": anything,
        "input": st.fixed_dictionaries({}, optional={"content": anything, "file_text": anything, "title": anything})
        | anything,
        "content": anything,
    },
)
near_message = st.fixed_dictionaries(
    {"uuid": few_ids | anything, "sender": st.sampled_from(["human", "assistant"]) | anything},
    optional={
        "content": st.lists(block | anything, max_size=3) | anything,
        "text": anything,
        "parent_message_uuid": few_ids | anything,
        "created_at": anything,
        "attachments": st.lists(
            st.fixed_dictionaries({"file_name": anything, "extracted_content": anything}) | anything, max_size=2
        )
        | anything,
        "files": st.lists(st.fixed_dictionaries({"file_name": anything}) | anything, max_size=2) | anything,
    },
)
near = st.fixed_dictionaries(
    {"chat_messages": st.lists(near_message | anything, max_size=5) | anything, "uuid": few_ids | anything},
    optional={
        "name": anything,
        "created_at": anything,
        "updated_at": anything,
        "current_leaf_message_uuid": few_ids | anything,
    },
)


@given(st.lists(near | anything, max_size=3) | anything)
def test_no_conversation_is_too_strange(value: Any):
    item = item_of(as_json(value))
    claude_ai.recognises(item, as_json(value))
    with suppress(Unreadable):
        assert_storable(claude_ai.conversations(item))


@given(st.binary())
def test_no_bytes_are_too_strange(raw: bytes):
    claude_ai.recognises(item_of(raw), raw)
    with suppress(Unreadable):
        assert_storable(claude_ai.conversations(item_of(raw)))
