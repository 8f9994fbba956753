from __future__ import annotations

import io
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.shapes import anything, as_json, item_of

from palaver.importers import Unreadable
from palaver.importers.files import json_stream
from palaver.importers.files.json_stream import elements, objects
from palaver.importers.item import Skipped


class Drops(io.RawIOBase):
    """A stream that gives a few bytes at a time, so that every place is once the end of a piece."""

    def __init__(self, raw: bytes, size: int) -> None:
        self._raw, self._size, self._at = raw, size, 0

    def read(self, _size: int = -1) -> bytes:
        piece = self._raw[self._at : self._at + self._size]
        self._at += self._size
        return piece


def split(raw: bytes, size: int = 1_000_000, **more: Any) -> list[bytes | None]:
    return list(elements(Drops(raw, size), **more))  # type: ignore[arg-type]


structured = st.lists(st.dictionaries(st.text(), anything, max_size=3) | st.lists(anything, max_size=3), max_size=5)


@given(structured, st.integers(1, 7), st.sampled_from([None, 1]), st.booleans())
def test_the_elements_are_those_of_the_array_wherever_it_is_cut(
    values: list[Any], size: int, indent: int | None, is_ascii: bool
):
    raw = json.dumps(values, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    for whole in (raw, b"\xef\xbb\xbf \n" + raw, b'{"version": [{}], "conversations" : ' + raw + b', "more": [1]}'):
        found = [json.loads((one or b"").decode("utf-8", "surrogatepass")) for one in split(whole, size)]
        assert json.dumps(found) == json.dumps(values)  # NaN is not equal to itself


@pytest.mark.parametrize(
    "raw, expected",
    [
        (b"[]", []),
        (b"[ ]", []),
        (b'{"mapping": {"a": [{}]}}', [b'{"mapping": {"a": [{}]}}']),
        (b'{"conversations": {}}', [b'{"conversations": {}}']),
        (b'{"a": {"conversations": [{}]}}', [b'{"a": {"conversations": [{}]}}']),
        (b'{"conversations": []}', []),
        (rb'[{"a": "}]\"\\"}, {"b": "\\\""}]', [rb'{"a": "}]\"\\"}', rb'{"b": "\\\""}']),
        (b'[1, {"a": 1}, "x", null]', [b" 1, ", b'{"a": 1}', b', "x", null']),
    ],
)
def test_what_is_an_element(raw: bytes, expected: list[bytes]):
    assert [one.strip(b" ,") if one else one for one in split(raw, 3)] == [one.strip(b" ,") for one in expected]


@pytest.mark.parametrize(
    "raw",
    [b"", b"  ", b"{", b"[", b'[{"a": 1}', b'[{"a": "', b'[{"a": "\\', b'[{"a": 1},', b"x", b"]", b"[{}] and more"],
)
def test_what_ends_too_early_or_goes_on_or_is_no_json_is_said_so(raw: bytes):
    with pytest.raises(Unreadable):
        split(raw)


def test_what_came_before_a_torn_end_is_kept():
    found = elements(io.BytesIO(b'[{"a": 1}, {"b": '))
    assert next(found) == b'{"a": 1}'
    with pytest.raises(Unreadable, match="too early"):
        next(found)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_an_element_that_is_too_long_is_passed_over(size: int):
    raw = b'[{"a": 1}, {"b": "' + b"x" * 500 + b'"}, {"c": 3}]'
    assert split(raw, size, longest=100) == [b'{"a": 1}', None, b'{"c": 3}']
    assert split(b'["' + b"x" * 500 + b'", {"c": 3}]', size, longest=100) == [None, b'{"c": 3}']
    assert split(b'{"b": "' + b"x" * 500 + b'"}', size, longest=100) == [None]
    assert split(b'{"b": "' + b"x" * 500 + b'", "conversations": [{"c": 3}]}', size, longest=100) == [b'{"c": 3}']


def test_an_element_that_is_too_long_takes_no_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_stream, "CHUNK", 1000)
    longest_asked = 0

    class Endless(io.RawIOBase):
        left = 2_000

        def read(self, size: int = -1) -> bytes:
            nonlocal longest_asked
            longest_asked = max(longest_asked, size)
            self.left -= 1
            return (
                b'[{"a": "' if self.left == 1999 else b"x" * 1000 if self.left > 0 else b'"}]' if not self.left else b""
            )

    assert list(elements(Endless(), longest=10_000)) == [None]  # type: ignore[arg-type]
    assert longest_asked < 10_000


def test_what_is_no_object_is_left_out_with_a_word():
    found = list(objects(item_of(b'[1, {"a": 1}, {"b": nonsense}, ["c"], {"d": "\xff\\ud800"}]')))
    assert found == [
        Skipped("conversations.json", "a conversation that is no JSON object"),
        {"a": 1},
        Skipped("conversations.json", "a conversation that is not JSON"),
        Skipped("conversations.json", "a conversation that is no JSON object"),
        {"d": "\ufffd\ud800"},
    ]


def test_deep_json_is_left_out_with_a_word():
    deep = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    found = list(objects(item_of(b"[" + deep + b', {"b": 1}]')))
    assert found == [Skipped("conversations.json", "a conversation that is not JSON"), {"b": 1}]


def test_values_that_are_no_conversations_are_counted_one_by_one():
    """Wrong types are skipped and counted, never a crash."""
    found = list(objects(item_of(b'[{"a": 1}, null, 5, "x, y", {"b": 1}, true]')))
    why = "a conversation that is no JSON object"
    assert found == [{"a": 1}, Skipped("conversations.json", why, 3), {"b": 1}, Skipped("conversations.json", why, 1)]


@given(st.binary() | anything.map(as_json), st.integers(1, 7))
def test_no_bytes_are_too_strange(raw: bytes, size: int):
    with suppress(Unreadable):
        assert all(isinstance(one, bytes | None) for one in split(raw, size))
