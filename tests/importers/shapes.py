"""What the tests of importers share: items made of bytes, any JSON there is, and what must hold for all that is given."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from palaver.importers.item import Importer, Item, Skipped
from palaver.model.library import Conversation

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("2026-01-01T00:00:00Z"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
few_ids = st.sampled_from(["a", "b", "c", "d", "", "\ud800", "x" * 300])
"""Few enough that they meet: cycles, repetitions, parents that are there."""


def item_of(raw: bytes, name: str = "conversations.json", path: Path | None = None) -> Item:
    return Item(name, len(raw), path, lambda: io.BytesIO(raw))


def file_item(path: Path) -> Item:
    return Item(path.name, path.stat().st_size, path, lambda: path.open("rb"))


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def all_of(importer: Importer, item: Item) -> tuple[list[Conversation], list[Skipped]]:
    found = list(importer.conversations(item))
    return [one for one in found if isinstance(one, Conversation)], [one for one in found if isinstance(one, Skipped)]


def told(conversation: Conversation) -> list[tuple[str, str]]:
    return [(said.role, said.text) for said in conversation.messages]


def assert_storable(found: Iterable[Conversation | Skipped]) -> None:
    for one in found:
        if isinstance(one, Skipped):
            assert one.name
            assert one.why
            continue
        assert one.id.startswith(f"{one.origin}:")
        assert len(one.id) <= 256
        assert len(one.title) <= 501
        assert one.messages
        assert len({said.id for said in one.messages}) == len(one.messages)
        for ts in (one.created_at, one.updated_at, *(said.ts for said in one.messages)):
            assert ts is None or ts.tzinfo is not None
        for said in one.messages:
            assert said.text.strip()
            assert said.role
            assert len(said.text) <= 1_000_000
            assert 0 < len(said.id) <= 256
        for text in (one.id, one.title, *(f"{said.id}{said.role}{said.text}" for said in one.messages)):
            assert "\x00" not in text
            text.encode()
