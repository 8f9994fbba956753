"""The library: notes, media, chats, characters and prompts that people and agents keep.

Text is kept as it came. An edit may name the version it was made from: if somebody else was quicker, it is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, Field

from palaver.errors import Conflict
from palaver.model.asking import Ask, Line, Time, clamp, storable
from palaver.model.library import Brought, Character, Media, Note, Prompt, Segment, Shelved
from palaver.model.people import Caller
from palaver.model.times import instant, parse
from palaver.operations.agents import Ok
from palaver.operations.faces import Command, Operation, Route, Tool, operation
from palaver.sources import SOURCES, scopes, shelving
from palaver.sources.shelving import CHARACTER_FACTS, CHARACTER_TEXTS, PROMPT_TEXTS
from palaver.store import knowledge, library
from palaver.store.database import Change, Reader
from palaver.store.library import Kept, Outcome

LONGEST_CONTENT = 20_000_000
WRITING = "library-writing"

SHELVES: dict[type[Any], tuple[str, Callable[[Any], Shelved]]] = {
    Note: ("notes", shelving.note),
    Media: ("media", shelving.media),
    Character: ("characters", shelving.character),
    Prompt: ("prompts", shelving.prompt),
}


def _short_enough(id: int | str) -> int | str:
    if len(str(id)) > 512:
        raise ValueError("must be at most 512 characters")
    if isinstance(id, int):
        return id if -(2**63) <= id < 2**63 else str(id)
    return storable(id)


Content = Annotated[str, Field(max_length=LONGEST_CONTENT), AfterValidator(storable)]
AnyId = Annotated[int | str, AfterValidator(_short_enough)]
Keywords = Annotated[list[Line], Field(max_length=1000)]
Version = Annotated[int, clamp(0, 2**53)]


class Created(Ask):
    created_at: Time | None = None
    """When it was written, if not now."""

    @property
    def at(self) -> datetime | None:
        return parse(self.created_at) if self.created_at else None


class Edited(Ask):
    version: Version | None = None
    """The version this edit was made from: if there is a newer one, the edit is refused."""


class Listing(Ask):
    limit: Annotated[int, clamp(1, 1000)] = 100
    """How many at the most."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """How many to skip."""


def current(read: Reader, source: str, id: int | str, version: int | None = None) -> Kept:
    """What is kept under this id, if it still is what the caller thinks it is."""
    kept = library.must_exist(read, source, str(id))
    if version is not None and version != kept.version:
        raise Conflict(
            f"This is version {kept.version} by now, not {version}: read it again, then repeat the change.",
            current_version=kept.version,
        )
    return kept


def _given(ask: Ask, names: Iterable[str]) -> dict[str, Any]:
    """The fields of the ask that say something; lists become tuples."""
    found = {name: getattr(ask, name) for name in names}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items() if v is not None}


def _texts(bodies: dict[str, str], names: Iterable[str]) -> dict[str, Any]:
    return {name: bodies.get(name, "") for name in names}


def _uri(kept: Kept) -> str:
    return SOURCES[kept.source].uri_of(kept.id, "", 0)


# Notes


@dataclass(frozen=True, slots=True)
class KeptNote:
    id: str
    title: str
    content: str
    keywords: list[str]
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


class CreateNote(Created):
    title: Line
    """What it is called."""
    content: Content = ""
    """The text, as it is to be kept."""
    keywords: Keywords = Field(default=[])
    """Words to find it by; upper and lower case are the same."""


class OneNote(Ask):
    note_id: AnyId
    """Id of the note."""


class UpdateNote(Edited):
    note_id: AnyId
    """Id of the note."""
    title: Line | None = None
    """A new title."""
    content: Content | None = None
    """New text, in place of the old."""
    keywords: Keywords | None = None
    """New keywords, in place of the old."""


def _note(kept: Kept, bodies: dict[str, str]) -> KeptNote:
    return KeptNote(
        id=kept.id,
        title=kept.title or "",
        content=bodies.get("content", ""),
        keywords=kept.facts.get("keywords", []),
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=_uri(kept),
    )


def _shown_note(read: Reader, kept: Kept) -> KeptNote:
    return _note(kept, library.bodies(read, kept))


@operation(
    Tool("notes.create", toolset=WRITING),
    Route("POST", "/api/notes", status=201),
    Command("note add", takes=("title",), rest="content"),
)
def create_note(change: Change, caller: Caller, ask: CreateNote) -> KeptNote:
    """Keep a note: a title, a text, keywords to find it by."""
    piece = Note(title=ask.title, content=ask.content, keywords=tuple(ask.keywords))
    return _shown_note(change, library.add(change, "notes", shelving.note(piece), ask.at))


@operation(Route("GET", "/api/notes/{note_id}"), Command("note show", takes=("note_id",), text="content"))
def read_note(read: Reader, caller: Caller, ask: OneNote) -> KeptNote:
    """One note, whole."""
    return _shown_note(read, current(read, "notes", ask.note_id))


@operation(
    Tool("notes.update", toolset=WRITING),
    Route("PUT", "/api/notes/{note_id}"),
    Command("note edit", takes=("note_id",)),
)
def update_note(change: Change, caller: Caller, ask: UpdateNote) -> KeptNote:
    """Change a note: what you leave out stays as it is."""
    kept = current(change, "notes", ask.note_id, ask.version)
    bodies = library.bodies(change, kept)
    old = Note(title=kept.title or "", content=bodies["content"], keywords=tuple(kept.facts["keywords"]))
    piece = replace(old, **_given(ask, ("title", "content", "keywords")))
    return _shown_note(change, library.update(change, kept, shelving.note(piece)))


@operation(
    Route("GET", "/api/notes"),
    Command("note list", columns=("id", "title", "keywords", "last_modified")),
)
def list_notes(read: Reader, caller: Caller, ask: Listing) -> list[KeptNote]:
    """Notes, those changed last first."""
    return [_shown_note(read, kept) for kept in library.page(read, "notes", ask.limit, ask.offset)]


# Media


@dataclass(frozen=True, slots=True)
class TimedText:
    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    chunk_index: int
    chunk_uuid: str
    text: str


@dataclass(frozen=True, slots=True)
class Spoken:
    segments: list[TimedText]


@dataclass(frozen=True, slots=True)
class MediaCard:
    """A medium as listed: without its text."""

    id: int
    title: str
    media_type: str
    url: str | None
    keywords: list[str]
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


@dataclass(frozen=True, slots=True)
class KeptMedia(MediaCard):
    content: str
    chunks: list[Chunk]
    transcript: Spoken | None


class GivenChunk(Ask):
    text: Content
    """The text of the chunk."""


class GivenSegment(Ask):
    start: Annotated[float, Field(strict=False, ge=0, le=10_000_000, allow_inf_nan=False)]
    """Where it begins, in seconds."""
    end: Annotated[float, Field(strict=False, ge=0, le=10_000_000, allow_inf_nan=False)]
    """Where it ends, in seconds."""
    text: Content
    """What is said."""


class GivenTranscript(Ask):
    segments: Annotated[list[GivenSegment], Field(max_length=200_000)]
    """What is said when."""

    def as_segments(self) -> tuple[Segment, ...]:
        return tuple(Segment(s.start, max(s.start, s.end), s.text) for s in self.segments)


class CreateMedia(Created):
    title: Line
    """What it is called."""
    media_type: Annotated[Line, Field(min_length=1, max_length=100)]
    """video, audio, podcast, pdf, epub, docx, pptx, html, markdown, txt, image, article, or any other word."""
    content: Content = ""
    """Its text."""
    url: Annotated[Line, Field(max_length=4000)] | None = None
    """Where it comes from."""
    chunks: Annotated[list[GivenChunk], Field(max_length=100_000)] | None = None
    """The text cut into pieces, if you have cut it: they are kept as they are."""
    transcript: GivenTranscript | None = None
    """What is said when: {segments: [{start, end, text}]}, in seconds."""
    keywords: Keywords = Field(default=[])
    """Words to find it by."""


class OneMedia(Ask):
    media_id: AnyId
    """Id of the medium."""


class UpdateMedia(Edited):
    media_id: AnyId
    """Id of the medium."""
    title: Line | None = None
    """A new title."""
    media_type: Annotated[Line, Field(min_length=1, max_length=100)] | None = None
    """Another type."""
    content: Content | None = None
    """New text, in place of the old: chunks that were given with the old text go with it."""
    url: Annotated[Line, Field(max_length=4000)] | None = None
    """Another address."""
    chunks: Annotated[list[GivenChunk], Field(max_length=100_000)] | None = None
    """New chunks, kept as they are."""
    transcript: GivenTranscript | None = None
    """A new transcript."""
    keywords: Keywords | None = None
    """New keywords, in place of the old."""


def _media_facts(kept: Kept) -> dict[str, Any]:
    return {
        "id": int(kept.id),
        "title": kept.title or "",
        "media_type": kept.facts.get("media_type", ""),
        "url": kept.facts.get("url"),
        "keywords": kept.facts.get("keywords", []),
        "created_at": kept.created_at,
        "last_modified": kept.last_modified,
        "version": kept.version,
        "uri": _uri(kept),
    }


def segments_of(bodies: dict[str, str]) -> tuple[Segment, ...]:
    return tuple(Segment(*one) for one in orjson.loads(bodies.get("segments", "[]")))


def _shown_media(read: Reader, kept: Kept) -> KeptMedia:
    bodies = library.bodies(read, kept)
    rows = [row for row in knowledge.passages(read, kept.document_id, 1) if row["field"] == "content"]
    spoken = [TimedText(s.start, s.end, s.text) for s in segments_of(bodies)]
    return KeptMedia(
        **_media_facts(kept),
        content=bodies.get("content", ""),
        chunks=[Chunk(row["position"] - 1, row["native_id"], row["text"]) for row in rows],
        transcript=Spoken(spoken) if spoken else None,
    )


@operation(Tool("media.create", toolset=WRITING), Route("POST", "/api/media", status=201))
def create_media(change: Change, caller: Caller, ask: CreateMedia) -> KeptMedia:
    """Keep a video, a podcast, a book, an article: its text, its chunks if you have cut it, its transcript."""
    piece = Media(
        title=ask.title,
        media_type=ask.media_type,
        content=ask.content,
        url=ask.url,
        chunks=tuple(chunk.text for chunk in ask.chunks or ()),
        segments=ask.transcript.as_segments() if ask.transcript else (),
        keywords=tuple(ask.keywords),
    )
    return _shown_media(change, library.add(change, "media", shelving.media(piece), ask.at))


@operation(Route("GET", "/api/media/{media_id}"), Command("media show", takes=("media_id",), text="content"))
def read_media(read: Reader, caller: Caller, ask: OneMedia) -> KeptMedia:
    """One medium, with its text, its chunks and its transcript."""
    return _shown_media(read, current(read, "media", ask.media_id))


@operation(Tool("media.update", toolset=WRITING), Route("PUT", "/api/media/{media_id}"))
def update_media(change: Change, caller: Caller, ask: UpdateMedia) -> KeptMedia:
    """Change a medium: what you leave out stays as it is."""
    kept = current(change, "media", ask.media_id, ask.version)
    bodies = library.bodies(change, kept)
    is_new_text = ask.content is not None and ask.content != bodies["content"]
    chunks = () if is_new_text else tuple(orjson.loads(bodies.get("chunks", "[]")))
    old = Media(
        title=kept.title or "",
        media_type=kept.facts["media_type"],
        content=bodies["content"],
        url=kept.facts.get("url"),
        chunks=tuple(chunk.text for chunk in ask.chunks) if ask.chunks is not None else chunks,
        segments=ask.transcript.as_segments() if ask.transcript else segments_of(bodies),
        keywords=tuple(kept.facts.get("keywords", ())),
    )
    piece = replace(old, **_given(ask, ("title", "media_type", "content", "url", "keywords")))
    return _shown_media(change, library.update(change, kept, shelving.media(piece)))


@operation(
    Route("GET", "/api/media"),
    Command("media list", columns=("id", "media_type", "title", "last_modified")),
)
def list_media(read: Reader, caller: Caller, ask: Listing) -> list[MediaCard]:
    """Media, those changed last first, without their texts."""
    return [MediaCard(**_media_facts(kept)) for kept in library.page(read, "media", ask.limit, ask.offset)]


# Chats


@dataclass(frozen=True, slots=True)
class KeptChat:
    id: str
    conversation_id: str
    title: str
    character_id: int | str | None
    message_count: int
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    id: str
    message_id: str
    conversation_id: str
    message_index: int
    sender: str
    content: str
    created_at: datetime


class CreateChat(Created):
    title: Line
    """What it is called."""
    character_id: AnyId | None = None
    """The character it is with."""


class OneChat(Ask):
    conversation_id: AnyId
    """Id of the chat."""


class UpdateChat(Edited):
    conversation_id: AnyId
    """Id of the chat."""
    title: Line | None = None
    """A new title."""
    character_id: AnyId | None = None
    """Another character."""


class AddChatMessage(Created):
    conversation_id: AnyId
    """Id of the chat."""
    sender: Annotated[Line, Field(min_length=1, max_length=200)]
    """Who says it."""
    content: Content
    """What is said."""


class ListChatMessages(Listing):
    conversation_id: AnyId
    """Id of the chat."""


def _chat(read: Reader, kept: Kept) -> KeptChat:
    return KeptChat(
        id=kept.id,
        conversation_id=kept.id,
        title=kept.title or "",
        character_id=kept.facts.get("character_id"),
        message_count=read.must("passage_bounds", document_id=kept.document_id)["last"],
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=_uri(kept),
    )


def _chat_scopes(character_id: int | str | None) -> tuple[str, ...]:
    return (scopes.character(character_id),) if character_id is not None else ()


@operation(Tool("chats.create", toolset=WRITING), Route("POST", "/api/chats", status=201))
def create_chat(change: Change, caller: Caller, ask: CreateChat) -> KeptChat:
    """Begin a chat, with a character or without one."""
    shelved = Shelved(
        title=ask.title,
        facts={"character_id": ask.character_id},
        bodies={},
        passages=(),
        title_scopes=_chat_scopes(ask.character_id),
    )
    return _chat(change, library.add(change, "chats", shelved, ask.at))


@operation(Route("GET", "/api/chats/{conversation_id}"), Command("chat show", takes=("conversation_id",)))
def read_chat(read: Reader, caller: Caller, ask: OneChat) -> KeptChat:
    """One chat; its messages are read apart."""
    return _chat(read, current(read, "chats", ask.conversation_id))


@operation(Tool("chats.update", toolset=WRITING), Route("PUT", "/api/chats/{conversation_id}"))
def update_chat(change: Change, caller: Caller, ask: UpdateChat) -> KeptChat:
    """Change the title of a chat, or the character it is with."""
    kept = current(change, "chats", ask.conversation_id, ask.version)
    character = ask.character_id if ask.character_id is not None else kept.facts.get("character_id")
    own = _chat_scopes(character)
    moved = library.retitle(
        change,
        kept,
        title=ask.title if ask.title is not None else kept.title or "",
        facts={"character_id": character},
        scopes=own,
        title_scopes=own,
    )
    return _chat(change, moved)


@operation(Route("GET", "/api/chats"), Command("chat list", columns=("id", "title", "message_count", "last_modified")))
def list_chats(read: Reader, caller: Caller, ask: Listing) -> list[KeptChat]:
    """Chats, those spoken in last first."""
    return [_chat(read, kept) for kept in library.page(read, "chats", ask.limit, ask.offset)]


@operation(
    Tool("chats.add_message", toolset=WRITING),
    Route("POST", "/api/chats/{conversation_id}/messages", status=201),
    Command("chat say", takes=("conversation_id", "sender"), rest="content"),
)
def add_chat_message(change: Change, caller: Caller, ask: AddChatMessage) -> ChatMessage:
    """Say something in a chat."""
    kept = current(change, "chats", ask.conversation_id)
    own = (scopes.sender(ask.sender), *_chat_scopes(kept.facts.get("character_id")))
    said = library.say(change, kept, author=ask.sender, text=ask.content, scopes=own, at=ask.at)
    return ChatMessage(
        id=said["id"],
        message_id=said["id"],
        conversation_id=kept.id,
        message_index=said["index"],
        sender=ask.sender,
        content=ask.content,
        created_at=said["created_at"],
    )


@operation(
    Route("GET", "/api/chats/{conversation_id}/messages"),
    Command("chat messages", takes=("conversation_id",), columns=("created_at", "sender", "content")),
)
def list_chat_messages(read: Reader, caller: Caller, ask: ListChatMessages) -> list[ChatMessage]:
    """The messages of a chat, in order."""
    kept = current(read, "chats", ask.conversation_id)
    first = 1 + ask.offset
    rows = knowledge.passages(read, kept.document_id, first, first + ask.limit - 1)
    return [chat_message(kept.id, row) for row in rows]


def chat_message(conversation_id: str, row: dict[str, Any]) -> ChatMessage:
    return ChatMessage(
        id=row["native_id"],
        message_id=row["native_id"],
        conversation_id=conversation_id,
        message_index=row["position"] - 1,
        sender=row["author"] or "",
        content=row["text"],
        created_at=instant(row["created_at"]),
    )


# Characters


@dataclass(frozen=True, slots=True)
class KeptCharacter:
    id: int
    name: str
    description: str
    personality: str
    scenario: str
    system_prompt: str
    first_message: str
    message_examples: str
    alternate_greetings: list[str]
    post_history_instructions: str
    creator: str
    creator_notes: str
    character_version: str
    tags: list[str]
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


class CharacterTexts(Ask):
    description: Content | None = None
    """Who they are."""
    personality: Content | None = None
    """What they are like."""
    scenario: Content | None = None
    """Where and when it plays."""
    system_prompt: Content | None = None
    """What a model is told."""
    first_message: Content | None = None
    """How they begin."""
    message_examples: Content | None = None
    """How they talk."""
    alternate_greetings: Annotated[list[Content], Field(max_length=1000)] | None = None
    """Other ways to begin."""
    post_history_instructions: Content | None = None
    """What a model is told after the history."""
    creator: Line | None = None
    """Who made the character."""
    creator_notes: Content | None = None
    """What its maker says about it."""
    character_version: Line | None = None
    """The maker's own version."""
    tags: Keywords | None = None
    """Words to find it by."""


class CreateCharacter(CharacterTexts, Created):
    name: Annotated[Line, Field(min_length=1)]
    """Their name."""


class OneCharacter(Ask):
    character_id: AnyId
    """Id of the character."""


class UpdateCharacter(CharacterTexts, Edited):
    character_id: AnyId
    """Id of the character."""
    name: Annotated[Line, Field(min_length=1)] | None = None
    """A new name."""


def shown_character(read: Reader, kept: Kept) -> KeptCharacter:
    bodies = library.bodies(read, kept)
    return KeptCharacter(
        id=int(kept.id),
        name=kept.title or "",
        **_texts(bodies, CHARACTER_TEXTS),
        alternate_greetings=kept.facts.get("alternate_greetings") or [],
        creator=kept.facts.get("creator") or "",
        character_version=kept.facts.get("character_version") or "",
        tags=kept.facts.get("tags") or [],
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=_uri(kept),
    )


@operation(Tool("characters.create", toolset=WRITING), Route("POST", "/api/characters", status=201))
def create_character(change: Change, caller: Caller, ask: CreateCharacter) -> KeptCharacter:
    """Keep a character: who they are, how they talk, tags to find them by."""
    piece = _with_texts(Character(name=ask.name), ask)
    return shown_character(change, library.add(change, "characters", shelving.character(piece), ask.at))


def _with_texts(piece: Character, ask: CharacterTexts) -> Character:
    return replace(piece, **_given(ask, (*CHARACTER_TEXTS, *CHARACTER_FACTS)))


@operation(Route("GET", "/api/characters/{character_id}"), Command("character show", takes=("character_id",)))
def read_character(read: Reader, caller: Caller, ask: OneCharacter) -> KeptCharacter:
    """One character, with everything on the card."""
    return shown_character(read, current(read, "characters", ask.character_id))


@operation(Tool("characters.update", toolset=WRITING), Route("PUT", "/api/characters/{character_id}"))
def update_character(change: Change, caller: Caller, ask: UpdateCharacter) -> KeptCharacter:
    """Change a character: what you leave out stays as it is."""
    kept = current(change, "characters", ask.character_id, ask.version)
    bodies = library.bodies(change, kept)
    own: dict[str, Any] = {name: kept.facts.get(name) or "" for name in ("creator", "character_version")}
    own |= {name: tuple(kept.facts.get(name) or ()) for name in ("tags", "alternate_greetings")}
    old = Character(name=kept.title or "", **_texts(bodies, CHARACTER_TEXTS), **own)
    piece = _with_texts(replace(old, name=ask.name) if ask.name else old, ask)
    return shown_character(change, library.update(change, kept, shelving.character(piece)))


@operation(Route("GET", "/api/characters"), Command("character list", columns=("id", "name", "tags", "last_modified")))
def list_characters(read: Reader, caller: Caller, ask: Listing) -> list[KeptCharacter]:
    """Characters, those changed last first."""
    return [shown_character(read, kept) for kept in library.page(read, "characters", ask.limit, ask.offset)]


# Prompts


@dataclass(frozen=True, slots=True)
class KeptPrompt:
    id: str
    name: str
    author: str
    details: str
    system_prompt: str
    user_prompt: str
    keywords: list[str]
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


class PromptTexts(Ask):
    author: Line | None = None
    """Who wrote it."""
    details: Content | None = None
    """What it is for."""
    system_prompt: Content | None = None
    """What the model is told first."""
    user_prompt: Content | None = None
    """What is asked. {{name}} stands for something to be filled in."""
    keywords: Keywords | None = None
    """Words to find it by."""


class CreatePrompt(PromptTexts, Created):
    name: Annotated[Line, Field(min_length=1)]
    """What it is called."""


class OnePrompt(Ask):
    prompt_id: AnyId
    """Id or name of the prompt."""


class UpdatePrompt(PromptTexts, Edited):
    prompt_id: AnyId
    """Id or name of the prompt."""
    name: Annotated[Line, Field(min_length=1)] | None = None
    """A new name."""


def named_prompt(read: Reader, name: int | str, version: int | None = None) -> Kept:
    """The prompt of this id, or the one of this name that was changed last."""
    if library.find(read, "prompts", str(name)) is None:
        found = library.by_title(read, "prompts", str(name))
        if found:
            return current(read, "prompts", found.id, version)
    return current(read, "prompts", name, version)


def shown_prompt(read: Reader, kept: Kept) -> KeptPrompt:
    bodies = library.bodies(read, kept)
    return KeptPrompt(
        id=kept.id,
        name=kept.title or "",
        **_texts(bodies, PROMPT_TEXTS),
        keywords=kept.facts.get("keywords") or [],
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=_uri(kept),
    )


def _prompt_with(piece: Prompt, ask: PromptTexts) -> Prompt:
    return replace(piece, **_given(ask, (*PROMPT_TEXTS, "keywords")))


@operation(
    Tool("prompts.create", toolset=WRITING),
    Route("POST", "/api/prompts", status=201),
    Command("prompt add", takes=("name",)),
)
def create_prompt(change: Change, caller: Caller, ask: CreatePrompt) -> KeptPrompt:
    """Keep a prompt. MCP clients see it among their prompts, with an argument for each {{name}} in it."""
    piece = _prompt_with(Prompt(name=ask.name), ask)
    return shown_prompt(change, library.add(change, "prompts", shelving.prompt(piece), ask.at))


@operation(Route("GET", "/api/prompts/{prompt_id}"), Command("prompt show", takes=("prompt_id",)))
def read_prompt(read: Reader, caller: Caller, ask: OnePrompt) -> KeptPrompt:
    """One prompt, by its id or its name."""
    return shown_prompt(read, named_prompt(read, ask.prompt_id))


@operation(
    Tool("prompts.update", toolset=WRITING),
    Route("PUT", "/api/prompts/{prompt_id}"),
    Command("prompt edit", takes=("prompt_id",)),
)
def update_prompt(change: Change, caller: Caller, ask: UpdatePrompt) -> KeptPrompt:
    """Change a prompt: what you leave out stays as it is."""
    kept = named_prompt(change, ask.prompt_id, ask.version)
    bodies = library.bodies(change, kept)
    old = Prompt(
        name=ask.name or kept.title or "",
        **_texts(bodies, PROMPT_TEXTS),
        keywords=tuple(kept.facts.get("keywords") or ()),
    )
    return shown_prompt(change, library.update(change, kept, shelving.prompt(_prompt_with(old, ask))))


@operation(Route("GET", "/api/prompts"), Command("prompt list", columns=("id", "name", "author", "keywords")))
def list_prompts(read: Reader, caller: Caller, ask: Listing) -> list[KeptPrompt]:
    """Prompts, those changed last first."""
    return [shown_prompt(read, kept) for kept in library.page(read, "prompts", ask.limit, ask.offset)]


# What is the same for all: away, and back again


def _away_and_back(
    source: str, one: type[Ask], key: str, what: str, show: Callable[[Reader, Kept], Any]
) -> list[Operation]:
    def kept_of(change: Change, ask: Any) -> Kept:
        id = getattr(ask, key)
        return named_prompt(change, id) if source == "prompts" else current(change, source, id)

    def delete(change: Change, caller: Caller, ask: Any) -> Ok:
        library.delete(change, kept_of(change, ask))
        return Ok(True)

    def restore(change: Change, caller: Caller, ask: Any) -> Any:
        return show(change, library.restore(change, source, str(getattr(ask, key))))

    answer = {"notes": KeptNote, "media": KeptMedia, "chats": KeptChat, "characters": KeptCharacter}.get(
        source, KeptPrompt
    )
    delete.__name__, restore.__name__ = f"delete_{what}", f"restore_{what}"
    delete.__annotations__ |= {"ask": one, "return": Ok}
    restore.__annotations__ |= {"ask": one, "return": answer}
    delete.__doc__ = f"Delete a {what}: nobody finds it any more. It can be restored."
    restore.__doc__ = f"Bring back a {what} that was deleted."
    path = f"/api/{source}/{{{key}}}"
    return [
        operation(
            Tool(f"{source}.delete", toolset=WRITING, is_destructive=True),
            Route("DELETE", path),
            Command(f"{what} rm", takes=(key,)),
        )(delete),
        operation(
            Tool(f"{source}.restore", toolset=WRITING),
            Route("POST", f"{path}/restore"),
            Command(f"{what} restore", takes=(key,)),
        )(restore),
    ]


AWAY_AND_BACK: tuple[Operation, ...] = (
    *_away_and_back("notes", OneNote, "note_id", "note", _shown_note),
    *_away_and_back("media", OneMedia, "media_id", "media", _shown_media),
    *_away_and_back("chats", OneChat, "conversation_id", "chat", _chat),
    *_away_and_back("characters", OneCharacter, "character_id", "character", shown_character),
    *_away_and_back("prompts", OnePrompt, "prompt_id", "prompt", shown_prompt),
)

LIBRARY: tuple[Operation, ...] = (
    create_note,
    read_note,
    update_note,
    list_notes,
    create_media,
    read_media,
    update_media,
    list_media,
    create_chat,
    read_chat,
    update_chat,
    list_chats,
    add_chat_message,
    list_chat_messages,
    create_character,
    read_character,
    update_character,
    list_characters,
    create_prompt,
    read_prompt,
    update_prompt,
    list_prompts,
    *AWAY_AND_BACK,
)


# Bringing pieces in from files


def judge_brought(read: Reader, brought: Brought) -> Outcome:
    """What storing it would come to. The same content is the same piece, wherever it comes from."""
    source, _ = SHELVES[type(brought.piece)]
    known = library.origin(read, source, brought.origin)
    if known:
        return "unchanged" if known.fingerprint == fingerprint_of(brought) else "changed"
    return "unchanged" if library.id_by_content(read, source, content_digest(brought)) else "new"


def id_of(read: Reader, brought: Brought) -> str | int | None:
    """Under which id it is kept; None if it was deleted since."""
    source, _ = SHELVES[type(brought.piece)]
    known = library.origin(read, source, brought.origin)
    id = known.id if known else library.id_by_content(read, source, content_digest(brought))
    kept = library.find(read, source, id) if id else None
    return kept.shown_id if kept else None


def put_brought(change: Change, brought: Brought) -> Outcome:
    """Store a piece as its file has it now. The same again changes nothing."""
    outcome = judge_brought(change, brought)
    if outcome == "unchanged":
        return outcome
    source, shelve = SHELVES[type(brought.piece)]
    shelved, known = shelve(brought.piece), library.origin(change, source, brought.origin)
    kept = library.find(change, source, known.id) if known else None
    if kept:
        kept = library.update(change, kept, shelved)
    else:
        kept = library.add(change, source, shelved, brought.piece.created_at)
    library.remember_origin(change, kept, brought.origin, fingerprint_of(brought))
    return outcome


def fingerprint_of(brought: Brought) -> str:
    """A digest of the content and one of the piece itself: not of where it lies, nor of when it was written."""
    return content_digest(brought) + _digest(orjson.dumps(replace(brought.piece, created_at=None)))


def content_digest(brought: Brought) -> str:
    """The same for copies: a file under another name is another title, but no other note."""
    piece = brought.piece
    if isinstance(piece, Note | Media):
        return _digest(piece.content.encode())
    return _digest(orjson.dumps(replace(piece, created_at=None)))


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=16).hexdigest()
