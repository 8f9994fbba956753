"""Cursor: its databases `state.vscdb`, the global one and those of the workspaces.

Kept, each with the id of its bubble, in the order of the conversation's headers. A bubble without a time has the time
of the one before, or of the start of the conversation. Conversations of older versions, which are whole in one value,
are read too.

Left out: drafts, attached code and context, settings, keys, and every other value of the database.

The project is the folder of the workspace: from the conversation, from one of its bubbles, or from the `workspace.json`
beside the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import apsw

from palaver import importers
from palaver.importers import Unreadable
from palaver.importers.coding_agents.own_calls import is_own_tool
from palaver.importers.files.sqlite_file import columns_of, describe_error, has_columns, open_item, text_of_blob
from palaver.importers.files.streams import open_beside
from palaver.importers.item import (
    Item,
    RawConversation,
    RawMessage,
    Skipped,
    collect_messages,
    parse_any_time,
    tool_call_or_none,
)
from palaver.model.library import Conversation
from palaver.text.tool_output import ToolOutput

name = "cursor"

BATCH = 500
MOST_OF_A_WORKSPACE = 64 * 1024
_OLD_CHATS = "workbench.panel.aichat.view.aichat.chatdata"
_OLD_COMPOSERS = "composer.composerData"
_ROLES = {1: "user", 2: "assistant", "user": "user", "ai": "assistant"}


def recognises(item: Item, head: bytes) -> bool:
    tables = ["cursorDiskKV", "ItemTable"] if item.file_name.endswith(".vscdb") else ["cursorDiskKV"]
    return any(has_columns(item, head, {table: {"key", "value"}}) for table in tables)


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    with open_item(item) as database:
        if columns_of(database, "cursorDiskKV"):
            page = (
                "SELECT rowid FROM cursorDiskKV WHERE key > 'composerData:' AND key < 'composerData;'"
                " AND value IS NOT NULL AND rowid > ? ORDER BY rowid LIMIT ?"
            )
            last: Any = -1
            while rows := database.execute(page, (last, BATCH)).fetchall():  # no statement stays open in between
                for (last,) in rows:
                    yield from _read(item, database, last)
        if columns_of(database, "ItemTable"):
            yield from _old(item, database)


def _value(database: apsw.Connection, key: str, table: str = "cursorDiskKV") -> dict[str, Any] | None:
    raw = database.execute(f"SELECT CAST(value AS BLOB) FROM {table} WHERE key = ?", (importers.clean(key),)).get
    return importers.parse_object(raw) if isinstance(raw, bytes) and raw else None


def _read(item: Item, database: apsw.Connection, row: int) -> Iterator[Conversation | Skipped]:
    whole = "SELECT CAST(key AS BLOB), CAST(value AS BLOB) FROM cursorDiskKV WHERE rowid = ?"
    try:
        for found in database.execute(whole, (row,)).fetchall():
            key, value = map(text_of_blob, found)
            composer = importers.parse_object((value or "").encode())
            id = (key or "").removeprefix("composerData:")
            yield from _chat(item, id, composer, _bubbles(database, id, composer))
    except Unreadable as problem:
        yield Skipped(item.name, f"a conversation that is {problem}")
    except apsw.Error as problem:
        yield Skipped(item.name, describe_error(problem))


def _chat(
    item: Item, id: Any, about: dict[str, Any], bubbles: Iterable[dict[str, Any]]
) -> Iterator[Conversation | Skipped]:
    """A conversation. Its folder is the first one that it or a bubble names, or else the one of the workspace."""
    folder = _folder_of(about)
    at = parse_any_time(about.get("createdAt") or about.get("lastSendTime") or about.get("lastUpdatedAt"))
    drafts: list[RawMessage] = []
    for bubble in bubbles:
        folder = folder or _folder_of(bubble)
        kind = bubble.get("type")
        if role := _ROLES.get(kind) if isinstance(kind, int | str) else None:
            at = _time_of(bubble) or at
            drafts += _messages(bubble, role, at, item.tool_output)
    gathered = collect_messages(drafts)
    if not gathered.said and not about.get("fullConversationHeadersOnly"):
        return  # only an open tab
    if not folder and item.path:
        with suppress(OSError, Unreadable), open_beside(item.path.parent / "workspace.json") as file:
            beside = importers.parse_object(file.read(MOST_OF_A_WORKSPACE)).get("folder")
            folder = _local(beside) if isinstance(beside, str) else None
    conversation = RawConversation(
        id,
        gathered,
        title=about.get("name") or about.get("chatTitle"),
        created_at=parse_any_time(about.get("createdAt")),
        updated_at=parse_any_time(about.get("lastUpdatedAt") or about.get("lastSendTime")),
        folder=folder,
    )
    yield from conversation.build(item.name, name)


def _folder_of(about: dict[str, Any]) -> str | None:
    match about:
        case {"workspaceProjectDir": str(folder)} if folder.strip():
            return _local(folder)
        case {"workspaceUris": [str(folder), *_]}:
            return _local(folder)
        case {"workspaceIdentifier": {"uri": {"fsPath": str(folder)}}}:
            return _local(folder)
    return None


def _local(folder: str) -> str | None:
    """A path, also from `file:///home/ann/app`. A remote workspace has none."""
    if folder.startswith("file://"):
        folder = unquote(urlsplit(folder).path)
        folder = folder.removeprefix("/") if re.match(r"/[A-Za-z]:/", folder) else folder
    return None if "://" in folder else importers.storable_text(folder)


def _bubbles(database: apsw.Connection, id: str, composer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if whole := importers.objects_of(composer.get("conversation")):
        yield from whole
        return
    if tabs := importers.objects_of(composer.get("tabs")):
        for tab in tabs:
            yield from importers.objects_of(tab.get("bubbles"))
        return
    kept = composer.get("conversationMap")
    headers = importers.objects_of(composer.get("fullConversationHeadersOnly"))
    if not headers and isinstance(kept, dict):
        for bubble_id, bubble in kept.items():
            if isinstance(bubble, dict):
                yield {"bubbleId": bubble_id} | bubble
    for header in headers:
        bubble_id = header.get("bubbleId")
        if not isinstance(bubble_id, str):
            continue
        try:
            bubble = _value(database, f"bubbleId:{id}:{bubble_id}")
        except Unreadable:
            continue
        if bubble is None and isinstance(kept, dict) and isinstance(inline := kept.get(bubble_id), dict):
            bubble = inline
        if bubble is not None:
            yield {"type": header.get("type")} | bubble | {"bubbleId": bubble_id}


def _time_of(bubble: dict[str, Any]) -> datetime | None:
    timing = bubble.get("timingInfo")
    began = timing.get("clientStartTime") if isinstance(timing, dict) else None
    is_date = isinstance(began, int | float) and began > 1e12  # some versions count from the start of the editor
    return parse_any_time(bubble.get("createdAt")) or (parse_any_time(began) if is_date else None)


def _messages(bubble: dict[str, Any], role: str, at: datetime | None, kept: ToolOutput) -> Iterator[RawMessage]:
    id, text = bubble.get("bubbleId") or bubble.get("id"), bubble.get("text")
    yield RawMessage(id, role, text if isinstance(text, str) and text else bubble.get("rawText"), at)
    tool = bubble.get("toolFormerData")
    if isinstance(tool, dict) and isinstance(tool.get("name"), str) and not _is_own(tool):
        call, is_error = tool.get("toolCallId") or id, tool.get("status") == "error"
        text = tool_call_or_none(tool["name"], tool.get("rawArgs"), kept)
        yield RawMessage(id, "tool", text, at, importers.facts_of_call(call))
        result = importers.tool_result(tool.get("result"), kept, is_error=is_error)
        yield RawMessage(id, "tool", result, at, importers.facts_of_call(call, is_error=is_error))


def _is_own(tool: dict[str, Any]) -> bool:
    """Whether this calls one of palaver's own tools. Newer versions have one name for all, and name the server."""
    given: Any = tool.get("params") or tool.get("rawArgs")
    given = given if isinstance(given, dict) else importers.object_in(given)
    is_general = "mcp" in tool["name"].casefold()
    server = given.get("server") or given.get("serverName") if is_general else None
    return is_own_tool(tool["name"], server)


def _old(item: Item, database: apsw.Connection) -> Iterator[Conversation | Skipped]:
    """Chats of earlier versions, which are all in one value."""
    for key, list_name, id_name in ((_OLD_CHATS, "tabs", "tabId"), (_OLD_COMPOSERS, "allComposers", "composerId")):
        try:
            found = _value(database, key, "ItemTable") or {}
        except Unreadable as problem:
            yield Skipped(item.name, f"older chats that are {problem}")
            continue
        except apsw.Error as problem:
            yield Skipped(item.name, describe_error(problem))
            continue
        for chat in importers.objects_of(found.get(list_name)):
            bubbles = importers.objects_of(chat.get("bubbles")) or importers.objects_of(chat.get("conversation"))
            yield from _chat(item, chat.get(id_name), chat, bubbles)
