"""Codex CLI, first versions: `rollout-<date>-<id>.json`, a whole session as one object `{session, items}`.

Kept and left out: the same as in `codex`. All messages have the time of their session.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from palaver.importers import ReadProgress, Said, Unreadable, parse_object, valid_id
from palaver.importers.coding_agents import codex
from palaver.importers.item import Item, RawConversation, Skipped
from palaver.importers.library.item_text import read_bytes
from palaver.model.library import Conversation

name = "codex"

_FIRST = re.compile(rb'\s*\{\s*"session"\s*:\s*\{')
_ITEMS = re.compile(rb'"items"\s*:\s*\[')


def recognises(item: Item, head: bytes) -> bool:
    if not item.file_name.endswith(".json") or not _FIRST.match(head):
        return False
    return item.file_name.startswith("rollout-") or bool(_ITEMS.search(head))


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    found = parse_object(read_bytes(item))
    session, items = found.get("session"), found.get("items")
    if not isinstance(session, dict) or not isinstance(items, list):
        raise Unreadable("not a session")
    id = valid_id(session.get("id")) or ""
    reading = ReadProgress(name=id, session_id=id, tool_output=item.tool_output)
    skipped: Counter[str] = Counter()
    messages: list[Said] = []
    for one in [session, *items]:
        try:
            messages += codex.read_line(json.dumps(one).encode(), reading)
        except Unreadable as problem:
            skipped[f"an item {problem}"] += 1
    for why, count in skipped.items():
        yield Skipped(item.name, why, count)
    yield from RawConversation(id, messages, folder=reading.cwd).build(item.name, name)
