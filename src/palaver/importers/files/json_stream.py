"""Stream the elements of a JSON array that is too large for memory.

The file is the array, or an object with the array under `conversations`. An object without it counts as one element.
Elements are bytes: only brackets and quotes are parsed here, so an element may still be invalid JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import orjson

from palaver.importers import Unreadable, parse_object
from palaver.importers.item import Item, Skipped

LONGEST_ELEMENT = 128 * 1024 * 1024
CHUNK = 1024 * 1024
LEADING_BYTES = b"\xef\xbb\xbf \t\r\n"

TORN = "it ends too early; what came before is kept"
TRAILING = "something that is no part of it follows after its end; what came before is kept"

# Text between brackets, with whole strings in it; the rest of a string up to its quote.
_PLAIN = rb'[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BETWEEN = re.compile(rb"(?:%b)*+" % _PLAIN, re.DOTALL)
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


_NESTED = rb"(?:%b)*+" % _PLAIN  # also matches whole brackets, seven deep: faster than a loop in Python
for _ in range(7):
    _NESTED = rb"(?:%b|[\[{]%b[\]}])*+" % (_PLAIN, _NESTED)
_INSIDE = re.compile(_NESTED, re.DOTALL)
_KEY = re.compile(rb'"conversations"\s*:\s*\Z')
_KEY_REACH = 64
_IDLE = b" \t\r\n,"
_QUOTE, _OPENING, _ARRAY = ord('"'), b"[{", ord("[")


def is_json(item: Item, head: bytes) -> bool:
    """Whether the file may be one JSON value, not JSON lines."""
    return head.lstrip(LEADING_BYTES).startswith((b"[", b"{")) and not item.file_name.endswith(".jsonl")


def conversations_in(item: Item, messages: str, kind: type) -> Iterator[dict[str, Any] | Skipped]:
    """The conversations of a file: its objects that have their messages under this key, in a value of this kind."""
    for found in objects(item):
        is_one = isinstance(found, Skipped) or isinstance(found.get(messages), kind)
        yield found if is_one else Skipped(item.name, "a conversation without messages")


def objects(item: Item) -> Iterator[dict[str, Any] | Skipped]:
    """The parsed objects of a file; Skipped for an element that is no object or too long."""
    with item.open() as source:
        for raw in elements(source):
            if raw is None:
                yield Skipped(item.name, "a conversation of more than 128 MB")
                continue
            try:
                yield parse_object(raw)
            except Unreadable as problem:
                count = 0  # of values that are no objects, with commas between them
                with suppress(orjson.JSONDecodeError):
                    count = len(orjson.loads(b"[" + raw + b"]")) if len(raw) < CHUNK else 0
                yield Skipped(item.name, f"a conversation that is {'no JSON object' if count else problem}", count or 1)


def elements(source: BinaryIO, longest: int = LONGEST_ELEMENT) -> Iterator[bytes | None]:
    """Yield each element; None for one longer than `longest` bytes.

    Raises Unreadable at the end if the array is incomplete, or if something follows it.
    """
    data = _beginning(source)
    is_array = data[0] == _ARRAY
    depth = at = 1
    inside = 1 if is_array else None  # the depth of the elements; in an object it is not known yet
    start = 1 if is_array else 0  # the start of the current element
    is_in_string = is_too_long = False

    def cut(end: int) -> Iterator[bytes | None]:
        """The element or the text between two elements up to here, if there is anything beside commas."""
        nonlocal start, is_too_long
        if is_too_long or end - start > longest:
            yield None
        elif found := bytes(data[start:end].strip(_IDLE)):
            yield found
        start, is_too_long = end, False

    while True:
        if is_in_string:
            pattern = _IN_STRING
        else:  # within an element only its last bracket matters
            pattern = _INSIDE if depth > (inside or 1) else _BETWEEN
        found = pattern.match(data, at)
        at = found.end() if found else at
        if at == len(data) or (is_in_string and data[at] != _QUOTE):  # a backslash at the end waits for the next chunk
            if at - start > longest:
                is_too_long, start = True, max(start, at - _KEY_REACH)
            del data[:start]
            at, start = at - start, 0
            if not (more := source.read(max(CHUNK, len(data) // 4))):
                raise Unreadable(TORN)
            data += more
            continue
        sign = data[at]
        at += 1
        if sign == _QUOTE:
            is_in_string = not is_in_string
        elif sign in _OPENING:
            is_key = inside is None and depth == 1 and _KEY.search(data, max(0, at - _KEY_REACH), at - 1)
            if depth == inside:
                yield from cut(at - 1)
            elif is_key and sign == _ARRAY:
                inside, start, is_too_long = 2, at, False
            depth += 1
        else:
            depth -= 1
            if depth == inside:
                yield from cut(at)
            elif depth == (inside or 1) - 1:
                yield from cut(at - 1 if inside else at)
                break
    rest: bytes | bytearray = data[at:] if depth == 0 else b""
    while depth == 0 and not rest.strip():
        if not (rest := source.read(CHUNK)):
            return
    if rest:
        raise Unreadable(TRAILING)


def _beginning(source: BinaryIO) -> bytearray:
    """The first chunk, from the first bracket on."""
    while more := source.read(CHUNK):
        if data := bytearray(more.lstrip(LEADING_BYTES)):
            if data[0] not in _OPENING:
                break
            return data
    raise Unreadable("not JSON" if more else "empty")
