"""The editor of JSON with comments changes one value and keeps every other character."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.setup import jsonc

NAMES = st.text(st.sampled_from('ab"\\/é東 {}[],:'), min_size=1, max_size=4)
SCALARS = st.none() | st.booleans() | st.integers(-9, 99) | st.floats(-1e6, 1e6) | NAMES
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
ENTRY = {"type": "http", "url": "http://127.0.0.1:39765/mcp?tools=core", "args": ["mcp"], "é": {}}


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict]:
    """A text with comments, odd blanks and trailing commas, and its value."""
    value = draw(OBJECTS)
    end = draw(st.sampled_from(["\n", "\r\n"]))
    unit = draw(st.sampled_from(["  ", "    ", "\t", ""]))
    noise = st.sampled_from(["", "", " ", f" // a, comment {{{end}", " /* two */ ", f"{end}{end}"])
    is_noisy = draw(st.booleans())

    def extra() -> str:
        return draw(noise) if is_noisy else ""

    def write(one, indent: str) -> str:
        if not isinstance(one, dict | list) or not one:
            return json.dumps(one, ensure_ascii=draw(st.booleans()))
        is_flat = draw(st.booleans())
        open_, close = "{}" if isinstance(one, dict) else "[]"
        inner = indent + unit
        pairs = one.items() if isinstance(one, dict) else ((None, item) for item in one)
        parts = []
        for key, item in pairs:
            label = "" if key is None else json.dumps(key) + extra() + ":" + draw(st.sampled_from(["", " "])) + extra()
            parts.append((" " if is_flat else end + inner) + extra() + label + write(item, inner) + extra())
        last = "," + extra() if draw(st.booleans()) and is_noisy else ""
        return open_ + ",".join(parts) + last + ("" if is_flat else end + indent) + close

    bom = draw(st.sampled_from(["", "\ufeff"]))
    return bom + extra() + write(value, "") + draw(st.sampled_from(["", end])) + extra(), value


@given(documents())
def test_a_document_with_comments_is_read(document: tuple[str, dict]):
    text, value = document
    assert jsonc.parse(text) == value


@given(documents(), NAMES, st.sampled_from([ENTRY, [], {}, [ENTRY], "text", None, 1]))
def test_a_new_member_is_added_and_can_be_taken_out(document: tuple[str, dict], name: str, new):
    text, value = document
    name += "!new"
    added = jsonc.put(text, (name,), new)
    assert jsonc.parse(added) == value | {name: new}
    removed = jsonc.delete(added, (name,))
    assert jsonc.parse(removed) == value
    if value or "{}" in text:
        assert removed == text


@given(documents(), st.data())
def test_any_value_can_be_replaced_and_deleted(document: tuple[str, dict], data: st.DataObject):
    text, value = document
    paths = list(_paths(value))
    if not paths:
        return
    path = data.draw(st.sampled_from(paths))
    expected = copy.deepcopy(value)
    parent = expected
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = ENTRY
    assert jsonc.parse(jsonc.put(text, path, ENTRY)) == expected
    del parent[path[-1]]
    assert jsonc.parse(jsonc.delete(text, path)) == expected


@given(documents())
def test_missing_containers_are_added(document: tuple[str, dict]):
    text, value = document
    added = jsonc.put(text, ("hooks!", "Stop", 0), ENTRY)
    assert jsonc.parse(added) == value | {"hooks!": {"Stop": [ENTRY]}}
    twice = jsonc.put(added, ("hooks!", "Stop", 1), 2)
    assert jsonc.parse(twice) == value | {"hooks!": {"Stop": [ENTRY, 2]}}
    assert jsonc.delete(twice, ("hooks!", "Stop", 1)) == added


def _paths(value, before: tuple = ()):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*before, key)
        if isinstance(inner, dict | list):
            yield from _paths(inner, (*before, key))


def test_a_member_is_written_as_the_file_is_written():
    text = '{\n    // servers\n    "mcpServers": {\n        "a": {} // mine\n    }\n}\n'
    assert jsonc.put(text, ("mcpServers", "palaver"), {"url": "u"}) == (
        '{\n    // servers\n    "mcpServers": {\n        "a": {}, // mine\n'
        '        "palaver": {\n            "url": "u"\n        }\n    }\n}\n'
    )


def test_tabs_line_breaks_and_the_byte_order_mark_stay():
    text = '\ufeff{\r\n\t"a": 1,\r\n}\r\n'
    assert jsonc.put(text, ("b",), [1]) == '\ufeff{\r\n\t"a": 1,\r\n\t"b": [\r\n\t\t1\r\n\t],\r\n}\r\n'


def test_an_empty_file_becomes_an_object():
    assert jsonc.put("", ("a", "b"), 1) == '{\n  "a": {\n    "b": 1\n  }\n}\n'


def test_a_member_before_others_is_deleted_with_its_comma():
    assert jsonc.delete('{\n  "a": 1, // a\n  "b": 2,\n  // c\n  "c": 3\n}', ("b",)) == (
        '{\n  "a": 1, // a\n  // c\n  "c": 3\n}'
    )


def test_a_line_comment_never_swallows_the_end():
    assert jsonc.parse(jsonc.delete('{"a": 1, // c\n "b": 2}', ("b",))) == {"a": 1}


@pytest.mark.parametrize(
    "text, place",
    [
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3"),
        ('{"a": }', "line 1, column 7"),
        ('{\n"a": 1', "line 2, column 7"),
        ("{a: 1}", "line 1, column 2"),
        ('{"a": 1} x', "line 1, column 10"),
        ('{"a": 1 /* }', "line 1, column 9"),
        ('{"a": tru}', "line 1, column 7"),
        ('{"a": 01}', "line 1, column 7"),
        ("[" * 100_000, "line 1, column 1"),
    ],
)
def test_an_error_names_line_and_column(text: str, place: str):
    with pytest.raises(jsonc.MalformedFile, match=place):
        jsonc.parse(text)


def test_a_value_of_the_wrong_kind_is_not_overwritten():
    with pytest.raises(jsonc.MalformedFile, match="line 1, column 16: an object is expected"):
        jsonc.put('{"mcpServers": []}', ("mcpServers", "palaver"), {})
