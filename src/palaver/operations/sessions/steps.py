"""The steps of a session: questions, answers, and tool calls with their results.

A call is a turn of the role tool that begins with `[tool NAME]`. Its result has the same call id. Turns that were
recorded without ids are matched in their order, up to the next question or answer.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff
from typing import Any, Literal

import orjson

from palaver.store.sessions.outlines import OutlineTurn
from palaver.text.edited_files import PATH_KEYS
from palaver.text.tool_output import PATCH, is_edit

Kind = Literal["question", "answer", "call", "output", "note"]
State = Literal["done", "failed", "silent", "open"]
"""A call is `silent` if no result was stored, and `open` if nothing came after it."""

CALL = re.compile(r"\[tool ([^\]\n]{1,200})\] ?")
FAILED = re.compile(
    r"\s*(?:<tool_use_error>|Error\b|error:|fatal:|Traceback \(|Exit code:? -?[1-9]|Process exited with code -?[1-9])"
)
"""How the results of failed tools begin. It is used for turns that were recorded without this fact."""
SHELLS = frozenset(
    ("shell", "bash", "exec_command", "local_shell", "container.exec", "run_shell_command", "execute_command")
)
SUBAGENT_TOOLS = frozenset(["task", "agent", "spawn_agent", "subagent", "delegate"])
LONGEST_BRIEF = 200
LONGEST_DIFFED = 20_000

_BRIEF_KEYS = (
    "command", "cmd", "pattern", "query", "file_path", "filePath", "path", "notebook_path", "url", "description",
    "prompt", "name", "title", "input",
)  # fmt: skip
_PAIR = re.compile(r'"(\w{1,50})"\s*:\s*(?:"((?:[^"\\]|\\.)*+)"?|([^",{}\[\]\s]+))', re.DOTALL)
_OLD_AND_NEW = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("oldString", "newString"), ("old_text", "new_text"),
)  # fmt: skip
_WHOLE_KEYS = ("content", "file_text", "contents", "new_source", "code_edit")
_PATCH_KEYS = ("patch", "patchText", "patch_text", "input", "diff")
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_NEXT_FILE = re.compile(
    r"^(?:\*\*\* (?:Update File|Add File|Delete File|Move to): |--- .*\n\+\+\+ (?:b/)?)(.+)\n?", re.MULTILINE
)


@dataclass(slots=True)
class Step:
    """A step in an outline: the turns it consists of, and what is known without their whole texts."""

    kind: Kind
    turn: OutlineTurn
    tool: str | None = None
    result: OutlineTurn | None = None
    is_error: bool = False
    is_edit: bool = False

    @property
    def state(self) -> State | None:
        if self.kind != "call":
            return None
        return "failed" if self.is_error else "done" if self.result else "silent"

    @property
    def seconds(self) -> float | None:
        """How long a call ran, if it is known."""
        if self.result is None:
            return None
        if self.result.tool and self.result.tool.ms is not None:
            return self.result.tool.ms / 1000
        if self.turn.ts and self.result.ts and self.result.ts > self.turn.ts:
            return (self.result.ts - self.turn.ts).total_seconds()
        return None

    @property
    def is_subagent(self) -> bool:
        return self.tool is not None and self.tool.casefold() in SUBAGENT_TOOLS


_KINDS: dict[str, Kind] = {"user": "question", "assistant": "answer", "tool": "output"}


def steps_of(turns: Iterable[OutlineTurn]) -> list[Step]:
    """The steps that these turns make up, in the order in which they began."""
    steps: list[Step] = []
    by_call: dict[str, Step] = {}
    waiting: list[Step] = []
    for turn in turns:
        called = CALL.match(turn.start) if turn.role == "tool" else None
        if called:
            tool = called[1]
            has_patch = tool.casefold() in SHELLS and PATCH in turn.start
            step = Step("call", turn, tool, is_edit=is_edit(tool) or has_patch)
            steps.append(step)
            if turn.tool and turn.tool.call:
                by_call[turn.tool.call] = step
            else:
                waiting.append(step)
            continue
        answered = None
        if turn.role == "tool":  # a call has one result
            named = turn.tool.call if turn.tool else None
            answered = by_call.pop(named, None) if named else waiting.pop(0) if waiting else None
        if answered:
            answered.result, answered.is_error = turn, _has_failed(turn)
            continue
        if turn.role != "tool":
            waiting.clear()
        kind = _KINDS.get(turn.role, "note")
        steps.append(Step(kind, turn, is_error=kind == "output" and _has_failed(turn)))
    return steps


def _has_failed(turn: OutlineTurn) -> bool:
    return turn.tool.is_error if turn.tool else FAILED.match(turn.start) is not None


# What a call did


@dataclass(frozen=True, slots=True)
class CallText:
    """The text of a call, in parts that can be shown."""

    brief: str
    """The most telling argument, on one line."""
    arguments: str
    path: str | None = None
    diff: str | None = None
    """The lines of a change: each begins with +, -, a blank or @@."""


def call_text(text: str) -> CallText:
    """Take the text of a tool call apart: `[tool Edit] {"file_path": …}`."""
    found = CALL.match(text)
    tool, rest = (found[1], text[found.end() :]) if found else ("", text)
    given = parse_arguments(rest)
    path = _text_of(given, PATH_KEYS)
    diff = _diff(tool, given, rest)
    if diff is not None and path is None:
        named = _PATCHED_FILE.search(rest if "\n" in rest else diff) or _PATCHED_FILE.search(diff)
        path = named[1].strip() if named else None
    brief = path if diff is not None and path else _brief(given, rest)
    return CallText(_one_line(brief), _readable(rest, given), path, diff)


@dataclass(frozen=True, slots=True)
class EditedFile:
    """What a call changed in one file. `new` are the lines that it added and those around them, in order."""

    path: str | None
    added: list[str]
    removed: list[str]
    new: list[str]


def file_edits(call: CallText) -> list[EditedFile]:
    """The edits of a call, one for each file: a patch may change many."""
    first, *others = _NEXT_FILE.split(call.diff or "")
    parts = [(call.path, first), *zip(others[::2], others[1::2], strict=True)]
    found = []
    for path, lines in parts:
        edit = EditedFile(path.strip() if path else None, [], [], [])
        for line in lines.split("\n"):
            if line.startswith("-"):
                edit.removed.append(line[1:])
            elif not line.startswith("@@"):
                edit.new.append(line[1:])
                if line.startswith("+"):
                    edit.added.append(line[1:])
        if edit.added or edit.removed:
            found.append(edit)
    return found


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call. They may be cut: then the pairs that can be read are taken."""
    if not text.startswith("{"):
        return {}
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {key: _unescaped(words) if words or not bare else bare for key, words, bare in _PAIR.findall(text)}
    return found if isinstance(found, dict) else {}


def _text_of(given: dict[str, Any], keys: Iterable[str]) -> str | None:
    """The first text under one of these keys, which differ from program to program."""
    return next((value for key in keys if isinstance(value := given.get(key), str)), None)


def _unescaped(text: str) -> str:
    try:
        found = orjson.loads(f'"{text}"')
    except orjson.JSONDecodeError:
        return text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    return found if isinstance(found, str) else text


def _brief(given: dict[str, Any], rest: str) -> str:
    for key in _BRIEF_KEYS:
        value = given.get(key)
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            is_shell = len(value) == 3 and value[1] in ("-c", "-lc")
            return value[2] if is_shell else " ".join(value)
        if isinstance(value, str) and value.strip():
            where = given.get("path") if key == "pattern" else None
            return f"{value}  {where}" if isinstance(where, str) else value
    return rest


def _one_line(text: str) -> str:
    line = " ".join(text[: 4 * LONGEST_BRIEF].split())
    return line if len(line) <= LONGEST_BRIEF else line[: LONGEST_BRIEF - 1] + "…"


def _readable(rest: str, given: dict[str, Any]) -> str:
    """The arguments as they are shown: JSON on several lines, other text unchanged."""
    try:
        return orjson.dumps(orjson.loads(rest), option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONDecodeError:
        return rest


def _diff(tool: str, given: dict[str, Any], rest: str) -> str | None:
    if PATCH in rest:
        text = next((value for value in given.values() if isinstance(value, str) and PATCH in value), None)
        commands = given.get("command")
        if text is None and isinstance(commands, list):
            text = next((one for one in commands if isinstance(one, str) and PATCH in one), None)
        return _patch_lines((text or rest).partition(PATCH)[2])
    if not is_edit(tool):
        return None
    for key in _PATCH_KEYS:
        if isinstance(value := given.get(key), str) and "\n" in value:
            return _patch_lines(value)
    edits = given.get("edits")
    parts = [one for one in edits if isinstance(one, dict)] if isinstance(edits, list) else [given]
    found = [lines for one in parts if (lines := _replaced(one)) is not None]
    return "\n".join(found) if found else None


def _patch_lines(text: str) -> str:
    """A patch without its first and last line."""
    return text.partition("*** End Patch")[0].strip("\n")


def _replaced(given: dict[str, Any]) -> str | None:
    """The change of one edit as a diff without a header."""
    for old_key, new_key in _OLD_AND_NEW:
        old, new = _text_of(given, [old_key]), _text_of(given, [new_key])
        if old is not None or new is not None:
            return _compared(old or "", new or "")
    whole = _text_of(given, _WHOLE_KEYS)
    return "\n".join(f"+{line}" for line in whole.splitlines()) if whole is not None else None


def _compared(old: str, new: str) -> str:
    before, after = old[:LONGEST_DIFFED].splitlines(), new[:LONGEST_DIFFED].splitlines()
    lines = list(unified_diff(before, after, n=3, lineterm=""))[2:]
    if len(before) < 30 and len(after) < 30:
        lines = [line for line in lines if not line.startswith("@@")]  # the lines of a short edit have no real numbers
    return "\n".join(lines)


# The whole session


@dataclass(frozen=True, slots=True)
class Totals:
    """What a session consists of, in numbers."""

    steps: int
    questions: int
    calls: int
    errors: int
    edits: int
    seconds: float | None
    """From the first turn to the last, if their times are known."""
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Places:
    """The numbers of the steps that can be jumped to, from 1."""

    questions: list[int]
    answers: list[int]
    errors: list[int]
    edits: list[int]


def places_in(steps: Sequence[Step]) -> Places:
    """The steps to jump to. Of several answers in a row, the last one before the next question counts."""
    numbered = list(enumerate(steps, 1))
    questions = [number for number, step in numbered if step.kind == "question"]
    last_answers = {bisect(questions, number): number for number, step in numbered if step.kind == "answer"}
    errors = [number for number, step in numbered if step.is_error]
    return Places(questions, list(last_answers.values()), errors, [n for n, step in numbered if step.is_edit])


def totals_of(steps: Sequence[Step], places: Places) -> Totals:
    times = [turn.ts for step in steps for turn in (step.turn, step.result) if turn and turn.ts]
    started_at, ended_at = (min(times), max(times)) if times else (None, None)
    return Totals(
        steps=len(steps),
        questions=len(places.questions),
        calls=sum(step.kind == "call" for step in steps),
        errors=len(places.errors),
        edits=len(places.edits),
        seconds=(ended_at - started_at).total_seconds() if started_at and ended_at else None,
        started_at=started_at,
        ended_at=ended_at,
    )
