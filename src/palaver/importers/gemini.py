"""Gemini CLI: `chats/session-<time>-<id>.jsonl`, and the `.json` files of earlier versions.

Kept, each under its id: what the user typed, what the model answered in text, calls of tools as `[tool NAME] {args}`
cut at 2,000 characters and what came back, cut at 10,000 (role tool). A message that is written again replaces the
earlier one, and what was rewound is gone, as it was for the user.

Left out: thoughts, infos, warnings and errors, and the context the program sends ahead in the user's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from palaver.importers import Unreadable, moment, record, result, texts
from palaver.importers.item import Draft, Item, Skipped, called, gather, tell
from palaver.importers.lines import lines
from palaver.model.library import Conversation

name = "gemini"

LONGEST_FILE = 128 * 1024 * 1024
_SESSION = re.compile(rb'"sessionId"\s*:')
_START = re.compile(rb'"(?:startTime|projectHash)"\s*:')
_FOREIGN = re.compile(rb'"(?:parentUuid|payload)"\s*:')
_ROLES = {"user": "user", "gemini": "assistant", "model": "assistant"}
_SENT_AHEAD = ("This is the Gemini CLI. We are setting up the context", "<session_context>")


def recognises(item: Item, head: bytes) -> bool:
    """By its first line, or by what stands before the messages."""
    head = head.lstrip()
    first = head.partition(b"\n" if item.file_name.endswith(".jsonl") else b'"messages"')[0]
    if not first.startswith(b"{") or _FOREIGN.search(first):
        return False
    return bool(_SESSION.search(first) and _START.search(first))


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    session = _Session()
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
        with item.open() as source:
            raw = source.read(LONGEST_FILE + 1)
        if len(raw) > LONGEST_FILE:
            raise Unreadable("more than 128 MB in one piece")
        session.take({"$set": record(raw)})
    about = session.about
    yield from tell(
        item.name,
        name,
        about.get("sessionId"),
        gather(draft for drafts in session.messages.values() for draft in drafts),
        title=about.get("summary"),
        created_at=moment(about.get("startTime")),
        updated_at=moment(about.get("lastUpdated")),
    )


class _Session:
    """A session as its records leave it."""

    def __init__(self) -> None:
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
            self.messages[id if isinstance(id, str) else f"#{len(self.messages)}"] = list(_said(message))

    def _rewind(self, id: Any) -> None:
        """To before this message; to the beginning where it is not known."""
        ids = list(self.messages)
        for gone in ids[ids.index(id) :] if isinstance(id, str) and id in self.messages else ids:
            del self.messages[gone]


def _said(message: dict[str, Any]) -> Iterator[Draft]:
    role = _ROLES.get(kind) if isinstance(kind := message.get("type"), str) else None
    if role is None:
        return
    id, ts, content = message.get("id"), moment(message.get("timestamp")), message.get("content")
    text = "\n".join(texts(content)) if isinstance(content, list) else content
    if not (role == "user" and isinstance(text, str) and text.lstrip().startswith(_SENT_AHEAD)):
        yield Draft(id, role, text, ts)
    calls = message.get("toolCalls")
    for tool in calls if isinstance(calls, list) else []:
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            at = moment(tool.get("timestamp")) or ts
            yield Draft(id, "tool", called(tool["name"], tool.get("args")), at)
            yield Draft(id, "tool", _result(tool), at)


def _result(tool: dict[str, Any]) -> str | None:
    """What the model was given: `[{functionResponse: {response: {output}}}]`, or else what the user was shown."""
    given = tool.get("result")
    for part in given if isinstance(given, list) else []:
        match part:
            case {"functionResponse": {"response": {"output": str(output)}}}:
                return result(output)
    return result(given) or result(tool.get("resultDisplay"))
