"""opencode: its database `opencode.db` (versions since 1.2; seen with 1.18.18).

Kept, each with the id of its part:

- messages of the user (role user) and text answers of the model (assistant);
- calls of tools as `[tool NAME] {arguments}`, cut at 2,000 characters, and their results, cut at 10,000 (role tool).

Left out: reasoning, text that the program added (`synthetic`, `ignored`), files, snapshots, steps, summaries of diffs,
answers and calls that are not finished yet, messages that were undone (`revert`), calls of palaver's own tools with
their results, and all other tables. The JSON files of versions before 1.2 are not read: opencode moves them into the
database when it is updated.

A session of a subagent is a conversation of its own. The project is the folder of the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from palaver.importers import Unreadable, facts_of_call, object_in, parse_object, tool_result
from palaver.importers.coding_agents.own_calls import is_own_tool
from palaver.importers.files.sqlite_file import (
    columns_of,
    describe_error,
    has_columns,
    open_item,
    open_read_only,
    text_of_blob,
)
from palaver.importers.item import Item, RawConversation, RawMessage, Skipped, parse_any_time, tool_call_or_none
from palaver.model.library import Conversation
from palaver.text.tool_output import ToolOutput

name = "opencode"
session_names = ("opencode.db",)

_ROLES = {"user": "user", "assistant": "assistant"}
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
    "SELECT CAST(title AS BLOB), CAST(directory AS BLOB), CAST(revert AS BLOB), time_created, time_updated"
    " FROM session WHERE id = ?"
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
    return has_columns(item, head, _TABLES)


def last_change(item: Item) -> int:
    if item.path is None:
        return 0
    with open_read_only(item.path) as database:
        found = database.execute(_LAST_CHANGE).get
        return found if isinstance(found, int) else 0


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    with open_item(item) as database:
        has_parents = "parent_id" in columns_of(database, "session")
        for (raw,) in database.execute(_CHANGED, {"since": item.since}).fetchall():
            id = text_of_blob(raw) or ""
            try:
                row = database.execute(_SESSION, (id,)).fetchone()
                drafts = list(_said(database, id, text_of_blob(row[2]), item.tool_output)) if row else []
            except apsw.Error as problem:
                yield Skipped(item.name, describe_error(problem))
                continue
            if not row or not drafts:
                continue  # a session that was opened and not used
            conversation = RawConversation(
                id,
                drafts,
                title=text_of_blob(row[0]),
                created_at=parse_any_time(row[3]),
                updated_at=parse_any_time(row[4]),
                folder=text_of_blob(row[1]),
                parent=_parent(database, id) if has_parents else None,
            )
            yield from conversation.build(item.name, name)


def _said(database: apsw.Connection, id: str, revert: str | None, kept: ToolOutput) -> Iterator[RawMessage]:
    """The messages of a session, up to the one that the user went back to."""
    undone_message, undone_part = _undone(revert)
    is_undone = False
    for row in database.execute(_PARTS, (id,)).fetchall():
        part_id, message_id, message_data, part_data = map(text_of_blob, row)
        is_undone = is_undone or (message_id == undone_message and undone_part in (None, part_id))
        if is_undone:
            return
        try:
            message, part = parse_object((message_data or "").encode()), parse_object((part_data or "").encode())
        except Unreadable:
            continue
        kind = message.get("role")
        role = _ROLES.get(kind) if isinstance(kind, str) else None
        if role:
            yield from _part(part_id, role, message, part, kept)


def _parent(database: apsw.Connection, id: str) -> str | None:
    """The session that started this one."""
    return text_of_blob(database.execute("SELECT CAST(parent_id AS BLOB) FROM session WHERE id = ?", (id,)).get)


def _undone(revert: str | None) -> tuple[Any, Any]:
    """The message, and perhaps the part in it, from which on all was undone."""
    found = object_in(revert)
    return found.get("messageID"), found.get("partID")


def _part(
    id: str | None, role: str, message: dict[str, Any], part: dict[str, Any], kept: ToolOutput
) -> Iterator[RawMessage]:
    times = message.get("time") if isinstance(message.get("time"), dict) else {}
    at = parse_any_time(times.get("created")) if times else None
    match part:
        case {"type": "text", "synthetic": True} | {"type": "text", "ignored": True}:
            return
        case {"type": "text", "text": text}:
            is_finished = role == "user" or (times or {}).get("completed") or _time(part, "end")
            if is_finished:
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
