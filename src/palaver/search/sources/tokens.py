"""Scope tokens: filters of library sources, stored in the index beside the words.

A name becomes a short digest, so any text is valid. Names that differ only in case have the same token.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from unicodedata import normalize


def keyword(name: str) -> str:
    return "k" + _digest(name)


def media_type(name: str) -> str:
    return "m" + _digest(name)


def sender(name: str) -> str:
    return "s" + _digest(name)


def character(id: int | str) -> str:
    return "c" + _digest(str(id))


def field(name: str) -> str:
    return "f" + _digest(name)


@lru_cache(maxsize=4096)
def _digest(name: str) -> str:
    folded = normalize("NFC", name.strip()).casefold()
    return blake2b(folded.encode("utf-8", "replace"), digest_size=8).hexdigest()
