"""What narrows a search inside a source, as tokens that stand in the index beside the words.

Names people choose become short digests: any text makes one, and equal names, whatever their case, make the same.
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
