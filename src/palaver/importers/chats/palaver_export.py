"""The files of `palaver export --format jsonl`: one conversation a line.

Kept: everything: ids, origins, titles, times, and each message with its id. Left out: lines of any other format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from palaver.importers import Unreadable, clean, objects_of, parse_time, storable_text, truncate
from palaver.importers.files.streams import objects_in_lines
from palaver.importers.item import (
    LONGEST_TITLE,
    Item,
    RawBranch,
    RawMessage,
    Skipped,
    collect_branches,
    collect_messages,
    native_id,
)
from palaver.model.library import Conversation, tool_facts
from palaver.model.projects import LONGEST

name = "palaver"

_FIRST = re.compile(rb'\{\s*"id"\s*:\s*"[^"]+"\s*,\s*"origin"\s*:\s*"[^"]*"\s*,\s*"title"\s*:')


def recognises(item: Item, head: bytes) -> bool:
    return item.file_name.endswith(".jsonl") and bool(_FIRST.match(head.lstrip()))


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    for found in objects_in_lines(item):
        try:
            yield found if isinstance(found, Skipped) else _conversation(found)
        except Unreadable as problem:
            yield Skipped(item.name, f"a line that is {problem}")


def _conversation(found: dict[str, Any]) -> Conversation:
    id, origin, title, messages = (found.get(key) for key in ("id", "origin", "title", "messages"))
    if not isinstance(messages, list) or (own_id := native_id(id)) is None:
        raise Unreadable("no conversation")
    gathered = collect_messages(_messages(messages))
    if not gathered.said:
        raise Unreadable("a conversation in which nothing was said")
    return Conversation(
        id=own_id,
        origin=clean(origin)[:100] if isinstance(origin, str) else "",
        title=truncate(clean(title), LONGEST_TITLE) if isinstance(title, str) else "",
        created_at=parse_time(found.get("created_at")),
        updated_at=parse_time(found.get("updated_at")),
        messages=gathered.said,
        is_titled=found.get("is_titled") is not False,
        project=truncate(given, LONGEST) if (given := storable_text(found.get("project"))) else None,
        parent=native_id(found.get("parent")),
        branches=collect_branches(_branches(found.get("branches")), gathered),
    )


def _messages(found: list[Any]) -> Iterator[RawMessage]:
    for one in objects_of(found):
        role = role if isinstance(role := one.get("role"), str) else ""
        yield RawMessage(one.get("id"), role, one.get("text"), parse_time(one.get("ts")), tool_facts(one.get("tool")))


def _branches(found: Any) -> Iterator[RawBranch]:
    for one in objects_of(found):
        if isinstance(messages := one.get("messages"), list):
            yield RawBranch(native_id(one.get("after")), list(_messages(messages)))
