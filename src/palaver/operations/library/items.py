"""The operations that all sources of the library have: create, read, update, list, delete and restore.

A source describes itself once, as an `ItemSource`; its operations are made from that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, make_dataclass, replace
from dataclasses import field as made
from datetime import datetime
from functools import cached_property, partial
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, Field

from palaver.errors import Conflict
from palaver.model.library import ItemDraft
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Line, Request, Time, clamp, request_of, storable
from palaver.model.times import parse
from palaver.operations.bus.agents import Ok
from palaver.operations.operation import Command, Face, Operation, Route, Tool, operation
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.workspaces import Workspace

LONGEST_CONTENT = 20_000_000
WRITING = "library-writing"
HAS_NAMES = "prompts"
"""The source whose items may be given by their name instead of their id."""

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
    """The item with this id, or the last changed prompt with this name. Raises Conflict if it has another version."""
    kept = items.find(read, source, str(id))
    if kept is None and source == HAS_NAMES:
        kept = items.by_title(read, source, str(id))
    kept = kept or items.must_exist(read, source, str(id))
    if version is not None and version != kept.version:
        raise Conflict(
            f"The current version is {kept.version}, not {version}. Read the item again, then repeat the change.",
            current_version=kept.version,
        )
    return kept


@dataclass(frozen=True, kw_only=True)
class ItemSource:
    """A source of the library: its items, and the requests, answers and faces of their operations."""

    name: str
    noun: str
    key: str
    """The field of the requests that has the id of the item."""
    key_help: str
    piece: type[Any]
    """What is in an item. The requests and the answer call it by the names of the fields of this."""
    index: Callable[[Any], ItemDraft]
    creates: type[Created]
    """The request that creates an item. The one that updates it has the same fields, all of them optional."""
    listed: type[Any] | None = None
    """The answer for each item of a list, where it is not `answer`."""
    help: Mapping[str, str]
    """The descriptions of `create`, `read`, `list`, and perhaps `update`."""
    columns: tuple[str, ...]
    """What a list shows on the command line."""
    text: str | None = None
    """The field that is shown alone on the command line."""
    commands: Mapping[str, Command] = made(default_factory=dict)
    """The commands for `create` and `update`, where there are any."""
    hidden: tuple[str, ...] = ()
    """The arguments of `create` that its schema does not list."""

    @cached_property
    def updates(self) -> type[Request]:
        fields: dict[str, Any] = {self.key: (AnyId, Field(description=self.key_help))}
        for name, field in self.creates.model_fields.items():
            if name not in Created.model_fields:
                fields[name] = (field.rebuild_annotation() | None, Field(default=None, description=field.description))
        return request_of(f"Update{self.noun.title()}", (VersionedEdit,), **fields)

    @cached_property
    def answer(self) -> type[Any]:
        """The answer with an item: its id, the fields of its piece, and those that every item has."""
        own = {name: kind for name, kind in get_type_hints(self.piece).items() if name != "created_at"}
        own = {name: list[str] if kind == tuple[str, ...] else kind for name, kind in own.items()}
        every = {"created_at": datetime, "last_modified": datetime, "version": int, "uri": str}
        columns = {"id": int if self.name in items.NUMBERED else str, **own, **every}
        return make_dataclass(f"Kept{self.noun.title()}", columns.items(), frozen=True, slots=True)

    def given(self, request: Request, old: Any = None) -> dict[str, Any]:
        """The fields of the piece that a request sets. `old` is the piece that it updates."""
        names = {field.name for field in fields(self.piece)} & type(request).model_fields.keys() - {"created_at"}
        found = {name: getattr(request, name) for name in names}
        return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items() if v is not None}

    def texts(self, read: Reader, kept: LibraryItem) -> dict[str, Any]:
        return {**items.bodies(read, kept.document_id)}

    def stored(self, kept: LibraryItem, texts: Mapping[str, Any]) -> Any:
        """The piece that an item was made from."""
        known = {**texts, **kept.facts, "title": kept.title or "", "name": kept.title or ""}
        found = {field.name: known[field.name] for field in fields(self.piece) if field.name in known}
        return self.piece(**{name: tuple(v) if isinstance(v, list) else v for name, v in found.items()})

    def answer_with(self, answer: type[Any], kept: LibraryItem, texts: Mapping[str, Any], **more: Any) -> Any:
        """An item in the form of an answer: the fields of its piece, and those that every item has."""
        piece = self.stored(kept, texts)
        known = {field.name: getattr(piece, field.name) for field in fields(self.piece)}
        known |= {name: getattr(kept, name) for name in ("created_at", "last_modified", "version")}
        known |= {"id": kept.shown_id, "uri": SOURCES[self.name].uri_of(kept.id, "", 0), **more}
        found = {field.name: known[field.name] for field in fields(answer)}
        return answer(**{name: list(v) if isinstance(v, tuple) else v for name, v in found.items()})

    def show(self, read: Reader, kept: LibraryItem) -> Any:
        return self.answer_with(self.answer, kept, self.texts(read, kept))

    def card(self, read: Reader, kept: LibraryItem) -> Any:
        return self.answer_with(self.listed, kept, {"content": ""}) if self.listed else self.show(read, kept)

    def store(self, change: Change, item: LibraryItem, draft: ItemDraft) -> LibraryItem:
        """Store the next version of an item."""
        return items.update(change, item, draft)


def operations_of(
    source: ItemSource,
) -> tuple[Operation, Operation, Operation, Operation, Operation, Operation]:
    """The operations that create, read, update, list, delete and restore the items of a source."""
    name, noun, key = source.name, source.noun, source.key
    id_field: Any = (AnyId, Field(description=source.key_help))
    one = request_of(f"One{noun.title()}", (Request,), **{key: id_field})
    one_version = request_of(f"Delete{noun.title()}", (one, VersionedEdit))

    async def create(workspace: Workspace, caller: Caller, request: Any) -> Any:
        # The text is cut before the change, and the item is read after it: the writer only writes.
        draft = await asyncio.to_thread(source.index, source.piece(**source.given(request)))
        kept = await workspace.change(partial(items.add, source=name, draft=draft, created_at=request.at))
        return await workspace.read(partial(source.show, kept=kept))

    def read_one(read: Reader, caller: Caller, request: Any) -> Any:
        return source.show(read, current(read, name, getattr(request, key)))

    async def update(workspace: Workspace, caller: Caller, request: Any) -> Any:
        """If somebody else was faster, the change is made again on top of theirs, unless the caller has named the
        version that it is for."""

        def look(read: Reader) -> tuple[LibraryItem, ItemDraft]:
            kept = current(read, name, getattr(request, key), request.version)
            old = source.stored(kept, source.texts(read, kept))
            return kept, source.index(replace(old, **source.given(request, old)))

        for is_last in (request.version is not None, False, False, True):
            kept, draft = await workspace.read(look)
            try:
                updated = await workspace.change(partial(source.store, item=kept, draft=draft))
            except Conflict:
                if is_last:
                    raise
            else:
                break
        return await workspace.read(partial(source.show, kept=updated))

    def list_all(read: Reader, caller: Caller, request: Listing) -> Any:
        return [source.card(read, kept) for kept in items.page(read, name, request.limit, request.offset)]

    def delete(change: Change, caller: Caller, request: Any) -> Ok:
        items.delete(change, current(change, name, getattr(request, key), request.version))
        return Ok(True)

    def restore(change: Change, caller: Caller, request: Any) -> Any:
        id = str(getattr(request, key))
        id = items.id_of_name(change, name, id) if name == HAS_NAMES else id
        return source.show(change, items.restore(change, name, id))

    item = "media item" if noun == "media" else noun
    described = {
        "update": f"Update a {item}. Fields you leave out do not change.",
        "delete": f"Delete a {item}. It can be restored.",
        "restore": f"Restore a deleted {item}.",
    } | {**source.help}

    def made_of(work: Callable[..., Any], verb: str, request: type[Request], answer: Any, *faces: Face) -> Operation:
        work.__name__ = f"{verb}_{name if verb == 'list' else noun}"
        work.__doc__ = described[verb]
        work.__module__ = f"{__package__}.{name}"  # commands import the operation from there
        work.__annotations__ |= {"request": request, "return": answer}
        commands = [source.commands[verb]] if verb in source.commands else []
        return operation(*faces, *commands)(work)

    def tool(verb: str, **more: Any) -> Tool:
        return Tool(f"{name}.{verb}", toolset=WRITING, **more)

    def command(verb: str) -> Command:
        return Command(f"{noun} {verb}", takes=(key,), text=source.text if verb == "show" else None)

    all_items = f"/api/{name}"
    path = f"{all_items}/{{{key}{':name' if name == HAS_NAMES else ''}}}"
    answer, listed = source.answer, source.listed or source.answer
    return (
        made_of(create, "create", source.creates, answer,
                tool("create", hidden=source.hidden), Route("POST", all_items, status=201)),
        made_of(read_one, "read", one, answer, Route("GET", path), command("show")),
        made_of(update, "update", source.updates, answer, tool("update"), Route("PUT", path)),
        made_of(list_all, "list", Listing, list[listed],  # type: ignore[valid-type]
                Route("GET", all_items), Command(f"{noun} list", columns=source.columns)),
        made_of(delete, "delete", one_version, Ok,
                tool("delete", is_destructive=True), Route("DELETE", path), command("rm")),
        made_of(restore, "restore", one, answer, tool("restore"), Route("POST", f"{path}/restore"), command("restore")),
    )  # fmt: skip
