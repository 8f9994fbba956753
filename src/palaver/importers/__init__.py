"""Importers: readers of what other programs keep. They turn lines into what was said, and do nothing else.

A reader of lines (`claude_code`, `codex`) offers three functions for what comes line by line:

    recognises(path, head) -> bool            is this file one of theirs? `head` is how it begins
    begin(path) -> Reading                    where reading stands before the first line
    read_line(raw, reading) -> list[Said]     what one line says; `reading` moves on

and two for whoever has the whole file:

    superseded(raws) -> set[int]              the numbers of the lines that were taken back later, counted from 1
    name_beside(path, reading) -> str | None  what the session is called in a file beside its own, if it is

Every line must pass through `read_line`, in order: it counts them. A line that cannot be read raises `Unreadable`, and
one goes on with the next. A `Reading` is plain values, so that it can be kept and taken up again in another process.

Calls of palaver's own tools and their results are left out (`echo`). Keys and tokens in what agents said and read are
masked: the kind of each takes its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

import orjson

from palaver.importers.chats.own_calls import MOST_CALLS
from palaver.model.library import Said as Said
from palaver.model.requests import MAX_TEXT
from palaver.model.times import parse
from palaver.text.secrets import masked
from palaver.text.tool_output import ToolOutput, brief_arguments, first_and_last_lines

LONGEST_CALL = 2_000
LONGEST_RESULT = 10_000
LONGEST_ID = 200
MARK = b"\xef\xbb\xbf"
"""Some editors and shells of Windows write it before the first line."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ID = re.compile(r"[!-~]+")

Role = Literal["user", "assistant", "tool"]


@dataclass(slots=True)
class Reading:
    """How far a file has been read, and what it has told about itself."""

    name: str
    """What the file is called, as far as it makes ids: the same wherever the file is moved."""
    session_id: str = ""
    lines: int = 0
    at: str | None = None
    """The time of the latest line that had one."""
    title: str | None = None
    title_rank: int = 0
    """How good a title it is: one that somebody gave counts more than one that was made."""
    leaf: str | None = None
    """The latest line that has an id."""
    summaries: dict[str, str] = field(default_factory=dict)
    """Titles of the conversations that end at some line, which may be in another file."""
    cwd: str | None = None
    project: str | None = None
    """The project of `cwd`, where somebody has looked it up. It is kept, for the folder may be gone later."""
    own_calls: Sequence[str] = ()
    """Calls of palaver's own tools whose results have not come yet. They are left out, and so are the results."""
    trunk: str | None = None
    """The latest line outside side chains that has an id."""
    answer: str | None = None
    """The answer the latest lines are part of."""
    tool_output: ToolOutput = "full"
    """How much of what tools were given and gave back is wanted."""
    is_forked: bool = False
    """Something may have been taken back: whoever has recorded it had better look at the whole file."""

    def learn_cwd(self, value: Any) -> None:
        """The first folder a session names decides its project."""
        if self.cwd is None:
            self.cwd = spoken(value)

    def call_own(self, call_id: Any) -> None:
        """One of palaver's own tools was called."""
        if isinstance(call_id, str):
            self.own_calls = (*self.own_calls, call_id)[-MOST_CALLS:]

    def is_own_result(self, call_id: Any) -> bool:
        """Did this come back from one of palaver's own tools? Each call has one result."""
        if call_id not in self.own_calls:
            return False
        self.own_calls = tuple(one for one in self.own_calls if one != call_id)
        return True


class Unreadable(ValueError):
    """A line that holds nothing one can read; the message says why, for counting."""


class Reader(Protocol):
    """What each of the modules beside this one is."""

    def recognises(self, path: Path, head: bytes) -> bool: ...

    def begin(self, path: Path) -> Reading: ...

    def read_line(self, raw: bytes, reading: Reading) -> list[Said]: ...

    def superseded(self, raws: Iterable[bytes]) -> set[int]: ...

    def name_beside(self, path: Path, reading: Reading) -> str | None: ...


# What readers of JSON lines share


def record(raw: bytes) -> dict[str, Any]:
    """The object on a line. Bytes that are no UTF-8, lone surrogates and NaN are lived with."""
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            found = json.loads(raw.removeprefix(MARK).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise Unreadable("not JSON") from None
    if not isinstance(found, dict):
        raise Unreadable("no JSON object")
    return found


def clean(text: str) -> str:
    """What no engine can store becomes U+FFFD."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def cut(text: str, length: int = MAX_TEXT - 1) -> str:
    return text if len(text) <= length else text[:length] + "…"


def words(value: Any) -> str | None:
    """Text that says something, ready to be stored; None for anything else."""
    if not isinstance(value, str) or not value.strip():
        return None
    return cut(clean(value))


def spoken(value: Any) -> str | None:
    """The same of what was said to an agent or by it: with the kind of each key and token in place of it."""
    text = words(value)
    return masked(text) if text else None


def moment(value: Any) -> datetime | None:
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        return parse(value)
    except (ValueError, OverflowError):
        return None


def own_id(value: Any) -> str | None:
    """An id as others gave it, if it can serve as one here."""
    return value if isinstance(value, str) and len(value) <= LONGEST_ID and _ID.fullmatch(value) else None


def call(name: Any, arguments: Any, kept: ToolOutput = "full") -> str:
    """The call of a tool: `[tool Bash] {"command":"ls"}`. Nothing if no tool output is wanted."""
    if kept == "none":
        return ""
    if not isinstance(arguments, str):
        arguments = _compact(arguments)
    shown = name if isinstance(name, str) and name else "?"
    given = masked(arguments)
    given = brief_arguments(given) if kept == "short" else cut(given, LONGEST_CALL)
    return clean(f"[tool {cut(shown, LONGEST_ID)}] {given}")


def _compact(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise Unreadable("nested too deeply") from None


def result(value: Any, kept: ToolOutput = "full", *, is_error: bool = False) -> str | None:
    """What a tool gave back: text, or the texts of a list of blocks. Of an error the short form keeps all.

    It is empty if no tool output is wanted, and None if there was none.
    """
    if isinstance(value, list):
        value = "\n".join(texts(value))
    if not isinstance(value, str) or not value.strip():
        return None
    if kept == "none":
        return ""
    text = masked(value)
    text = first_and_last_lines(text) if kept == "short" and not is_error else text
    return clean(cut(text, LONGEST_RESULT))


def texts(blocks: list[Any]) -> list[str]:
    """The texts among the blocks of a message; images and whatever else there is are left out."""
    found = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return [text for text in found if isinstance(text, str)]
