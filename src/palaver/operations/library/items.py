"""What all kinds of things in the library share: ids, versions, lists."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from palaver.errors import Conflict
from palaver.model.requests import Ask, Line, Time, clamp, storable
from palaver.model.times import parse
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem

LONGEST_CONTENT = 20_000_000
WRITING = "library-writing"


Content = Annotated[str, Field(max_length=LONGEST_CONTENT), AfterValidator(storable)]
Keywords = Annotated[list[Line], Field(max_length=1000)]
Version = Annotated[int, clamp(0, 2**53)]


class Created(Ask):
    created_at: Time | None = None
    """When it was written, if not now."""

    @property
    def at(self) -> datetime | None:
        return parse(self.created_at) if self.created_at else None


class Edited(Ask):
    version: Version | None = None
    """The version this edit was made from: if there is a newer one, the edit is refused."""


class Listing(Ask):
    limit: Annotated[int, clamp(1, 1000)] = 100
    """How many at the most."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """How many to skip."""


def current(read: Reader, source: str, id: int | str, version: int | None = None) -> LibraryItem:
    """What is kept under this id, if it still is what the caller thinks it is."""
    kept = items.must_exist(read, source, str(id))
    if version is not None and version != kept.version:
        raise Conflict(
            f"This is version {kept.version} by now, not {version}: read it again, then repeat the change.",
            current_version=kept.version,
        )
    return kept


def given(ask: Ask, names: Iterable[str]) -> dict[str, Any]:
    """The fields of the ask that say something; lists become tuples."""
    found = {name: getattr(ask, name) for name in names}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items() if v is not None}


def texts_of(bodies: dict[str, str], names: Iterable[str]) -> dict[str, Any]:
    return {name: bodies.get(name, "") for name in names}


def uri_of(kept: LibraryItem) -> str:
    return SOURCES[kept.source].uri_of(kept.id, "", 0)
