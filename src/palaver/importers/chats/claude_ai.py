"""Claude.ai: the data export (`conversations.json`, often in zips within the zip).

Kept, each with the uuid of its message (further ones of the same message as `<uuid>.1`, `<uuid>.2` …):

- messages of the user and Claude, with the text of attached files and long pastes; other files as `[file NAME]`;
- calls of tools as `[tool NAME] {input}`, cut at 2,000 characters, but artifacts and written files whole; their
  results, cut at 10,000 (role tool).

Of several branches the one with the newest end counts: the export does not say which one was shown last. The others are
kept beside it. They can be read; a search does not find them.

Left out: thinking, citations, summaries, projects, the account (`users.json`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from palaver.importers import ToolFacts, facts_of_call, objects_of, parse_time, tool_result
from palaver.importers.chats.branches import Parents, newest_leaf, other_branches, path_to
from palaver.importers.files.json_stream import conversations_in, is_json
from palaver.importers.item import (
    Item,
    RawBranch,
    RawConversation,
    RawMessage,
    Skipped,
    collect_messages,
    tool_call_or_none,
)
from palaver.model.library import Conversation

name = "claude-ai"

_SIGN = re.compile(rb'"(mapping|chat_messages)"\s*:')
_ABOUT = re.compile(rb'"uuid"\s*:')
_UNSUPPORTED = re.compile(r"```\s*This block is not supported on your current device yet\.?\s*```\s*")
_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def recognises(item: Item, head: bytes) -> bool:
    """By the first key that only this format has; by its name if a long text comes before that key."""
    if not is_json(item, head) or not _ABOUT.search(head):
        return False
    sign = _SIGN.search(head)
    return sign[1] == b"chat_messages" if sign else item.file_name == "conversations.json"


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    for found in conversations_in(item, "chat_messages", list):
        if isinstance(found, Skipped):
            yield found
            continue
        shown, others = _shown(found)
        conversation = RawConversation(
            found.get("uuid"),
            (draft for message in shown for draft in _said(message)),
            title=found.get("name"),
            created_at=parse_time(found.get("created_at")),
            updated_at=parse_time(found.get("updated_at")),
            branches=others,
        )
        yield from conversation.build(item.name, name)


def _shown(found: dict[str, Any]) -> tuple[list[dict[str, Any]], list[RawBranch]]:
    """One branch of the conversation, and the others; all messages if none names its parent."""
    messages = objects_of(found["chat_messages"])
    by_id = {id: message for message in messages if isinstance(id := message.get("uuid"), str)}
    parents = {
        id: p if isinstance(p := message.get("parent_message_uuid"), str) else None for id, message in by_id.items()
    }
    if not any(parent in parents for parent in parents.values()):
        return messages, []
    current = found.get("current_leaf_message_uuid")
    if not isinstance(current, str) or current not in parents:
        current = newest_leaf(parents, {id: parse_time(message.get("created_at")) for id, message in by_id.items()})
    if not current:
        return messages, []
    path = path_to(current, parents)
    others = [
        RawBranch(_last_id(by_id, parents, fork), [draft for id in ids for draft in _said(by_id[id])])
        for fork, ids in other_branches(path, parents)
    ]
    return [by_id[id] for id in path], others


def _last_id(by_id: dict[str, dict[str, Any]], parents: Parents, fork: str | None) -> str | None:
    """The id of the last stored part of the nearest message with text."""
    while fork is not None and fork in by_id:
        if parts := collect_messages(_said(by_id[fork])).said:
            return parts[-1].id
        fork = parents.get(fork)
    return None


def _said(message: dict[str, Any]) -> Iterator[RawMessage]:
    """The text of a message, with each tool call and result at its place in it."""
    role = _ROLES.get(sender) if isinstance(sender := message.get("sender"), str) else None
    if role is None:
        return
    turns: list[tuple[str, str | None, ToolFacts | None]] = []
    texts: list[str] = []
    content, text = message.get("content"), message.get("text")
    if not isinstance(content, list) or all(map(_is_blank, content)):
        content = [{"text": _UNSUPPORTED.sub("", text)}] if isinstance(text, str) else []
    for block in content:
        match block:
            case {"type": "thinking" | "redacted_thinking"}:
                continue
            case {"type": "tool_use"}:
                said, tool = _call(block), facts_of_call(block.get("id"))
            case {"type": "tool_result"}:
                is_error = block.get("is_error") is True
                said = tool_result(block.get("content"))
                tool = facts_of_call(block.get("tool_use_id"), is_error=is_error)
            case {"text": str(text)}:
                texts.append(text)
                continue
            case _:
                continue
        turns += [(role, "\n".join(texts), None), ("tool", said, tool)]
        texts = []
    turns.append((role, "\n\n".join(["\n".join(texts), *_attached(message)]).strip("\n"), None))
    ts = parse_time(message.get("created_at"))
    for whose, words, tool in turns:
        yield RawMessage(message.get("uuid"), whose, words, ts, tool)


def _is_blank(block: Any) -> bool:
    """Whether a block is blank text. If all are, the text is only in the field `text` of the message."""
    if not isinstance(block, dict) or block.get("type", "text") != "text":
        return not isinstance(block, dict)
    return not (isinstance(text := block.get("text"), str) and text.strip())


def _call(block: dict[str, Any]) -> str | None:
    """The text of a tool call. Artifacts and files are kept whole: the user asked for them."""
    tool, given = block.get("name"), block.get("input")
    written = (given.get("content") or given.get("file_text")) if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(written, str):
        return tool_call_or_none(tool, given)
    title = given.get("title") or given.get("path") or given.get("id")
    return f"[tool {tool if isinstance(tool, str) else '?'}] {title if isinstance(title, str) else ''}\n{written}"


def _attached(message: dict[str, Any]) -> Iterator[str]:
    names = set()
    for attachment in objects_of(message.get("attachments")):
        file, text = attachment.get("file_name"), attachment.get("extracted_content")
        shown = f"[file {file}]" if isinstance(file, str) and file else ""
        names.add(shown)
        if said := "\n".join(part for part in (shown, text) if isinstance(part, str) and part):
            yield said
    for file in objects_of(message.get("files")):
        shown = f"[file {file.get('file_name')}]"
        if isinstance(file.get("file_name"), str) and file["file_name"] and shown not in names:
            yield shown
