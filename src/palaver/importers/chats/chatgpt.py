"""ChatGPT: the data export (`conversations.json`, or `conversations-000.json`, `-001.json` …).

A conversation is a tree with every edited question and every regenerated answer.

Kept: the branch that was shown last (the path to `current_node`, or else the branch with the newest end). Each message
has the id of its node:

- messages of the user and the assistant, voice as its transcription; images, audio, video and files as `[image]`,
  `[audio]`, `[video]`, `[file]`;
- calls of tools as `[tool NAME] …` (code, searches, canvas documents with their text), and their results: output,
  quotes, web pages, errors (role tool).

Other branches (edited questions, answers given again) are kept beside it. They can be read; a search
does not find them.

Left out: system and hidden messages, custom instructions, thoughts and their recaps, citation marks in
texts, feedback, the account (`user.json`), and the files themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import orjson

from palaver.importers.chats.branches import Parents, newest_leaf, other_branches, path_to
from palaver.importers.files.json_stream import conversations_in, is_json
from palaver.importers.item import Item, RawBranch, RawConversation, RawMessage, Skipped, parse_any_time
from palaver.model.library import Conversation, ToolFacts

name = "chatgpt"

FILE = re.compile(r"conversations(?P<shard>-\d+)?\.json", re.IGNORECASE)
_SIGN = re.compile(rb'"(mapping|chat_messages)"\s*:')
_EMPTY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\]\s*")
_ABOUT = re.compile(rb'"(?:create_time|current_node|conversation_id|author)"\s*:')

_UNSAID = frozenset({"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"})

# Citation marks: U+E200 kind U+E202 detail U+E201; in older texts 【1†source】, 【oaicite:1】 and
# :contentReference[oaicite:1]{index=1}.
_MARK = re.compile("\ue200([^\ue200\ue201]*)\ue201")
_BRACKET = re.compile("【[^【】\n]{0,100}†[^【】\n]{0,300}】")
_OAICITE = re.compile(r":contentReference\[oaicite:\d{1,6}\](?:\{index=\d{1,6}\})?|【oaicite:\d{1,6}】")
_LEFT_OVER = re.compile(r"\b(?:file)?cite(?:turn\d+[a-z]+\d+)+")
_SIGNS = re.compile("[\ue200-\ue206]")


def recognises(item: Item, head: bytes) -> bool:
    """By the first key that only this format has; by its name if a long text comes before that key."""
    if FILE.fullmatch(item.file_name) and _EMPTY.fullmatch(head):
        return True
    if not is_json(item, head) or not _ABOUT.search(head):
        return False
    sign = _SIGN.search(head)
    return sign[1] == b"mapping" if sign else bool(FILE.fullmatch(item.file_name))


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    for found in conversations_in(item, "mapping", dict):
        if isinstance(found, Skipped):
            yield found
            continue
        nodes = {id: node for id, node in found["mapping"].items() if isinstance(node, dict)}
        parents = _parents(nodes)
        said = {id: _said(id, node.get("message")) for id, node in nodes.items()}
        path = _shown_last(nodes, parents, said, found.get("current_node"))
        id = found.get("id") or found.get("conversation_id")
        if not id and path:  # made of values that stay the same while the conversation goes on
            made = "\n".join([*path[:2], str(found.get("create_time") or found.get("title"))])
            id = f"{path[0]}.{sha256(made.encode('utf-8', 'replace')).hexdigest()[:16]}"
        conversation = RawConversation(
            id,
            (said[id] for id in path),
            title=found.get("title"),
            created_at=parse_any_time(found.get("create_time")),
            updated_at=parse_any_time(found.get("update_time")),
            branches=_other_branches(said, parents, path),
        )
        yield from conversation.build(item.name, name)


def _other_branches(said: dict[str, RawMessage], parents: Parents, path: list[str]) -> Iterator[RawBranch]:
    """The branches beside the one that was shown. Each follows the last message with text before it."""
    with_text = {id for id, message in said.items() if message.text}
    for after, ids in other_branches(path, parents):
        while after is not None and after not in with_text:
            after = parents.get(after)
        yield RawBranch(after, [said[id] for id in ids])


def _parents(nodes: dict[str, dict[str, Any]]) -> dict[str, str | None]:
    parents = {id: parent if isinstance(parent := node.get("parent"), str) else None for id, node in nodes.items()}
    if sum(parent is None for parent in parents.values()) > 1:  # some parents are only known from `children`
        for id, node in nodes.items():
            for child in children if isinstance(children := node.get("children"), list) else ():
                if isinstance(child, str) and child != id and child in parents and parents[child] is None:
                    parents[child] = id
    return parents


def _shown_last(
    nodes: dict[str, dict[str, Any]], parents: Parents, said: dict[str, RawMessage], current: Any
) -> list[str]:
    path = path_to(current, parents) if isinstance(current, str) else []
    if any(said[id].text for id in path):
        return path
    times = {
        id: parse_any_time(m.get("create_time")) for id, n in nodes.items() if isinstance(m := n.get("message"), dict)
    }
    leaf = newest_leaf({id: parents[id] for id in parents if id in times}, times)
    return path_to(leaf, parents) if leaf else path


def _said(id: str, message: Any) -> RawMessage:
    """The message of a node. It has no text if it was not shown."""
    message = message if isinstance(message, dict) else {}
    content, recipient, metadata = message.get("content"), message.get("recipient"), message.get("metadata")
    role = author.get("role") if isinstance(author := message.get("author"), dict) else None
    if role not in ("user", "assistant", "tool") or not isinstance(content, dict):
        return RawMessage(id, "", "", None)
    kind = content.get("content_type")
    is_hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation") is True
    is_thought = (isinstance(kind, str) and kind in _UNSAID) or (
        role != "user" and message.get("channel") == "analysis"
    )
    if is_hidden or is_thought:
        return RawMessage(id, "", "", None)
    text = without_marks(text_of_content(content))
    tool = ToolFacts(is_error=True) if kind == "system_error" else None
    if role == "assistant" and isinstance(recipient, str) and recipient not in ("all", "") and text.strip():
        role, text = "tool", f"[tool {recipient[:100]}] {_document(text) if recipient.startswith('canmore.') else text}"
    return RawMessage(id, role, text, parse_any_time(message.get("create_time")) if text else None, tool)


def text_of_content(content: dict[str, Any]) -> str:
    """The text of a content of any type."""
    match content.get("content_type"):
        case "text" | "multimodal_text":
            return text_of_parts(content.get("parts"))
        case "tether_browsing_display":
            return _lines(content, "summary", "result")
        case "system_error":
            return _lines(content, "name", "text")
    return text_of_parts(content.get("parts")) or _lines(
        content, "title", "url", "text", "snippet", "result", "output_str"
    )


def _lines(content: dict[str, Any], *keys: str) -> str:
    return "\n".join(text for key in keys if isinstance(text := content.get(key), str) and text)


def text_of_parts(parts: Any) -> str:
    if not isinstance(parts, list):
        return ""
    texts = [text for part in parts if (text := _part(part))]
    if any(isinstance(part, dict) and part.get("content_type") == "audio_transcription" for part in parts):
        texts = [text for text in texts if text != "[audio]"]  # its transcription is there
    return "\n".join(texts)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if isinstance(text := part.get("text"), str):
        return text
    kind = part.get("content_type")
    if not isinstance(kind, str) or "pointer" not in kind:
        return ""
    return next((f"[{medium}]" for medium in ("image", "audio", "video") if medium in kind), "[file]")


def _document(text: str) -> str:
    """The name and the text of a canvas document, which is JSON."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if not isinstance(document, dict) or not isinstance(document.get("content"), str):
        return text
    return _lines(document, "name", "content")


def without_marks(text: str) -> str:
    """Remove the citation marks. Words that were shown stay: the name of an entity, the text of a link."""
    if "\ue200" in text:
        text = _SIGNS.sub("", _MARK.sub(_shown, text))
    if "†" in text:
        text = _BRACKET.sub("", text)
    if "oaicite:" in text:
        text = _OAICITE.sub("", text)
    if "citeturn" in text:
        text = _LEFT_OVER.sub("", text)
    return text


def _shown(mark: re.Match[str]) -> str:
    kind, _, detail = mark[1].partition("\ue202")
    if kind == "url":
        return detail.partition("\ue202")[0]
    if kind == "entity":
        try:
            match orjson.loads(detail):
                case [_, str(shown), *_]:
                    return shown
        except orjson.JSONDecodeError:
            pass
    return ""
