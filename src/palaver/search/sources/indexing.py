"""Shared parts of indexing: a library item becomes facts, whole texts, and passages."""

from __future__ import annotations

import re
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import orjson

from palaver.model.library import Draft, Media
from palaver.text.passages import pieces


def cut(text: str, field: str, own: tuple[str, ...], media: Media | None = None) -> list[Draft]:
    """The passages of a field. `own` are their scope tokens."""
    return [
        Draft(
            text=text[start:end],
            field=field,
            scopes=own,
            data={"at": start},
            native_id=chunk_id(media, n) if media else "",
        )
        for n, (start, end) in enumerate(pieces(text))
    ]


def labels(field: str, names: tuple[str, ...], own: tuple[str, ...]) -> list[Draft]:
    """One passage with all keywords or tags."""
    return [Draft(text=", ".join(names), field=field, scopes=own)] if names else []


def chunk_id(media: Media, number: int) -> str:
    """The id of a chunk. It stays the same while the item is unchanged."""
    return str(uuid5(NAMESPACE_URL, f"{media.title}\n{len(media.content)}\n{number}\n{media.content[:2_000]}"))


def letters_only(text: str) -> str:
    return re.sub(r"\W+", " ", text.casefold())


def to_json(value: Any) -> str:
    return orjson.dumps(value).decode()
