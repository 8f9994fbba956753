"""Edit TOML and keep comments, order and line breaks. The same three functions as `jsonc`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, MutableMapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from palaver.setup.jsonc import Key, MalformedFile, at


def parse(text: str) -> Any:
    """The value of the text."""
    text = text.removeprefix("\ufeff")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(problem))
        line, column = (int(place[1]), int(place[2])) if place else (text.count("\n") + 1, 1)
        at = sum(len(one) for one in text.splitlines(keepends=True)[: line - 1]) + column - 1
        raise MalformedFile(text, min(at, len(text)), str(problem).partition(" (at ")[0]) from None


def find(text: str, path: Iterable[Key]) -> Any:
    """The value at a path of the text, or None."""
    return at(parse(text), path)


def put(text: str, path: tuple[Key, ...], new: Any) -> str:
    """Replace the value at a path, or add it. Missing tables on the way are added too."""
    document = _open(text)
    table: Any = document
    for key in path[:-1]:
        if key not in table:
            table[key] = tomlkit.table(is_super_table=True)
        table = table[key]
        if not isinstance(table, MutableMapping):
            raise MalformedFile(text, 0, f"{key} is expected to be a table")
    is_inline = isinstance(table, tomlkit.items.InlineTable)
    table[path[-1]] = _item(new, is_inline or len(path) > 2) if isinstance(new, dict) else new
    return _close(text, document)


def delete(text: str, path: tuple[Key, ...]) -> str:
    """Delete the value at a path."""
    document = _open(text)
    table: Any = document
    for key in path[:-1]:
        if key not in table:
            return text
        table = table[key]
    if path[-1] not in table:
        return text
    del table[path[-1]]
    return _close(text, document)


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _item(value: dict[str, Any], is_inline: bool) -> Any:
    table: Any = tomlkit.inline_table() if is_inline else tomlkit.table()
    for key, inner in value.items():
        table[key] = _item(inner, True) if isinstance(inner, dict) else inner
    return table


def _open(text: str) -> Any:
    parse(text)
    try:
        return tomlkit.parse(text.removeprefix("\ufeff"))
    except TOMLKitError as problem:
        raise MalformedFile(text, 0, str(problem)) from None


def _close(text: str, document: Any) -> str:
    written = tomlkit.dumps(document)
    if _line_break(text) == "\r\n":
        written = re.sub(r"(?<!\r)\n", "\r\n", written)
    return ("\ufeff" if text.startswith("\ufeff") else "") + written
