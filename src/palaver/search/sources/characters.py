"""Characters: the fields of a character card, and tags."""

from __future__ import annotations

from typing import Any

from palaver.model.library import Character, ItemDraft
from palaver.model.people import Caller
from palaver.model.requests import Names, NumberId
from palaver.search.sources import tokens
from palaver.search.sources.indexing import cut, labels
from palaver.search.sources.shapes import Fields, SourceFilters
from palaver.store.engines.database import Reader, Scope

CHARACTER_TEXTS = (
    "description",
    "personality",
    "scenario",
    "system_prompt",
    "first_message",
    "message_examples",
    "post_history_instructions",
    "creator_notes",
)
GREETINGS = "alternate_greetings"
CHARACTER_FACTS = ("alternate_greetings", "creator", "character_version", "tags")


class CharactersFilters(SourceFilters):
    tags: Names | None = None
    """Only characters that have all of these tags."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        return Scope(("characters",), scopes=tuple(tokens.keyword(tag) for tag in self.tags or ()))


class Characters(Fields):
    name = "characters"
    filters = CharactersFilters
    fields = (*CHARACTER_TEXTS, GREETINGS)
    search_help = "Search characters by description or tags, best match first."
    get_help = "Open a character: the whole card, or a part of it."
    id_field, id_help, id_type = "character_id", "Id of the character.", NumberId

    def id_of(self, document: str, native_id: str, position: int) -> str | int:
        return int(document)

    def tags(self, facts: Any) -> list[str] | None:
        return list(facts.get("tags") or [])


def index_character(character: Character) -> ItemDraft:
    texts = {name: getattr(character, name) for name in CHARACTER_TEXTS}
    texts[GREETINGS] = "\n\n".join(character.alternate_greetings)
    own = tuple(tokens.keyword(tag) for tag in character.tags)
    found = [draft for name, text in texts.items() for draft in cut(text, name, (tokens.field(name), *own))]
    found += labels("tags", character.tags, (tokens.field("tags"), *own))
    return ItemDraft(
        title=character.name,
        facts={
            "alternate_greetings": list(character.alternate_greetings),
            "creator": character.creator,
            "character_version": character.character_version,
            "tags": list(character.tags),
        },
        bodies=texts,
        passages=tuple(found),
        title_scopes=(tokens.field("name"), *own),
    )
