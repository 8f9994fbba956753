"""What people bring and keep: conversations that were held elsewhere, notes, media, characters and prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as made
from datetime import datetime
from typing import Any

from palaver.model.answers import Sparse


@dataclass(frozen=True, slots=True)
class Said:
    """Something that was said. `ts` is None where nothing tells when."""

    id: str
    role: str
    text: str
    ts: datetime | None


COPYING = "claude-code:"
"""How the ids of conversations begin whose program copies messages, with their ids, into a session that resumes or
forks another. A copied message is found once."""

_UNIQUE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])", re.IGNORECASE)


def is_unique(message_id: str) -> bool:
    """Does an id name one message wherever it is kept? Those that begin with a UUID do. So each message of a session
    that was watched and imported, or forked, is found once in every search."""
    return _UNIQUE.match(message_id) is not None


@dataclass(frozen=True)
class Conversation(Sparse):
    """An imported conversation. Its id is the same in every export of it."""

    sparse = ("project",)

    id: str
    origin: str
    title: str
    created_at: datetime | None
    updated_at: datetime | None
    messages: tuple[Said, ...]
    is_titled: bool = True
    """Whether somebody, or some program, gave it that title. If not, it was made of the first words the user said."""
    project: str | None = None
    """The path of the project it is about, where its program keeps one. Importers give the folder it was held in."""


# What a person keeps. Text is kept as it came: nothing is trimmed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    title: str
    content: str
    keywords: tuple[str, ...] = ()
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a recording, in seconds, and what is said in it."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A video, a podcast, a book, an article. Chunks that were given are kept as they are."""

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
class Draft:
    """A passage to be stored: its place in the document comes from the order they are given in."""

    text: str
    field: str = "content"
    native_id: str = ""
    author: str | None = None
    scopes: tuple[str, ...] = ()
    data: Mapping[str, Any] = made(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelved:
    """A piece as it goes into the store: what is shown in lists, its whole texts, and the passages to find it by."""

    title: str
    facts: dict[str, Any]
    bodies: Mapping[str, str]
    passages: tuple[Draft, ...]
    title_scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedPiece:
    """A piece of the library that was read from a file.

    `origin` names where it comes from, the same at each import ("markdown:recipes/bread.md"): when the file has changed
    since, the piece is updated. The same content from elsewhere is the same piece.
    """

    origin: str
    piece: Note | Media | Character | Prompt


Brought = ImportedPiece
"""The name of ImportedPiece in version 0.1. Importers of other packages may use it."""
