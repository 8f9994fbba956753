"""Edit JSON with comments (JSONC) as text: add, replace and delete one value, and keep every other character.

A scanner finds the span of each value. Comments, trailing commas, indentation, line breaks and a byte order mark stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Key = str | int
"""A member of an object, or an index of an array. The index after the last one appends."""

_BLANK = " \t\r\n"
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null')


class MalformedFile(ValueError):
    """The text is not JSON. `line` and `column` begin at 1."""

    def __init__(self, text: str, at: int, problem: str) -> None:
        self.line = text.count("\n", 0, at) + 1
        self.column = at - (text.rfind("\n", 0, at) + 1) + 1
        self.problem = problem
        super().__init__(f"line {self.line}, column {self.column}: {problem}")


@dataclass
class Value:
    """A value and its span in the text."""

    start: int
    end: int
    plain: Any
    children: list[Child] = field(default_factory=list)

    @property
    def is_container(self) -> bool:
        return isinstance(self.plain, dict | list)


@dataclass
class Child:
    """A member of an object or an item of an array. `start` is where its key begins, or its value in an array."""

    key: Key
    start: int
    value: Value
    comma: int | None = None
    """The position of the comma after it."""


def parse(text: str) -> Any:
    """The value of the text. An empty text is an empty object."""
    return _scan(text).plain


def at(value: Any, path: Iterable[Key]) -> Any:
    """The value at a path, or None."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        else:
            value = value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None
    return value


def find(text: str, path: Iterable[Key]) -> Any:
    """The value at a path of the text, or None."""
    return at(parse(text), path)


def put(text: str, path: tuple[Key, ...], new: Any) -> str:
    """Replace the value at a path, or add it after its siblings. Missing objects on the way are added too."""
    root = _scan(text)
    if not text.removeprefix("\ufeff").strip(_BLANK):
        end = "\r\n" if "\r\n" in text else "\n"
        bom = "\ufeff" if text.startswith("\ufeff") else ""
        return bom + _write(_nested(path, new), "", "  ", end) + end
    value, parents = root, [root]
    for depth, key in enumerate(path):
        child = _child(value, key)
        if child is None:
            return _insert(text, parents, path[depth], _nested(path[depth + 1 :], new))
        value = child.value
        parents.append(value)
    unit, end = _indent_unit(text, root), _line_break(text)
    parent = parents[-2] if len(parents) > 1 else root
    is_flat = len(parents) > 1 and "\n" not in text[parent.start : parent.end]
    written = (
        json.dumps(new, ensure_ascii=False) if is_flat else _write(new, _line_indent(text, value.start), unit, end)
    )
    return text[: value.start] + written + text[value.end :]


def delete(text: str, path: tuple[Key, ...]) -> str:
    """Delete the value at a path. Comments around it stay."""
    value, parent = _scan(text), None
    for key in path:
        found = _child(value, key)
        if found is None:
            return text
        parent, child, value = value, found, found.value
    if parent is None:
        raise ValueError("the whole document cannot be deleted")
    number = parent.children.index(child)
    end = child.value.end if child.comma is None else child.comma + 1
    if number + 1 < len(parent.children):
        while text[end] in _BLANK:
            end += 1
        return text[: child.start] + text[end:]
    previous = parent.children[number - 1] if number else None
    after = previous.value.end if previous else parent.start + 1
    start, is_line_comment = _end_of_tokens(text, after, child.start)
    gap = text[end : parent.end - 1]
    if previous is None and start == parent.start + 1 and not gap.strip(_BLANK):
        return text[:start] + text[parent.end - 1 :]
    if is_line_comment and not re.match(r"[ \t]*\r?\n", text[end:]):
        gap = _line_break(text) + gap
    kept = text[:start]
    if previous and previous.comma is not None and child.comma is None:
        kept = text[: previous.comma] + text[previous.comma + 1 : start]
    return kept + gap + text[parent.end - 1 :]


# Writing


def _insert(text: str, parents: list[Value], key: Key, new: Any) -> str:
    """Add a value after the last child of the innermost of these containers."""
    parent, unit, end = parents[-1], _indent_unit(text, parents[0]), _line_break(text)
    if not isinstance(parent.plain, dict if isinstance(key, str) else list):
        kind = "an object" if isinstance(key, str) else "a list"
        raise MalformedFile(text, parent.start, f"{kind} is expected here")
    close = parent.end - 1
    label = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
    last = parent.children[-1] if parent.children else None
    at, _ = _end_of_tokens(text, last.value.end if last else parent.start + 1, close)
    if last and "\n" not in text[at:close]:
        member = label + json.dumps(new, ensure_ascii=False)
        if last.comma is None:
            return f"{text[: last.value.end]}, {member}{text[last.value.end :]}"
        return f"{text[: last.comma + 1]} {member},{text[last.comma + 1 :]}"
    first = parent.children[0] if parent.children else None
    indent = _line_indent(text, parent.start) + unit
    if first and "\n" in text[parent.start : first.start]:
        indent = _line_indent(text, first.start)
    member = end + indent + label + _write(new, indent, unit, end)
    rest = text[at:]
    if "\n" not in text[at:close]:
        rest = end + _line_indent(text, parent.start) + text[close:]
    if last is None:
        return text[:at] + member + rest
    if last.comma is not None:
        return text[:at] + member + "," + rest
    return text[: last.value.end] + "," + text[last.value.end : at] + member + rest


def _nested(path: tuple[Key, ...], new: Any) -> Any:
    for key in reversed(path):
        new = {key: new} if isinstance(key, str) else [new]
    return new


def _write(new: Any, indent: str, unit: str, end: str) -> str:
    lines = json.dumps(new, ensure_ascii=False, indent=unit).split("\n")
    return (end + indent).join(lines)


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_indent(text: str, at: int) -> str:
    """The blanks at the beginning of the line."""
    line = text[text.rfind("\n", 0, at) + 1 : at].removeprefix("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_unit(text: str, root: Value) -> str:
    """The indentation of one level, as the document has it."""
    for child in root.children[:1]:
        if "\n" in text[root.start : child.start]:
            return _line_indent(text, child.start) or "  "
    return "  "


def _end_of_tokens(text: str, start: int, end: int) -> tuple[int, bool]:
    """Where the last comma or comment between two positions ends, and whether it is a line comment."""
    last, is_line_comment, at = start, False, start
    while at < end:
        if text[at] in _BLANK:
            at += 1
        elif text[at] == "/":
            is_line_comment = text[at + 1] == "/"
            at = last = _skip_comment(text, at)
        else:
            is_line_comment = False
            at = last = at + 1
    return last, is_line_comment


def _child(value: Value, key: Key) -> Child | None:
    """The child with this key. Of two members with the same key the last one counts, as in every JSON parser."""
    return next((child for child in reversed(value.children) if child.key == key and value.is_container), None)


# Scanning


def _scan(text: str) -> Value:
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    if start == len(text):
        return Value(start, start, {})
    try:
        value = _scan_value(text, start)
    except RecursionError:
        raise MalformedFile(text, start, "it is nested too deeply") from None
    end = _skip(text, value.end)
    if end != len(text):
        raise MalformedFile(text, end, "there is more text after the end")
    return value


def _scan_value(text: str, at: int) -> Value:
    if text[at : at + 1] == "{":
        return _scan_container(text, at, "}")
    if text[at : at + 1] == "[":
        return _scan_container(text, at, "]")
    found = _SCALAR.match(text, at)
    if found is None or (found.end() < len(text) and (text[found.end()].isalnum() or text[found.end()] in "._")):
        raise MalformedFile(text, at, "a value is expected here" if at < len(text) else "the text ends too early")
    try:
        return Value(at, found.end(), json.loads(found[0]))
    except ValueError:
        raise MalformedFile(text, at, "this value is not valid") from None


def _scan_container(text: str, start: int, close: str) -> Value:
    children: list[Child] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != close:
        if children and children[-1].comma is None:
            raise MalformedFile(text, at, "a comma is missing here" if at < len(text) else "the text ends too early")
        begin, key = at, len(children) if close == "]" else None
        if key is None:
            name = _SCALAR.match(text, at)
            if name is None or text[at] != '"':
                raise MalformedFile(
                    text, at, "a name in quotes is expected here" if at < len(text) else "the text ends too early"
                )
            member = _scan_value(text, at)
            at = _skip(text, member.end)
            if text[at : at + 1] != ":":
                raise MalformedFile(text, at, "a colon is expected here")
            at = _skip(text, at + 1)
            children.append(Child(member.plain, begin, _scan_value(text, at)))
        else:
            children.append(Child(key, begin, _scan_value(text, at)))
        at = _skip(text, children[-1].value.end)
        if text[at : at + 1] == ",":
            children[-1].comma = at
            at = _skip(text, at + 1)
    plain: Any = [child.value.plain for child in children]
    if close == "}":
        plain = {child.key: child.value.plain for child in children}
    return Value(start, at + 1, plain, children)


def _skip(text: str, at: int) -> int:
    """The position after blanks and comments."""
    while at < len(text):
        if text[at] in _BLANK:
            at += 1
        elif text[at] == "/":
            at = _skip_comment(text, at)
        else:
            break
    return at


def _skip_comment(text: str, at: int) -> int:
    if text.startswith("//", at):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        return end - 1 if text[end - 1] == "\r" else end
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        if end < 0:
            raise MalformedFile(text, at, "this comment does not end")
        return end + 2
    raise MalformedFile(text, at, "a value is expected here")
