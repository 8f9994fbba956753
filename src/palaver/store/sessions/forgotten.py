"""Tombstones of forgotten turns, messages and items, so that no watch and no import brings them back.

sessions/<workspace>/forgotten.jsonl    lists of hashes of their ids; no text
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import orjson

from palaver.model.library import Branch, Conversation, Said, is_unique
from palaver.store.sessions.sessions import title_of
from palaver.synced_files import append_lines, make_folder

AT_ONCE = 1_000


@dataclass(slots=True)
class Forgotten:
    """The tombstones of one workspace."""

    path: Path
    _read: tuple[int, AbstractSet[str]] = field(default=(0, frozenset()), repr=False)

    def add(self, keys: Iterable[str]) -> None:
        wanted = sorted({_hash(key) for key in keys} - self._hashes())
        if wanted:
            make_folder(self.path.parent)
            parts = (wanted[n : n + AT_ONCE] for n in range(0, len(wanted), AT_ONCE))
            append_lines(self.path, b"".join(orjson.dumps({"forgotten": part}) + b"\n" for part in parts))

    def has(self, key: str) -> bool:
        return bool(found := self._hashes()) and _hash(key) in found

    def left_of(self, conversation: Conversation) -> Conversation:
        """A conversation without its forgotten messages."""
        id = session_of(conversation.id)

        def left(messages: Iterable[Said]) -> tuple[Said, ...]:
            return tuple(said for said in messages if not self.has(turn_key(id, said.id)))

        messages = left(conversation.messages)
        branches = tuple(Branch(one.after, some) for one in conversation.branches if (some := left(one.messages)))
        if len(messages) == len(conversation.messages) and branches == conversation.branches:
            return conversation
        title = conversation.title if conversation.is_titled else title_of(messages[0].text) if messages else ""
        return replace(conversation, messages=messages, branches=branches, title=title)

    def _hashes(self) -> AbstractSet[str]:
        try:
            size = os.stat(self.path).st_size
            if size != self._read[0]:
                found: set[str] = set()
                for line in self.path.read_bytes().splitlines():
                    with suppress(orjson.JSONDecodeError, KeyError, TypeError):
                        found.update(orjson.loads(line)["forgotten"])
                self._read = size, found
        except FileNotFoundError:
            return frozenset()
        return self._read[1]


def turn_key(conversation: str, turn_id: str) -> str:
    """The key of a turn. It is the same in a recorded session and in an import of it."""
    return turn_id if is_unique(turn_id) else f"{conversation}\0{turn_id}"


def session_of(conversation: str) -> str:
    """The id that an imported conversation had in its program: 'codex:0199…' is '0199…'."""
    return conversation.partition(":")[2] or conversation


def item_key(source: str, digest: str) -> str:
    """The key of a library item with this content."""
    return f"{source}\0{digest}"


def _hash(key: str) -> str:
    return blake2b(key.encode("utf-8", "replace"), digest_size=12).hexdigest()
