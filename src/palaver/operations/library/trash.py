"""Trash: delete and restore library items. The operations are made from one table, one row a source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from palaver.model.people import Caller
from palaver.model.requests import Request
from palaver.operations.bus.agents import Ok
from palaver.operations.library.characters import KeptCharacter, OneCharacter, character_of
from palaver.operations.library.chats import KeptChat, OneChat, chat_of
from palaver.operations.library.items import WRITING, VersionedEdit, current
from palaver.operations.library.media import KeptMedia, OneMedia, media_of
from palaver.operations.library.notes import KeptNote, OneNote, note_of
from palaver.operations.library.prompts import KeptPrompt, OnePrompt, find_prompt, prompt_of
from palaver.operations.operation import Command, Operation, Route, Tool, operation
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem


class DeleteNote(OneNote, VersionedEdit):
    pass


class DeleteMedia(OneMedia, VersionedEdit):
    pass


class DeleteChat(OneChat, VersionedEdit):
    pass


class DeleteCharacter(OneCharacter, VersionedEdit):
    pass


class DeletePrompt(OnePrompt, VersionedEdit):
    pass


class _TrashSource(NamedTuple):
    name: str
    singular: str
    key: str
    """The field of the requests that holds the id."""
    restore_request: type[Request]
    delete_request: type[VersionedEdit]
    answer: type[Any]
    show: Callable[[Reader, LibraryItem], Any]


_SOURCES = (
    _TrashSource("notes", "note", "note_id", OneNote, DeleteNote, KeptNote, note_of),
    _TrashSource("media", "media", "media_id", OneMedia, DeleteMedia, KeptMedia, media_of),
    _TrashSource("chats", "chat", "conversation_id", OneChat, DeleteChat, KeptChat, chat_of),
    _TrashSource("characters", "character", "character_id", OneCharacter, DeleteCharacter, KeptCharacter, character_of),
    _TrashSource("prompts", "prompt", "prompt_id", OnePrompt, DeletePrompt, KeptPrompt, prompt_of),
)


def _delete_and_restore(source: _TrashSource) -> list[Operation]:
    has_names = source.name == "prompts"  # a prompt may be given by its name instead of its id

    def delete(change: Change, caller: Caller, request: Any) -> Ok:
        id = getattr(request, source.key)
        kept = (
            find_prompt(change, id, request.version) if has_names else current(change, source.name, id, request.version)
        )
        items.delete(change, kept)
        return Ok(True)

    def restore(change: Change, caller: Caller, request: Any) -> Any:
        id = str(getattr(request, source.key))
        if has_names:
            id = items.id_of_name(change, source.name, id)
        return source.show(change, items.restore(change, source.name, id))

    item = "media item" if source.name == "media" else source.singular
    delete.__name__, restore.__name__ = f"delete_{source.singular}", f"restore_{source.singular}"
    delete.__annotations__ |= {"request": source.delete_request, "return": Ok}
    restore.__annotations__ |= {"request": source.restore_request, "return": source.answer}
    delete.__doc__ = f"Delete a {item}. It can be restored."
    restore.__doc__ = f"Restore a deleted {item}."
    path = f"/api/{source.name}/{{{source.key}{':name' if has_names else ''}}}"
    return [
        operation(
            Tool(f"{source.name}.delete", toolset=WRITING, is_destructive=True),
            Route("DELETE", path),
            Command(f"{source.singular} rm", takes=(source.key,)),
        )(delete),
        operation(
            Tool(f"{source.name}.restore", toolset=WRITING),
            Route("POST", f"{path}/restore"),
            Command(f"{source.singular} restore", takes=(source.key,)),
        )(restore),
    ]


DELETE_AND_RESTORE: tuple[Operation, ...] = tuple(one for source in _SOURCES for one in _delete_and_restore(source))
