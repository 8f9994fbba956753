"""Indexing: a library item becomes facts, whole texts, and passages."""

from __future__ import annotations

import re
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import orjson

from palaver.model.library import Character, Draft, ItemDraft, Media, Note, Prompt
from palaver.search.sources import tokens
from palaver.text.passages import pieces

PROMPT_TEXTS = ("details", "system_prompt", "user_prompt", "author")
CHARACTER_TEXTS = (
    "description", "personality", "scenario", "system_prompt", "first_message", "message_examples",
    "post_history_instructions", "creator_notes",
)  # fmt: skip
GREETINGS = "alternate_greetings"
CHARACTER_FACTS = ("alternate_greetings", "creator", "character_version", "tags")


def index_note(note: Note) -> ItemDraft:
    own = tuple(map(tokens.keyword, note.keywords))
    return ItemDraft(
        title=note.title,
        facts={"keywords": list(note.keywords)},
        bodies={"content": note.content},
        passages=(*_cut(note.content, "content", own), *_labels("keywords", note.keywords, own)),
        title_scopes=own,
    )


def index_media(media: Media) -> ItemDraft:
    own = (tokens.media_type(media.media_type), *map(tokens.keyword, media.keywords))
    transcript = "\n".join(segment.text for segment in media.segments)
    bodies = {"content": media.content}
    if media.segments:
        bodies |= {"transcript": transcript, "segments": _to_json([[s.start, s.end, s.text] for s in media.segments])}
    if media.chunks:
        bodies["chunks"] = _to_json(list(media.chunks))
        content = [Draft(text=chunk, native_id=_chunk_id(media, n), scopes=own) for n, chunk in enumerate(media.chunks)]
    else:
        content = _cut(media.content, "content", own, media)
    if transcript and _letters_only(transcript) not in _letters_only(media.content):
        content += _cut(transcript, "transcript", own)
    return ItemDraft(
        title=media.title,
        facts={"media_type": media.media_type, "url": media.url, "keywords": list(media.keywords)},
        bodies=bodies,
        passages=(*content, *_labels("keywords", media.keywords, own)),
        title_scopes=own,
    )


def index_character(character: Character) -> ItemDraft:
    texts = {name: getattr(character, name) for name in CHARACTER_TEXTS}
    texts[GREETINGS] = "\n\n".join(character.alternate_greetings)
    own = tuple(map(tokens.keyword, character.tags))
    found = [draft for name, text in texts.items() for draft in _cut(text, name, (tokens.field(name), *own))]
    found += _labels("tags", character.tags, (tokens.field("tags"), *own))
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


def index_prompt(prompt: Prompt) -> ItemDraft:
    texts = {name: getattr(prompt, name) for name in PROMPT_TEXTS}
    found = [draft for name, text in texts.items() for draft in _cut(text, name, (tokens.field(name),))]
    found += _labels("keywords", prompt.keywords, (tokens.field("keywords"), *map(tokens.keyword, prompt.keywords)))
    return ItemDraft(
        title=prompt.name,
        facts={"author": prompt.author, "keywords": list(prompt.keywords)},
        bodies=texts,
        passages=tuple(found),
        title_scopes=(tokens.field("name"),),
    )


def _cut(text: str, field: str, own: tuple[str, ...], media: Media | None = None) -> list[Draft]:
    """The passages of a field. `own` are their scope tokens."""
    return [
        Draft(
            text=text[start:end],
            field=field,
            scopes=own,
            data={"at": start},
            native_id=_chunk_id(media, n) if media else "",
        )
        for n, (start, end) in enumerate(pieces(text))
    ]


def _labels(field: str, names: tuple[str, ...], own: tuple[str, ...]) -> list[Draft]:
    """One passage with all keywords or tags."""
    return [Draft(text=", ".join(names), field=field, scopes=own)] if names else []


def _chunk_id(media: Media, number: int) -> str:
    """The id of a chunk. It stays the same while the item is unchanged."""
    return str(uuid5(NAMESPACE_URL, f"{media.title}\n{len(media.content)}\n{number}\n{media.content[:2_000]}"))


def _letters_only(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold())


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()
