"""Parts shared by all library operations: request fields, version check, URIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from palaver.errors import Conflict
from palaver.model.library import ItemDraft
from palaver.model.requests import Line, Request, Time, clamp, storable
from palaver.model.times import parse
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.workspaces import Workspace

T = TypeVar("T")

LONGEST_CONTENT = 20_000_000
WRITING = "library-writing"


Content = Annotated[str, Field(max_length=LONGEST_CONTENT), AfterValidator(storable)]
Keywords = Annotated[list[Line], Field(max_length=1000)]
Version = Annotated[int, clamp(0, 2**53)]


class Created(Request):
    created_at: Time | None = None
    """When it was written. Default: now."""

    @property
    def at(self) -> datetime | None:
        return parse(self.created_at) if self.created_at else None


class VersionedEdit(Request):
    version: Version | None = None
    """The version you read. If there is a newer one, the call is rejected."""


class Listing(Request):
    limit: Annotated[int, clamp(1, 1000)] = 100
    """Maximum number of items."""
    offset: Annotated[int, clamp(0, 2**31)] = 0
    """Number of items to skip."""


def current(read: Reader, source: str, id: int | str, version: int | None = None) -> LibraryItem:
    """The item with this id. Raises Conflict if it has another version than the given one."""
    kept = items.must_exist(read, source, str(id))
    if version is not None and version != kept.version:
        raise Conflict(
            f"The current version is {kept.version}, not {version}. Read the item again, then repeat the change.",
            current_version=kept.version,
        )
    return kept


async def add_item(
    workspace: Workspace,
    source: str,
    index: Callable[[], ItemDraft],
    shown: Callable[[Reader, LibraryItem], T],
    at: datetime | None,
) -> T:
    """Store an item. Its text is cut before the change and read after it: the writer only writes."""
    draft = await asyncio.to_thread(index)
    kept = await workspace.change(lambda change: items.add(change, source, draft, at))
    return await workspace.read(lambda read: shown(read, kept))


async def update_item(
    workspace: Workspace,
    look: Callable[[Reader], tuple[LibraryItem, ItemDraft]],
    shown: Callable[[Reader, LibraryItem], T],
    version: int | None,
) -> T:
    """Store the next version of an item. If somebody else was faster, the change is made again on top of theirs,
    unless the caller has named the version that it is for."""
    for is_last in (version is not None, False, False, True):
        kept, draft = await workspace.read(look)
        try:
            updated = await workspace.change(partial(items.update, item=kept, draft=draft))
        except Conflict:
            if is_last:
                raise
        else:
            break
    return await workspace.read(lambda read: shown(read, updated))


def given(request: Request, names: Iterable[str]) -> dict[str, Any]:
    """The fields of the request that are not None. Lists become tuples."""
    found = {name: getattr(request, name) for name in names}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items() if v is not None}


def texts_of(bodies: dict[str, str], names: Iterable[str]) -> dict[str, Any]:
    return {name: bodies.get(name, "") for name in names}


def uri_of(kept: LibraryItem) -> str:
    return SOURCES[kept.source].uri_of(kept.id, "", 0)
