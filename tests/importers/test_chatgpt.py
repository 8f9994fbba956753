from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.shapes import all_of, anything, as_json, assert_storable, few_ids, item_of, told

from palaver.importers import Unreadable
from palaver.importers.chats import chatgpt
from palaver.importers.chats.chatgpt import without_marks
from palaver.importers.item import Skipped
from palaver.model.library import Conversation

ID = "67a0c2d4-1a2b-8003-9d4e-5f6a7b8c9d0e"
START = 1738500000.123456


def node(id: str, parent: str | None, message: dict[str, Any] | None, *children: str) -> dict[str, Any]:
    return {"id": id, "message": message, "parent": parent, "children": list(children)}


def message(role: Any, content: Any, at: Any = START, **more: Any) -> dict[str, Any]:
    if isinstance(content, str):
        content = {"content_type": "text", "parts": [content]}
    return {
        "id": "m",
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": at,
        "update_time": None,
        "content": content,
        "status": "finished_successfully",
        "end_turn": None,
        "weight": 1.0,
        "metadata": {},
        "recipient": "all",
        "channel": None,
    } | more


def conversation(*messages: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """A straight one: node n0 is the root, and each message follows the one before."""
    nodes = {"n0": node("n0", None, None, "n1")}
    for n, one in enumerate(messages, 1):
        nodes[f"n{n}"] = node(f"n{n}", f"n{n - 1}", one)
    about = {
        "title": "Ivy",
        "create_time": START,
        "update_time": START + 60,
        "mapping": nodes,
        "moderation_results": [],
        "current_node": f"n{len(messages)}",
        "conversation_id": ID,
        "id": ID,
    }
    return about | more


def read(*conversations: Any) -> tuple[list[Conversation], list[Skipped]]:
    return all_of(chatgpt, item_of(as_json(list(conversations))))


def said(*messages: dict[str, Any] | None, **more: Any) -> list[tuple[str, str]]:
    found, _ = read(conversation(*messages, **more))
    return told(found[0]) if found else []


# A conversation


def test_a_conversation_has_its_ids_times_title_and_words():
    (found,), skipped = read(
        conversation(message("user", "Where is the ivy?"), message("assistant", "On the wall.", None))
    )
    assert skipped == []
    assert (found.id, found.origin, found.title) == (f"chatgpt:{ID}", "chatgpt", "Ivy")
    assert found.created_at == datetime(2025, 2, 2, 12, 40, 0, 123456, tzinfo=UTC)
    assert found.updated_at == datetime(2025, 2, 2, 12, 41, 0, 123456, tzinfo=UTC)
    assert [(one.id, one.role, one.text, one.ts) for one in found.messages] == [
        ("n1", "user", "Where is the ivy?", found.created_at),
        ("n2", "assistant", "On the wall.", None),
    ]


@pytest.mark.parametrize(
    "about, id",
    [
        ({"id": None}, f"chatgpt:{ID}"),
        ({"conversation_id": None}, f"chatgpt:{ID}"),
        ({"conversation_id": None, "id": None}, None),
        ({"id": "x" * 1000}, None),
    ],
)
def test_it_always_has_an_id(about: dict[str, Any], id: str | None):
    (found,), _ = read(conversation(message("user", "hi"), **about))
    (again,), _ = read(conversation(message("user", "hi"), **about))
    assert found.id == again.id
    assert len(found.id) < 200
    assert id is None or found.id == id


def test_conversations_without_ids_are_told_apart_and_stay_the_same_while_they_go_on():
    none = {"id": None, "conversation_id": None}
    one = conversation(message("user", "hi"), **none)
    later = conversation(message("user", "hi"), message("assistant", "ho"), title="Renamed", **none)
    other = conversation(message("user", "hi"), create_time=START + 1, **none)
    ids = [found.id for found in read(one)[0] + read(later)[0] + read(other)[0]]
    assert ids[0] == ids[1] != ids[2]


def test_an_export_in_which_nothing_is_holds_no_conversations():
    empty = item_of(b" [ ]\n", "conversations.json")
    assert chatgpt.recognises(empty, b" [ ]\n")
    assert all_of(chatgpt, empty) == ([], [])
    assert not chatgpt.recognises(item_of(b"[]", "other.json"), b"[]")


def test_without_a_title_it_is_called_by_what_was_asked_first():
    (found,), _ = read(conversation(message("user", "Where is\nthe ivy? " + "x" * 200), title=None))
    assert found.title == ("Where is the ivy? " + "x" * 200)[:100]


def test_without_times_of_its_own_it_has_those_of_its_messages():
    times = {"create_time": None, "update_time": "?"}
    (found,), _ = read(conversation(message("user", "a", 20), message("assistant", "b", 10), **times))
    assert (found.created_at, found.updated_at) == (found.messages[1].ts, found.messages[0].ts)


# Branches


def branched(**more: Any) -> dict[str, Any]:
    """A question; an answer, and a newer one in its place; the older one was gone on with."""
    mapping = {
        "root": node("root", None, None),
        "q": node("q", "root", message("user", "question", 1)),
        "old": node("old", "q", message("assistant", "old answer", 2)),
        "new": node("new", "q", message("assistant", "new answer", 9)),
        "more": node("more", "old", message("user", "go on", 5)),
    }
    return conversation(mapping=mapping, **more)


@pytest.mark.parametrize(
    "current, path",
    [
        ("more", ["q", "old", "more"]),
        ("new", ["q", "new"]),
        ("old", ["q", "old"]),
        (None, ["q", "new"]),
        ("gone", ["q", "new"]),
        ("root", ["q", "new"]),
        (7, ["q", "new"]),
    ],
)
def test_the_branch_that_was_shown_last_is_kept_else_the_one_with_the_newest_end(current: Any, path: list[str]):
    (found,), _ = read(branched(current_node=current))
    assert [one.id for one in found.messages] == path


def test_a_circle_is_walked_once():
    mapping = {"a": node("a", "b", message("user", "a")), "b": node("b", "a", message("user", "b"))}
    (found,), _ = read(conversation(mapping=mapping, current_node="b"))
    assert [one.id for one in found.messages] == ["a", "b"]
    assert read(conversation(mapping=mapping, current_node=None))[0] == []


def test_links_from_parents_to_children_alone_are_followed_too():
    mapping = {
        "r": node("r", None, None, "q"),
        "q": node("q", None, message("user", "q"), "old", "new"),
        "old": node("old", None, message("assistant", "old")),
        "new": node("new", None, message("assistant", "new")),
    }
    (found,), _ = read(conversation(mapping=mapping, current_node="new"))
    assert [one.id for one in found.messages] == ["q", "new"]


# What is kept


IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1", "width": 1, "metadata": {}}
AUDIO = {"content_type": "real_time_user_audio_video_asset_pointer", "audio_asset_pointer": {"asset_pointer": "x"}}


@pytest.mark.parametrize(
    "role, content, more, expected",
    [
        ("user", {"content_type": "text", "parts": ["a", "", "b"]}, {}, ("user", "a\nb")),
        (
            "user",
            {"content_type": "multimodal_text", "parts": [IMAGE, "what is it?"]},
            {},
            ("user", "[image]\nwhat is it?"),
        ),
        (
            "user",
            {
                "content_type": "multimodal_text",
                "parts": [{"content_type": "audio_transcription", "text": "hello"}, AUDIO],
            },
            {},
            ("user", "hello"),
        ),
        ("user", {"content_type": "multimodal_text", "parts": [AUDIO]}, {}, ("user", "[audio]")),
        (
            "user",
            {"content_type": "multimodal_text", "parts": [{"content_type": "video_container_asset_pointer"}, 7, None]},
            {},
            ("user", "[video]"),
        ),
        (
            "user",
            {
                "content_type": "multimodal_text",
                "parts": [{"content_type": "text", "text": "t"}, {"content_type": "other_pointer"}],
            },
            {},
            ("user", "t\n[file]"),
        ),
        (
            "assistant",
            {"content_type": "code", "language": "python", "text": "1 + 1"},
            {"recipient": "python"},
            ("tool", "[tool python] 1 + 1"),
        ),
        (
            "assistant",
            {"content_type": "code", "text": '{"name":"Plan","type":"document","content":"one\\ntwo"}'},
            {"recipient": "canmore.create_textdoc"},
            ("tool", "[tool canmore.create_textdoc] Plan\none\ntwo"),
        ),
        (
            "assistant",
            {"content_type": "code", "text": '{"updates":[]}'},
            {"recipient": "canmore.update_textdoc"},
            ("tool", '[tool canmore.update_textdoc] {"updates":[]}'),
        ),
        (
            "assistant",
            {"content_type": "text", "parts": ['{"prompt":"ivy"}']},
            {"recipient": "dalle.text2im"},
            ("tool", '[tool dalle.text2im] {"prompt":"ivy"}'),
        ),
        ("assistant", {"content_type": "code", "language": "json", "text": "{}"}, {}, ("assistant", "{}")),
        ("tool", {"content_type": "execution_output", "text": "2"}, {}, ("tool", "2")),
        (
            "tool",
            {"content_type": "tether_quote", "url": "http://x", "domain": "x", "title": "X", "text": "q"},
            {},
            ("tool", "X\nhttp://x\nq"),
        ),
        ("tool", {"content_type": "tether_browsing_display", "result": "r", "summary": None}, {}, ("tool", "r")),
        (
            "tool",
            {"content_type": "sonic_webpage", "url": "http://x", "title": "X", "text": "t", "snippet": None},
            {},
            ("tool", "X\nhttp://x\nt"),
        ),
        (
            "tool",
            {"content_type": "system_error", "name": "Timeout", "text": "too slow"},
            {},
            ("tool", "Timeout\ntoo slow"),
        ),
        ("tool", {"content_type": "of_tomorrow", "parts": ["p"]}, {}, ("tool", "p")),
    ],
)
def test_every_kind_of_content_is_kept_as_text(
    role: str, content: dict[str, Any], more: Any, expected: tuple[str, str]
):
    assert said(message(role, content, **more)) == [expected]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Ivy climbs.\ue200cite\ue202turn0search3\ue202turn1view0\ue201 It does.", "Ivy climbs. It does."),
        ('\ue200image_group\ue202{"query":["ivy"]}\ue201\nIvy', "\nIvy"),
        ('in \ue200entity\ue202["city","Paris","capital"]\ue201.', "in Paris."),
        ("see \ue200url\ue202the page\ue202turn0search1\ue201", "see the page"),
        ("\ue203Ivy climbs\ue204\ue200filecite\ue202turn0file0\ue201.", "Ivy climbs."),
        ("cut \ue200cite\ue202turn0", "cut citeturn0"),
        ("Ivy【1†source】 and【12:3†notes.pdf】 more【4†L1-L9】", "Ivy and more"),
        ("Ivy citeturn0search3turn1view0.", "Ivy ."),
        ("Ivy :contentReference[oaicite:0]{index=0}climbs【oaicite:12】.", "Ivy climbs."),
        ("【lenticular】 and † stay, \ue202 too", "【lenticular】 and † stay, \ue202 too"),
    ],
)
def test_marks_of_citations_are_taken_out(text: str, expected: str):
    assert without_marks(text) == expected


# What is left out


@pytest.mark.parametrize(
    "left_out",
    [
        None,
        message("system", "You are ChatGPT."),
        message("system", "…", metadata={"is_user_system_message": True}),
        message("user", {"content_type": "user_editable_context", "user_profile": "I am Ann"}),
        message("assistant", {"content_type": "model_editable_context", "model_set_context": "x"}),
        message("user", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        message("assistant", "thinking aloud", channel="analysis"),
        message("assistant", {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "c"}]}),
        message("assistant", {"content_type": "reasoning_recap", "content": "Thought for 9 seconds"}),
        message("assistant", {"content_type": "text", "parts": [""]}),
        message("assistant", {"content_type": "text", "parts": []}),
        message("assistant", {"content_type": "text"}),
        message("assistant", "", recipient="python"),
        message("critic", "x"),
        message(None, "x"),
        {"content": {"parts": ["x"]}},
    ],
)
def test_what_was_not_shown_is_left_out(left_out: dict[str, Any] | None):
    assert said(message("user", "a"), left_out, message("assistant", "b")) == [("user", "a"), ("assistant", "b")]


def test_empty_and_broken_conversations_are_left_out_with_a_word():
    good = conversation(message("user", "a"))
    found, skipped = read(conversation(), {"mapping": []}, "x", good, {"id": "y"})
    assert len(found) == 1
    assert [one.why for one in skipped] == [
        "nothing was said in it",
        "a conversation without messages",
        "a conversation that is no JSON object",
        "a conversation without messages",
    ]


# What is strange


def test_text_that_cannot_be_stored_is_mended_and_text_without_end_is_cut():
    assert said(message("user", "a\x00b")) == [("user", "a\ufffdb")]
    raw = as_json([conversation(message("user", "half"))]).replace(b'"half"', b'"half \\ud83d, \xff"')
    (found,), _ = all_of(chatgpt, item_of(raw))
    assert told(found) == [("user", "half \ufffd, \ufffd")]
    ((_, text),) = said(message("user", "x" * 50_000_000))
    assert len(text) == 1_000_000
    assert text.endswith("x…")


def test_files_are_recognised_by_what_is_in_them():
    export = as_json([conversation(message("user", "a"))])
    assert chatgpt.recognises(item_of(export, "whatever.txt"), export)
    assert chatgpt.recognises(item_of(export), b'\xef\xbb\xbf [{"title": "x", "create_time": 1')
    assert chatgpt.recognises(item_of(export), b'{"conversations": ' + export)
    assert not chatgpt.recognises(item_of(b""), b"[7]")
    assert not chatgpt.recognises(item_of(b""), b'[{"uuid": "x", "chat_messages": [')
    assert not chatgpt.recognises(item_of(b"", "user.json"), b'{"id": "user-1", "email": "x"}')


near_content = st.fixed_dictionaries(
    {"content_type": st.sampled_from(["text", "multimodal_text", "code", "thoughts", "system_error"]) | anything},
    optional={
        "parts": st.lists(st.just(IMAGE) | anything, max_size=3) | anything,
        "text": anything,
        "result": anything,
    },
)
near_message = st.fixed_dictionaries(
    {
        "author": st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"]) | anything}) | anything,
        "content": near_content | anything,
    },
    optional={"create_time": anything, "recipient": anything, "channel": anything, "metadata": anything},
)
near_node = st.fixed_dictionaries({"message": near_message | anything, "parent": few_ids | anything})
near = st.fixed_dictionaries(
    {"mapping": st.dictionaries(few_ids, near_node | anything, max_size=5) | anything},
    optional={
        "current_node": few_ids | anything,
        "id": few_ids | anything,
        "title": anything,
        "create_time": anything,
        "update_time": anything,
    },
)


@given(st.lists(near | anything, max_size=3) | anything)
def test_no_conversation_is_too_strange(value: Any):
    item = item_of(as_json(value))
    chatgpt.recognises(item, as_json(value))
    with suppress(Unreadable):
        assert_storable(chatgpt.conversations(item))


@given(st.binary())
def test_no_bytes_are_too_strange(raw: bytes):
    chatgpt.recognises(item_of(raw), raw)
    with suppress(Unreadable):
        assert_storable(chatgpt.conversations(item_of(raw)))
