"""Characters: the fields of a character card, and tags."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from palaver.model.library import Character
from palaver.model.requests import Line
from palaver.operations.library.items import Content, Created, ItemSource, Keywords, operations_of
from palaver.search.sources.indexing import index_character


class CreateCharacter(Created):
    name: Annotated[Line, Field(min_length=1)]
    """Name of the character."""
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


CHARACTERS = ItemSource(
    name="characters",
    noun="character",
    key="character_id",
    key_help="Id of the character.",
    piece=Character,
    index=index_character,
    creates=CreateCharacter,
    help={
        "create": "Store a character with its description, personality, example messages and tags.",
        "read": "Get one character with all its fields.",
        "list": "List characters, last changed first.",
    },
    columns=("id", "name", "tags", "last_modified"),
)
OPERATIONS = operations_of(CHARACTERS)
create_character, read_character, update_character, list_characters, delete_character, restore_character = OPERATIONS
