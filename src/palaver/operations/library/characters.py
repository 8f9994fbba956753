"""Characters: create, read, update, list."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from palaver.model.library import Character, ItemDraft
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Line, Request
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Keywords,
    Listing,
    VersionedEdit,
    add_item,
    current,
    given,
    texts_of,
    update_item,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources.characters import CHARACTER_FACTS, CHARACTER_TEXTS, index_character
from palaver.store.engines.database import Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.workspaces import Workspace


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


class CharacterTexts(Request):
    description: Content | None = None
    """Who the character is."""
    personality: Content | None = None
    """The personality of the character."""
    scenario: Content | None = None
    """Where and when the scene takes place."""
    system_prompt: Content | None = None
    """System prompt for a model that plays the character."""
    first_message: Content | None = None
    """The first message of the character."""
    message_examples: Content | None = None
    """Example messages of the character."""
    alternate_greetings: Annotated[list[Content], Field(max_length=1000)] | None = None
    """Alternative first messages."""
    post_history_instructions: Content | None = None
    """Instructions for the model, placed after the chat history."""
    creator: Line | None = None
    """Author of the character."""
    creator_notes: Content | None = None
    """Notes of the author."""
    character_version: Line | None = None
    """The author's version number."""
    tags: Keywords | None = None
    """Tags for search."""


class CreateCharacter(CharacterTexts, Created):
    name: Annotated[Line, Field(min_length=1)]
    """Name of the character."""


class OneCharacter(Request):
    character_id: AnyId
    """Id of the character."""


class UpdateCharacter(CharacterTexts, VersionedEdit):
    character_id: AnyId
    """Id of the character."""
    name: Annotated[Line, Field(min_length=1)] | None = None
    """New name."""


def character_of(read: Reader, kept: LibraryItem) -> KeptCharacter:
    bodies = items.bodies(read, kept.document_id)
    return KeptCharacter(
        id=int(kept.id),
        name=kept.title or "",
        **texts_of(bodies, CHARACTER_TEXTS),
        alternate_greetings=kept.facts.get("alternate_greetings") or [],
        creator=kept.facts.get("creator") or "",
        character_version=kept.facts.get("character_version") or "",
        tags=kept.facts.get("tags") or [],
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=uri_of(kept),
    )


@operation(Tool("characters.create", toolset=WRITING), Route("POST", "/api/characters", status=201))
async def create_character(workspace: Workspace, caller: Caller, request: CreateCharacter) -> KeptCharacter:
    """Store a character with its description, personality, example messages and tags."""
    piece = _with_texts(Character(name=request.name), request)
    return await add_item(workspace, "characters", lambda: index_character(piece), character_of, request.at)


def _with_texts(piece: Character, request: CharacterTexts) -> Character:
    return replace(piece, **given(request, (*CHARACTER_TEXTS, *CHARACTER_FACTS)))


@operation(Route("GET", "/api/characters/{character_id}"), Command("character show", takes=("character_id",)))
def read_character(read: Reader, caller: Caller, request: OneCharacter) -> KeptCharacter:
    """Get one character with all its fields."""
    return character_of(read, current(read, "characters", request.character_id))


@operation(Tool("characters.update", toolset=WRITING), Route("PUT", "/api/characters/{character_id}"))
async def update_character(workspace: Workspace, caller: Caller, request: UpdateCharacter) -> KeptCharacter:
    """Update a character. Fields you leave out do not change."""

    def look(read: Reader) -> tuple[LibraryItem, ItemDraft]:
        kept = current(read, "characters", request.character_id, request.version)
        bodies = items.bodies(read, kept.document_id)
        own: dict[str, Any] = {name: kept.facts.get(name) or "" for name in ("creator", "character_version")}
        own |= {name: tuple(kept.facts.get(name) or ()) for name in ("tags", "alternate_greetings")}
        old = Character(name=kept.title or "", **texts_of(bodies, CHARACTER_TEXTS), **own)
        return kept, index_character(_with_texts(replace(old, name=request.name) if request.name else old, request))

    return await update_item(workspace, look, character_of, request.version)


@operation(Route("GET", "/api/characters"), Command("character list", columns=("id", "name", "tags", "last_modified")))
def list_characters(read: Reader, caller: Caller, request: Listing) -> list[KeptCharacter]:
    """List characters, last changed first."""
    return [character_of(read, kept) for kept in items.page(read, "characters", request.limit, request.offset)]
