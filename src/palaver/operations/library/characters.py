"""Characters: who they are, and how they talk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from palaver.model.library import Character
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Ask, Line
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Edited,
    Keywords,
    Listing,
    current,
    given,
    texts_of,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources import shelving
from palaver.search.sources.shelving import CHARACTER_FACTS, CHARACTER_TEXTS
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem


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


def shown_character(read: Reader, kept: LibraryItem) -> KeptCharacter:
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
def create_character(change: Change, caller: Caller, ask: CreateCharacter) -> KeptCharacter:
    """Keep a character: who they are, how they talk, tags to find them by."""
    piece = _with_texts(Character(name=ask.name), ask)
    return shown_character(change, items.add(change, "characters", shelving.character(piece), ask.at))


def _with_texts(piece: Character, ask: CharacterTexts) -> Character:
    return replace(piece, **given(ask, (*CHARACTER_TEXTS, *CHARACTER_FACTS)))


@operation(Route("GET", "/api/characters/{character_id}"), Command("character show", takes=("character_id",)))
def read_character(read: Reader, caller: Caller, ask: OneCharacter) -> KeptCharacter:
    """One character, with everything on the card."""
    return shown_character(read, current(read, "characters", ask.character_id))


@operation(Tool("characters.update", toolset=WRITING), Route("PUT", "/api/characters/{character_id}"))
def update_character(change: Change, caller: Caller, ask: UpdateCharacter) -> KeptCharacter:
    """Change a character: what you leave out stays as it is."""
    kept = current(change, "characters", ask.character_id, ask.version)
    bodies = items.bodies(change, kept.document_id)
    own: dict[str, Any] = {name: kept.facts.get(name) or "" for name in ("creator", "character_version")}
    own |= {name: tuple(kept.facts.get(name) or ()) for name in ("tags", "alternate_greetings")}
    old = Character(name=kept.title or "", **texts_of(bodies, CHARACTER_TEXTS), **own)
    piece = _with_texts(replace(old, name=ask.name) if ask.name else old, ask)
    return shown_character(change, items.update(change, kept, shelving.character(piece)))


@operation(Route("GET", "/api/characters"), Command("character list", columns=("id", "name", "tags", "last_modified")))
def list_characters(read: Reader, caller: Caller, ask: Listing) -> list[KeptCharacter]:
    """Characters, those changed last first."""
    return [shown_character(read, kept) for kept in items.page(read, "characters", ask.limit, ask.offset)]
