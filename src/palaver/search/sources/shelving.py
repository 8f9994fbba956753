"""How a piece of the library goes into the store: its facts, its whole texts, and the passages it is found by."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import orjson

from palaver.model.library import Character, Draft, ItemDraft, Media, Note, Prompt, Segment
from palaver.search.sources import scopes
from palaver.text.passages import pieces

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
PROMPT_TEXTS = ("details", "system_prompt", "user_prompt", "author")


def note(piece: Note) -> ItemDraft:
    own = tuple(scopes.keyword(keyword) for keyword in piece.keywords)
    return ItemDraft(
        title=piece.title,
        facts={"keywords": list(piece.keywords)},
        bodies={"content": piece.content},
        passages=(*_cut(piece.content, "content", own), *_keywords(piece.keywords, own)),
        title_scopes=own,
    )


def media(piece: Media) -> ItemDraft:
    own = (scopes.media_type(piece.media_type), *(scopes.keyword(keyword) for keyword in piece.keywords))
    spoken = spoken_text(piece.segments)
    bodies = {"content": piece.content}
    if piece.segments:
        bodies |= {"transcript": spoken, "segments": _json([[s.start, s.end, s.text] for s in piece.segments])}
    if piece.chunks:
        bodies["chunks"] = _json(list(piece.chunks))
        content = [Draft(text=chunk, native_id=_chunk_id(piece, n), scopes=own) for n, chunk in enumerate(piece.chunks)]
    else:
        content = [*_cut(piece.content, "content", own, piece)]
    if spoken and _squeezed(spoken) not in _squeezed(piece.content):
        content += _cut(spoken, "transcript", own)
    return ItemDraft(
        title=piece.title,
        facts={"media_type": piece.media_type, "url": piece.url, "keywords": list(piece.keywords)},
        bodies=bodies,
        passages=(*content, *_keywords(piece.keywords, own)),
        title_scopes=own,
    )


def character(piece: Character) -> ItemDraft:
    texts = {name: getattr(piece, name) for name in CHARACTER_TEXTS}
    texts[GREETINGS] = "\n\n".join(piece.alternate_greetings)
    own = tuple(scopes.keyword(tag) for tag in piece.tags)
    found = [draft for name, text in texts.items() for draft in _cut(text, name, (scopes.field(name), *own))]
    if piece.tags:
        found.append(Draft(text=", ".join(piece.tags), field="tags", scopes=(scopes.field("tags"), *own)))
    return ItemDraft(
        title=piece.name,
        facts={
            "alternate_greetings": list(piece.alternate_greetings),
            "creator": piece.creator,
            "character_version": piece.character_version,
            "tags": list(piece.tags),
        },
        bodies=texts,
        passages=tuple(found),
        title_scopes=(scopes.field("name"), *own),
    )


def prompt(piece: Prompt) -> ItemDraft:
    texts = {name: getattr(piece, name) for name in PROMPT_TEXTS}
    found = [draft for name, text in texts.items() for draft in _cut(text, name, (scopes.field(name),))]
    if piece.keywords:
        own = (scopes.field("keywords"), *(scopes.keyword(keyword) for keyword in piece.keywords))
        found.append(Draft(text=", ".join(piece.keywords), field="keywords", scopes=own))
    return ItemDraft(
        title=piece.name,
        facts={"author": piece.author, "keywords": list(piece.keywords)},
        bodies=texts,
        passages=tuple(found),
        title_scopes=(scopes.field("name"),),
    )


def spoken_text(segments: Iterable[Segment]) -> str:
    """What is said in a recording, as one text."""
    return "\n".join(segment.text for segment in segments)


def _cut(text: str, field: str, own: tuple[str, ...], piece: Media | None = None) -> list[Draft]:
    return [
        Draft(
            text=text[start:end],
            field=field,
            scopes=own,
            data={"at": start},
            native_id=_chunk_id(piece, n) if piece else "",
        )
        for n, (start, end) in enumerate(pieces(text))
    ]


def _keywords(keywords: tuple[str, ...], own: tuple[str, ...]) -> list[Draft]:
    return [Draft(text=", ".join(keywords), field="keywords", scopes=own)] if keywords else []


def _chunk_id(piece: Media, number: int) -> str:
    """The same for the same text: a chunk keeps its name as long as nothing is changed."""
    return str(uuid5(NAMESPACE_URL, f"{piece.title}\n{len(piece.content)}\n{number}\n{piece.content[:2_000]}"))


def _squeezed(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold())


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
