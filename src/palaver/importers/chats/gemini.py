"""Gemini CLI: `chats/session-<time>-<id>.jsonl`, the `.json` files of earlier versions, and what somebody saved under a
name (`checkpoint-NAME.json`, which tells no times).

Kept, each under its id: what the user typed, what the model answered in text, calls of tools as `[tool NAME] {args}`
cut at 2,000 characters and what came back, cut at 10,000 (role tool). A message that is written again replaces the
earlier one, and what was rewound is gone, as it was for the user.

Left out: thoughts, infos, warnings and errors, the context the program sends ahead in the user's name, and calls of
palaver's own tools with their results.

The project is the folder named in `.project_root`, beside `chats`; else the one of the session's `directories` whose
hash the session has; else the first of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from palaver.importers import Unreadable, clean, moment, record, result, texts, words
from palaver.importers.chats.own_calls import is_own_tool
from palaver.importers.files.lines import lines
from palaver.importers.item import Draft, Item, Skipped, called, gather, tell
from palaver.importers.library.item_text import parsed
from palaver.model.library import Conversation
from palaver.model.projects import LONGEST
from palaver.text.tool_output import ToolOutput

name = "gemini"

LONGEST_FILE = 128 * 1024 * 1024
_SESSION = re.compile(rb'"sessionId"\s*:')
_START = re.compile(rb'"(?:startTime|projectHash)"\s*:')
_FOREIGN = re.compile(rb'"(?:parentUuid|payload)"\s*:')
_SAVED = re.compile(r"checkpoint(?:-(?P<name>.+))?\.json")
_TURN = re.compile(rb'"role"\s*:\s*"(?:user|model)"')
_ROLES = {"user": "user", "gemini": "assistant", "model": "assistant"}
_SENT_AHEAD = ("This is the Gemini CLI. We are setting up the context", "<session_context>")
_SERVER = re.compile(r"\(([^()]+) MCP Server\)\s*$")
_ACKNOWLEDGED = "Got it. Thanks for the context!"


def recognises(item: Item, head: bytes) -> bool:
    """By its first line, or by what stands before the messages."""
    head = head.lstrip()
    if _SAVED.fullmatch(item.file_name):
        return head.startswith((b"[", b"{")) and bool(_TURN.search(head)) and b'"parts"' in head
    first = head.partition(b"\n" if item.file_name.endswith(".jsonl") else b'"messages"')[0]
    if not first.startswith(b"{") or _FOREIGN.search(first):
        return False
    return bool(_SESSION.search(first) and _START.search(first))


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    if saved := _SAVED.fullmatch(item.file_name):
        yield from _saved(item, unquote(saved["name"] or ""))
        return
    session = _Session(item.tool_output)
    if item.file_name.endswith(".jsonl"):
        for line in lines(item):
            if isinstance(line, Skipped):
                yield line
                continue
            try:
                session.take(record(line) if line.strip() else {})
            except Unreadable as problem:
                is_torn = not line.endswith(b"\n")
                yield Skipped(item.name, "the last line is not complete" if is_torn else f"a line that is {problem}")
    else:
        session.take({"$set": record(_whole(item))})
    about = session.about
    yield from tell(
        item.name,
        name,
        about.get("sessionId"),
        gather(draft for drafts in session.messages.values() for draft in drafts),
        title=about.get("summary"),
        created_at=moment(about.get("startTime")),
        updated_at=moment(about.get("lastUpdated")),
        folder=_folder(item, about),
    )


def _folder(item: Item, about: dict[str, Any]) -> str | None:
    if item.path:
        folders = [folder.parent for folder in item.path.parents if folder.name == "chats"]
        for folder in folders[:1]:
            with suppress(OSError), (folder / ".project_root").open("rb") as file:
                if root := words(file.read(LONGEST * 4).decode("utf-8", "replace").strip()):
                    return root
    named = about.get("directories")
    known = [one for one in named if words(one)] if isinstance(named, list) else []
    hashed = [one for one in known if hashlib.sha256(one.encode()).hexdigest() == about.get("projectHash")]
    return next((clean(one) for one in (*hashed, *known)), None)


def _whole(item: Item) -> bytes:
    with item.open() as source:
        raw = source.read(LONGEST_FILE + 1)
    if len(raw) > LONGEST_FILE:
        raise Unreadable("more than 128 MB in one piece")
    return raw


def _saved(item: Item, name_given: str) -> Iterator[Conversation | Skipped]:
    """A list of turns, or one under `history`. It belongs to the project whose folder it stands in."""
    found = parsed(_whole(item))
    turns = found.get("history") if isinstance(found, dict) else found
    project = PurePosixPath(item.path.absolute().as_posix() if item.path else item.inside).parent.name
    taken = [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
    gathered = gather(draft for turn in taken for draft in _turn(turn, item.tool_output))
    yield from tell(item.name, name, f"checkpoint:{project}:{name_given}", gathered, title=name_given)


def _turn(turn: dict[str, Any], kept: ToolOutput) -> Iterator[Draft]:
    role = _ROLES.get(kind) if isinstance(kind := turn.get("role"), str) else None
    parts = [part for part in turn["parts"] if isinstance(part, dict)] if isinstance(turn.get("parts"), list) else []
    if role is None:
        return
    text = "\n".join(texts([part for part in parts if part.get("thought") is not True]))
    if not text.lstrip().startswith((*_SENT_AHEAD, _ACKNOWLEDGED)):
        yield Draft(None, role, text, None)
    for part in parts:
        match part:
            case {"functionCall": {"name": str(tool)}} | {"functionResponse": {"name": str(tool)}} if is_own_tool(tool):
                continue
            case {"functionCall": {"name": str(tool)} as given}:
                yield Draft(None, "tool", called(tool, given.get("args"), kept), None)
            case {"functionResponse": {"response": {"output": str(output)}}}:
                yield Draft(None, "tool", result(output, kept), None)


class _Session:
    """A session as its records leave it."""

    def __init__(self, kept: ToolOutput) -> None:
        self._kept: ToolOutput = kept
        self.about: dict[str, Any] = {}
        self.messages: dict[str, list[Draft]] = {}

    def take(self, found: dict[str, Any]) -> None:
        if "$rewindTo" in found:
            self._rewind(found["$rewindTo"])
        elif isinstance(given := found.get("$set"), dict):
            if isinstance(messages := given.get("messages"), list):
                self.messages = {}
                for message in messages:
                    self._add(message)
            self.about |= {key: value for key, value in given.items() if key != "messages"}
        elif "sessionId" in found:
            self.about |= found
        else:
            self._add(found)

    def _add(self, message: Any) -> None:
        if isinstance(message, dict) and message:
            id = message.get("id")
            self.messages[id if isinstance(id, str) else f"#{len(self.messages)}"] = list(_said(message, self._kept))

    def _rewind(self, id: Any) -> None:
        """To before this message; to the beginning where it is not known."""
        ids = list(self.messages)
        for gone in ids[ids.index(id) :] if isinstance(id, str) and id in self.messages else ids:
            del self.messages[gone]


def _said(message: dict[str, Any], kept: ToolOutput) -> Iterator[Draft]:
    role = _ROLES.get(kind) if isinstance(kind := message.get("type"), str) else None
    if role is None:
        return
    id, ts, content = message.get("id"), moment(message.get("timestamp")), message.get("content")
    text = "\n".join(texts(content)) if isinstance(content, list) else content
    if not (role == "user" and isinstance(text, str) and text.lstrip().startswith(_SENT_AHEAD)):
        yield Draft(id, role, text, ts)
    calls = message.get("toolCalls")
    for tool in calls if isinstance(calls, list) else []:
        if isinstance(tool, dict) and isinstance(tool.get("name"), str) and not _is_own(tool):
            at = moment(tool.get("timestamp")) or ts
            yield Draft(id, "tool", called(tool["name"], tool.get("args"), kept), at)
            yield Draft(id, "tool", _result(tool, kept), at)


def _is_own(tool: dict[str, Any]) -> bool:
    """A call of one of palaver's own tools. Some versions keep its name without the server, and show that."""
    shown = tool.get("displayName")
    server = _SERVER.search(shown) if isinstance(shown, str) else None
    return is_own_tool(tool["name"], server[1] if server else None)


def _result(tool: dict[str, Any], kept: ToolOutput) -> str | None:
    """What the model was given: `[{functionResponse: {response: {output}}}]`, or else what the user was shown."""
    given, is_error = tool.get("result"), tool.get("status") == "error"
    for part in given if isinstance(given, list) else []:
        match part:
            case {"functionResponse": {"response": {"output": str(output)}}}:
                return result(output, kept, is_error=is_error)
    return result(given, kept, is_error=is_error) or result(tool.get("resultDisplay"), kept, is_error=is_error)
