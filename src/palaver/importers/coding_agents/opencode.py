"""opencode: its database `opencode.db` (versions since 1.2; seen with 1.18.18).

Kept, each with the id of its part.

Left out: text that the program added (`synthetic`, `ignored`), files, snapshots, steps, summaries of diffs, answers and
calls that are not finished yet, messages that were undone (`revert`), and all other tables. The JSON files of versions
before 1.2 are not read: opencode moves them into the database when it is updated.

A session of a subagent is a conversation of its own. The project is the folder of the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from palaver.importers import Unreadable, facts_of_call, object_in, parse_object, tool_result
from palaver.importers.coding_agents.own_calls import is_own_tool
from palaver.importers.files import sqlite_file
from palaver.importers.item import Item, RawConversation, RawMessage, Skipped, parse_any_time, tool_call_or_none
from palaver.model.library import Conversation
from palaver.text.tool_output import ToolOutput

name = "opencode"
session_names = ("opencode.db",)

_TABLES = {
    "session": {"id", "directory", "title", "revert", "time_created", "time_updated"},
    "message": {"id", "session_id", "time_created", "time_updated", "data"},
    "part": {"id", "message_id", "session_id", "data"},
}
_CHANGED = (
    "SELECT CAST(id AS BLOB) FROM session WHERE time_updated >= :since"
    " OR id IN (SELECT session_id FROM message WHERE time_updated >= :since) ORDER BY time_created, id"
)
_SESSION = (
    "SELECT CAST(title AS BLOB), CAST(directory AS BLOB), CAST(revert AS BLOB), CAST({parent} AS BLOB),"
    " time_created, time_updated FROM session WHERE id = ?"
)
_PARTS = (
    "SELECT CAST(part.id AS BLOB), CAST(message.id AS BLOB), CAST(message.data AS BLOB), CAST(part.data AS BLOB)"
    " FROM message JOIN part ON part.message_id = message.id"
    " WHERE message.session_id = ? ORDER BY message.time_created, message.id, part.id"
)
_LAST_CHANGE = (
    "SELECT max((SELECT coalesce(max(time_updated), 0) FROM session),"
    " (SELECT coalesce(max(time_updated), 0) FROM message))"
)


def recognises(item: Item, head: bytes) -> bool:
    return sqlite_file.has_columns(item, head, _TABLES)


def last_change(item: Item) -> int:
    if item.path is None:
        return 0
    with sqlite_file.open_read_only(item.path) as database:
        found = database.execute(_LAST_CHANGE).get
        return found if isinstance(found, int) else 0


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    with sqlite_file.open_item(item) as database:
        session = _SESSION.format(
            parent="parent_id" if "parent_id" in sqlite_file.columns_of(database, "session") else "NULL"
        )
        for (raw,) in database.execute(_CHANGED, {"since": item.since}).fetchall():
            id = sqlite_file.text_of_blob(raw) or ""
            try:
                row = database.execute(session, (id,)).fetchone()
                title, folder, revert, parent, created, updated = row or (None,) * 6
                drafts = list(_said(database, id, sqlite_file.text_of_blob(revert), item.tool_output)) if row else []
            except apsw.Error as problem:
                yield Skipped(item.name, sqlite_file.describe_error(problem))
                continue
            if not drafts:
                continue  # a session that was opened and not used
            conversation = RawConversation(
                id,
                drafts,
                title=sqlite_file.text_of_blob(title),
                created_at=parse_any_time(created),
                updated_at=parse_any_time(updated),
                folder=sqlite_file.text_of_blob(folder),
                parent=sqlite_file.text_of_blob(parent),
            )
            yield from conversation.build(item.name, name)


def _said(database: apsw.Connection, id: str, revert: str | None, kept: ToolOutput) -> Iterator[RawMessage]:
    """The messages of a session, up to the message, or the part in it, that the user went back to."""
    undone = object_in(revert)
    for row in database.execute(_PARTS, (id,)).fetchall():
        part_id, message_id, message_data, part_data = map(sqlite_file.text_of_blob, row)
        if message_id == undone.get("messageID") and undone.get("partID") in (None, part_id):
            return
        try:
            message, part = parse_object((message_data or "").encode()), parse_object((part_data or "").encode())
        except Unreadable:
            continue
        if message.get("role") in ("user", "assistant"):
            yield from _part(part_id, message, part, kept)


def _part(id: str | None, message: dict[str, Any], part: dict[str, Any], kept: ToolOutput) -> Iterator[RawMessage]:
    role, at = message["role"], _time(message, "created")
    match part:
        case {"type": "text", "synthetic": True} | {"type": "text", "ignored": True}:
            return
        case {"type": "text", "text": text}:
            if role == "user" or _time(message, "completed") or _time(part, "end"):
                yield RawMessage(id, role, text, _time(part, "start") or at)
        case {"type": "tool", "tool": str(tool), "state": {"status": "completed" | "error" as status} as state}:
            if is_own_tool(tool):
                return
            begun, ended = _time(state, "start"), _time(state, "end")
            at = begun or at
            ms = int((ended - begun).total_seconds() * 1000) if begun and ended and ended >= begun else None
            is_error = status == "error"
            output = state.get("output") if status == "completed" else state.get("error")
            call = part.get("callID") or id
            text = tool_call_or_none(tool, state.get("input"), kept)
            yield RawMessage(id, "tool", text, at, facts_of_call(call))
            facts = facts_of_call(call, is_error=is_error, ms=ms)
            yield RawMessage(id, "tool", tool_result(output, kept, is_error=is_error), at, facts)


def _time(about: dict[str, Any], which: str) -> Any:
    times = about.get("time")
    return parse_any_time(times.get(which)) if isinstance(times, dict) else None
