"""Gemini CLI: `chats/session-<time>-<id>.jsonl`, the `.json` files of earlier versions (seen with 0.61.0 and 0.30.1),
and saved checkpoints (`checkpoint-NAME.json`, which have no times).

Kept, each with its id. A message that is written again replaces the earlier one, and rewound messages are removed. A
resumed session lists its messages again, with other times and without the results of tools: then the earlier ones
count.

Left out: infos, warnings and errors, the context that the program sends first in the user's name, and the text that
hooks put before a prompt or send after an answer.

The project is the folder in `.project_root`, beside `chats`; else the one of the session's `directories` whose hash is
in the session; else the first of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from palaver import importers
from palaver.importers.coding_agents.own_calls import is_own_tool
from palaver.importers.files.streams import objects_in_lines, open_beside
from palaver.importers.item import Item, RawConversation, RawMessage, Skipped, tool_call_or_none
from palaver.importers.library.item_text import parse_json, read_session
from palaver.model.library import Conversation
from palaver.model.projects import LONGEST
from palaver.text.hook_text import is_hook_text
from palaver.text.tool_output import ToolOutput

name = "gemini"
session_names = ("session-*.json", "session-*.jsonl")

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
    """By its first line, or by the text before the messages."""
    head = head.lstrip()
    if _SAVED.fullmatch(item.file_name):
        return head.startswith((b"[", b"{")) and bool(_TURN.search(head)) and b'"parts"' in head
    first = head.partition(b"\n" if item.file_name.endswith(".jsonl") else b'"messages"')[0]
    if not first.startswith(b"{") or _FOREIGN.search(first):
        return False
    return bool(_SESSION.search(first) and _START.search(first))


def last_change(item: Item) -> int:
    return 0


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    if saved := _SAVED.fullmatch(item.file_name):
        # A checkpoint is a list of turns, or a list under `history`. Its folder is named after the project.
        given = unquote(saved["name"] or "")
        found = parse_json(read_session(item))
        turns = found.get("history") if isinstance(found, dict) else found
        project = PurePosixPath(item.path.absolute().as_posix() if item.path else item.inside).parent.name
        drafts = (draft for turn in importers.objects_of(turns) for draft in _turn(turn, item.tool_output))
        yield from RawConversation(f"checkpoint:{project}:{given}", drafts, given).build(item.name, name)
        return
    session = _Session(item.tool_output)
    if item.file_name.endswith(".jsonl"):
        for found in objects_in_lines(item):
            if isinstance(found, Skipped):
                yield found
            else:
                session.take(found)
    else:
        session.take({"$set": importers.parse_object(read_session(item))})
    about = session.about
    conversation = RawConversation(
        about.get("sessionId"),
        (draft for drafts in session.messages.values() for draft in drafts),
        title=about.get("summary"),
        created_at=importers.parse_time(about.get("startTime")),
        updated_at=importers.parse_time(about.get("lastUpdated")),
        folder=_folder(item, about),
    )
    yield from conversation.build(item.name, name)


def _folder(item: Item, about: dict[str, Any]) -> str | None:
    if item.path:
        folders = [folder.parent for folder in item.path.parents if folder.name == "chats"]
        for folder in folders[:1]:
            with suppress(OSError), open_beside(folder / ".project_root") as file:
                if root := importers.storable_text(file.read(LONGEST * 4).decode("utf-8", "replace").strip()):
                    return root
    named = about.get("directories")
    known = [one for one in named if importers.storable_text(one)] if isinstance(named, list) else []
    hashed = [one for one in known if hashlib.sha256(one.encode()).hexdigest() == about.get("projectHash")]
    return next((importers.clean(one) for one in (*hashed, *known)), None)


def _turn(turn: dict[str, Any], kept: ToolOutput) -> Iterator[RawMessage]:
    role = _ROLES.get(kind) if isinstance(kind := turn.get("role"), str) else None
    parts = importers.objects_of(turn.get("parts"))
    if role is None:
        return
    text = "\n".join(importers.block_texts([part for part in parts if part.get("thought") is not True]))
    text = _without_hook_context(text) if role == "user" else text
    if not text.lstrip().startswith((*_SENT_AHEAD, _ACKNOWLEDGED)):
        yield RawMessage(None, role, text, None)
    for part in parts:
        match part:
            case {"functionCall": {"name": str(tool)}} | {"functionResponse": {"name": str(tool)}} if is_own_tool(tool):
                continue
            case {"functionCall": {"name": str(tool)} as given}:
                yield RawMessage(None, "tool", tool_call_or_none(tool, given.get("args"), kept), None)
            case {"functionResponse": {"response": {"output": str(output)}}}:
                yield RawMessage(None, "tool", importers.tool_result(output, kept), None)


class _Session:
    """The state of a session after its records."""

    def __init__(self, kept: ToolOutput) -> None:
        self._kept: ToolOutput = kept
        self.about: dict[str, Any] = {}
        self.messages: dict[str, list[RawMessage]] = {}
        self._seen: dict[str, list[RawMessage]] = {}
        """All messages so far, with those that are gone."""

    def take(self, found: dict[str, Any]) -> None:
        if "$rewindTo" in found:
            id, ids = found["$rewindTo"], list(self.messages)
            first = ids.index(id) if isinstance(id, str) and id in self.messages else 0  # an unknown id removes all
            for gone in ids[first:]:
                del self.messages[gone]
        elif isinstance(given := found.get("$set"), dict):
            if isinstance(messages := given.get("messages"), list):
                before, self.messages = self.messages, {}
                for message in messages:
                    self._add(message, is_again=True)
                if not any(self.messages.values()):  # a resumed session lists its context first, then all
                    self.messages = before
            self.about |= {key: value for key, value in given.items() if key != "messages"}
        elif "sessionId" in found:
            self.about |= found | {key: self.about[key] for key in ("startTime",) if key in self.about}
        else:
            self._add(found)

    def _add(self, message: Any, *, is_again: bool = False) -> None:
        if not isinstance(message, dict) or not message:
            return
        id = given if isinstance(given := message.get("id"), str) else f"#{len(self.messages)}"
        if not (is_again and id == given and id in self._seen):
            self._seen[id] = list(_said(message, self._kept))
        self.messages[id] = self._seen[id]


def _without_hook_context(text: str) -> str:
    """What the user typed, without the text that hooks put before it."""
    begin, found, rest = text.partition("<hook_context>")
    return rest.rpartition("</hook_context>")[2].lstrip() if found and not begin.strip() else text


def _said(message: dict[str, Any], kept: ToolOutput) -> Iterator[RawMessage]:
    role = _ROLES.get(kind) if isinstance(kind := message.get("type"), str) else None
    if role is None:
        return
    id, ts, content = message.get("id"), importers.parse_time(message.get("timestamp")), message.get("content")
    text = "\n".join(importers.block_texts(content)) if isinstance(content, list) else content
    if role == "user" and isinstance(text, str):
        text = _without_hook_context(text)
    is_sent_ahead = isinstance(text, str) and (text.lstrip().startswith(_SENT_AHEAD) or is_hook_text(text))
    if not (role == "user" and is_sent_ahead):
        yield RawMessage(id, role, text, ts)
    for tool in importers.objects_of(message.get("toolCalls")):
        if not isinstance(tool.get("name"), str):
            continue
        # Some versions keep the name without the server, and show the server in `displayName`.
        shown = tool.get("displayName")
        server = _SERVER.search(shown) if isinstance(shown, str) else None
        if not is_own_tool(tool["name"], server[1] if server else None):
            at = importers.parse_time(tool.get("timestamp")) or ts
            call, is_error = tool.get("id"), tool.get("status") == "error"
            text = tool_call_or_none(tool["name"], tool.get("args"), kept)
            yield RawMessage(id, "tool", text, at, importers.facts_of_call(call))
            yield RawMessage(id, "tool", _result(tool, kept), at, importers.facts_of_call(call, is_error=is_error))


def _result(tool: dict[str, Any], kept: ToolOutput) -> str | None:
    """The output for the model: `[{functionResponse: {response: {output}}}]`, or else the text shown to the user."""
    given, is_error = tool.get("result"), tool.get("status") == "error"
    for part in given if isinstance(given, list) else []:
        match part:
            case {"functionResponse": {"response": {"output": str(output)}}}:
                return importers.tool_result(output, kept, is_error=is_error)
    return importers.tool_result(given, kept, is_error=is_error) or importers.tool_result(
        tool.get("resultDisplay"), kept, is_error=is_error
    )
