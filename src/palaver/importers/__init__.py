"""Importers read the files of other programs and turn them into messages. `registry` is the table of all importers.

A line reader (`claude_code`, `codex`, `copilot`) is a module with the functions of `LineReader`.

Every line must pass through `read_line` in order, because it counts them. A line that cannot be read raises
`Unreadable`, and the caller goes on with the next. `ReadProgress` holds plain values, so it can be stored and used in
another process.

Calls of palaver's own tools and their results are left out (`own_calls`). Keys and tokens in the sessions of agents are
masked by their kind, and so is what the user put into `<private>…</private>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

import orjson

from palaver.importers.coding_agents.own_calls import MOST_CALLS
from palaver.model.library import Said as Said
from palaver.model.library import ToolFacts as ToolFacts
from palaver.model.requests import MAX_TEXT
from palaver.model.times import parse
from palaver.text.private_parts import without_private_parts
from palaver.text.secrets import masked
from palaver.text.tool_output import ToolOutput, brief_arguments, first_and_last_lines, longest_call

LONGEST_RESULT = 10_000
LONGEST_ID = 200
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some programs on Windows write it before the first line."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ID = re.compile(r"[!-~]+")

Role = Literal["user", "assistant", "tool"]
Part = tuple[Role, str, ToolFacts | None]
"""A part of a line: its role, its text, and what is known of a tool call or result."""


@dataclass(slots=True)
class ReadProgress:
    """How far a file has been read, and what is known about its session."""

    name: str
    """The part of the file name that ids are made of. It stays the same when the file is moved."""
    session_id: str = ""
    lines: int = 0
    at: str | None = None
    """The time of the latest line that had one."""
    title: str | None = None
    title_rank: int = 0
    """The rank of the title: one from the user counts more than one from the program."""
    leaf: str | None = None
    """The id of the latest line that has one."""
    summaries: dict[str, str] = field(default_factory=dict)
    """Titles by the id of the last line of a conversation. That line may be in another file."""
    cwd: str | None = None
    project: str | None = None
    """The project of `cwd`. It is stored, because the folder may be gone later."""
    is_private: bool = False
    """Whether the project keeps its sessions out of palaver."""
    parent: str | None = None
    """The session that started this one as a subagent."""
    own_calls: Sequence[str] = ()
    """The ids of calls of palaver's own tools whose results are still to come."""
    trunk: str | None = None
    """The id of the latest line outside side chains."""
    answer: str | None = None
    """The id of the answer that the latest lines belong to."""
    tool_output: ToolOutput = "full"
    """How much of tool calls and tool output is kept."""
    is_forked: bool = False
    """Earlier lines may have been rewound: the whole file must be read to know which."""

    def learn_cwd(self, value: Any) -> None:
        """The first folder a session names decides its project."""
        if self.cwd is None:
            self.cwd = masked_text(value)

    def call_own(self, call_id: Any) -> None:
        """Remember a call of one of palaver's own tools."""
        if isinstance(call_id, str):
            self.own_calls = (*self.own_calls, call_id)[-MOST_CALLS:]

    def is_own_result(self, call_id: Any) -> bool:
        """Whether this is the result of one of palaver's own tools. Each call has one result."""
        if call_id not in self.own_calls:
            return False
        self.own_calls = tuple(one for one in self.own_calls if one != call_id)
        return True


class Unreadable(ValueError):
    """A line or file cannot be read; the message says why."""


class LineReader(Protocol):
    """A module that reads session files line by line."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether the file has this format; `head` is its first bytes."""

    def begin(self, path: Path) -> ReadProgress:
        """The progress before the first line."""

    def read_line(self, raw: bytes, reading: ReadProgress) -> list[Said]:
        """The messages of one line. It updates `reading`."""

    def superseded(self, raws: Iterable[bytes]) -> set[int]:
        """The numbers of the lines of a whole file that were rewound later, counted from 1."""

    def name_beside(self, path: Path, reading: ReadProgress) -> str | None:
        """The title of the session in a file beside it, if there is one."""


# Parts of messages


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object on a line. Invalid UTF-8, lone surrogates and NaN are accepted."""
    found = read_json(raw, lambda raw: raw.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace"))
    if not isinstance(found, dict):
        raise Unreadable("no JSON object")
    return found


def read_json(raw: bytes, decode: Callable[[bytes], str]) -> Any:
    """The value of JSON. What is not quite valid is decoded by `decode` and read by Python's more lenient parser."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            return json.loads(decode(raw))
        except (ValueError, RecursionError):
            raise Unreadable("not JSON") from None


def object_in(raw: Any) -> dict[str, Any]:
    """The JSON object in a text; empty if there is none."""
    raw = raw.encode("utf-8", "replace") if isinstance(raw, str) else raw
    try:
        return parse_object(raw) if isinstance(raw, bytes) else {}
    except Unreadable:
        return {}


def clean(text: str) -> str:
    """Replace characters that a database cannot store by U+FFFD."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def truncate(text: str, length: int = MAX_TEXT - 1) -> str:
    return text if len(text) <= length else text[:length] + "…"


def storable_text(value: Any) -> str | None:
    """Text that is not blank, ready to be stored; None for anything else."""
    if not isinstance(value, str) or not value.strip():
        return None
    return truncate(clean(value))


def masked_text(value: Any) -> str | None:
    """Text of a session that is not blank, without private parts, keys and tokens; None for anything else."""
    text = storable_text(value)
    return masked(without_private_parts(text)) if text else None


def parse_time(value: Any) -> datetime | None:
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        return parse(value)
    except (ValueError, OverflowError):
        return None


def valid_id(value: Any) -> str | None:
    """An id from a file, if it is short and printable; else None."""
    return value if isinstance(value, str) and len(value) <= LONGEST_ID and _ID.fullmatch(value) else None


def tool_call(name: Any, arguments: Any, kept: ToolOutput = "full") -> str:
    """The text of a tool call: `[tool Bash] {"command":"ls"}`. It is empty if no tool output is kept."""
    if kept == "none":
        return ""
    if not isinstance(arguments, str):
        try:
            arguments = orjson.dumps(arguments).decode()
        except (TypeError, ValueError):
            try:
                arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
            except (TypeError, ValueError, RecursionError):
                raise Unreadable("nested too deeply") from None
    shown = name if isinstance(name, str) and name else "?"
    given = masked(without_private_parts(arguments))
    given = brief_arguments(given, shown) if kept == "short" else truncate(given, longest_call(given, shown))
    return clean(f"[tool {truncate(shown, LONGEST_ID)}] {given}")


def tool_result(value: Any, kept: ToolOutput = "full", *, is_error: bool = False) -> str | None:
    """The text of a tool result, which is text or a list of blocks. The short form keeps errors whole.

    It is empty if no tool output is kept, and None if the tool returned none.
    """
    if isinstance(value, list):
        value = "\n".join(block_texts(value))
    if not isinstance(value, str) or not value.strip():
        return None
    if kept == "none":
        return ""
    text = masked(without_private_parts(value))
    text = first_and_last_lines(text) if kept == "short" and not is_error else text
    return clean(truncate(text, LONGEST_RESULT))


def facts_of_call(call_id: Any, *, is_error: bool = False, ms: int | None = None) -> ToolFacts | None:
    """What to keep of a tool call or its result, besides the text."""
    call = clean(call_id)[:LONGEST_ID] if isinstance(call_id, str) and call_id else None
    facts = ToolFacts(call, is_error, ms)
    return facts if facts != ToolFacts() else None


def objects_of(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none if the value is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def block_texts(blocks: list[Any]) -> list[str]:
    """The texts of the blocks of a message. Images and other blocks are left out."""
    found = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return [text for text in found if isinstance(text, str)]
