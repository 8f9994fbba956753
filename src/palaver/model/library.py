"""Items of the library and the archive: imported conversations, notes, media, characters, prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as made
from datetime import datetime
from typing import Any

from palaver.model.answers import OmitsDefaults


@dataclass(frozen=True)
class ToolFacts(OmitsDefaults):
    """What a program stored of a tool call or of its result, besides the text."""

    omit_if_default = ("call", "is_error", "ms")

    call: str | None = None
    """The id that a call and its result have in common."""
    is_error: bool = False
    """The tool failed. Only results have it."""
    ms: int | None = None
    """How long the tool ran, in milliseconds, where the program stored it."""


def tool_facts(data: Any) -> ToolFacts | None:
    """The facts in stored JSON; None if there are none."""
    if not isinstance(data, Mapping):
        return None
    given, took = data.get("call"), data.get("ms")
    call = given if isinstance(given, str) and given else None
    ms = took if isinstance(took, int) and not isinstance(took, bool) and 0 <= took < 2**53 else None
    is_error = data.get("is_error") is True
    return ToolFacts(call, is_error, ms) if call or is_error or ms is not None else None


@dataclass(frozen=True)
class Said(OmitsDefaults):
    """One message of a conversation. `ts` is None if the time is unknown."""

    omit_if_default = ("tool",)

    id: str
    role: str
    text: str
    ts: datetime | None
    tool: ToolFacts | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """Messages that were edited or answered again. A search does not find them."""

    after: str | None
    """The id of the message that it follows, in the conversation or in an earlier branch; None at the start."""
    messages: tuple[Said, ...]


COPYING = "claude-code:"
"""Prefix of conversation ids of Claude Code. It copies messages with their ids into a session that resumes or forks
another; a search finds a copied message once."""

_UNIQUE = re.compile(r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|prt_[0-9a-z]{26})(?![0-9a-z])", re.IGNORECASE)


def is_unique(message_id: str) -> bool:
    """Whether an id is globally unique: it begins with a UUID or with an id of opencode. So a search finds a message
    once, even if its session was both watched and imported, or was forked."""
    return _UNIQUE.match(message_id) is not None


@dataclass(frozen=True)
class Conversation(OmitsDefaults):
    """An imported conversation. Its id is the same in every export of it."""

    omit_if_default = ("project", "parent", "branches")

    id: str
    origin: str
    title: str
    created_at: datetime | None
    updated_at: datetime | None
    messages: tuple[Said, ...]
    is_titled: bool = True
    """Whether the title was given by a person or a program. Otherwise it is the start of the user's first message."""
    project: str | None = None
    """The path of its project, if known. Importers set the folder in which the conversation took place."""
    parent: str | None = None
    """The id of the conversation that started this one as a subagent."""
    branches: tuple[Branch, ...] = ()
    """Messages beside the branch that was shown last."""


# Items of the library. Text is stored unchanged: nothing is trimmed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    title: str
    content: str
    keywords: tuple[str, ...] = ()
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a recording, in seconds, with the spoken text."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A media item: video, podcast, book, article. Given chunks are stored unchanged."""

    title: str
    media_type: str
    content: str
    url: str | None = None
    chunks: tuple[str, ...] = ()
    segments: tuple[Segment, ...] = ()
    keywords: tuple[str, ...] = ()
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Character:
    name: str
    description: str = ""
    personality: str = ""
    scenario: str = ""
    system_prompt: str = ""
    first_message: str = ""
    message_examples: str = ""
    alternate_greetings: tuple[str, ...] = ()
    post_history_instructions: str = ""
    creator: str = ""
    creator_notes: str = ""
    character_version: str = ""
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    name: str
    author: str = ""
    details: str = ""
    system_prompt: str = ""
    user_prompt: str = ""
    keywords: tuple[str, ...] = ()
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat with a character. Its messages are added later."""

    title: str
    character_id: int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A passage to store. Its position in the document is its position in the list."""

    text: str
    field: str = "content"
    native_id: str = ""
    author: str | None = None
    scopes: tuple[str, ...] = ()
    data: Mapping[str, Any] = made(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDraft:
    """A library item in the form for the store: facts for lists, full texts, and passages for search."""

    title: str
    facts: dict[str, Any]
    bodies: Mapping[str, str]
    passages: tuple[Draft, ...]
    title_scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedPiece:
    """A library item that was read from a file.

    `origin` names its file, the same at each import ("markdown:recipes/bread.md"): if the file has changed, the item is
    updated. The same content from another file is the same item.
    """

    origin: str
    piece: Note | Media | Character | Prompt


Brought = ImportedPiece
"""The name of ImportedPiece in version 0.1. Importers of other packages may use it."""
