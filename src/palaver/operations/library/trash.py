"""Away, and back again: the same for everything in the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palaver.model.people import Caller
from palaver.model.requests import Ask
from palaver.operations.bus.agents import Ok
from palaver.operations.library.characters import KeptCharacter, OneCharacter, shown_character
from palaver.operations.library.chats import KeptChat, OneChat, shown_chat
from palaver.operations.library.items import WRITING, Edited, current
from palaver.operations.library.media import KeptMedia, OneMedia, shown_media
from palaver.operations.library.notes import KeptNote, OneNote, shown_note
from palaver.operations.library.prompts import KeptPrompt, OnePrompt, named_prompt, shown_prompt
from palaver.operations.operation import Command, Operation, Route, Tool, operation
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem


class DeleteNote(OneNote, Edited):
    pass


class DeleteMedia(OneMedia, Edited):
    pass


class DeleteChat(OneChat, Edited):
    pass


class DeleteCharacter(OneCharacter, Edited):
    pass


class DeletePrompt(OnePrompt, Edited):
    pass


def _away_and_back(
    source: str, one: type[Ask], gone: type[Edited], key: str, what: str, show: Callable[[Reader, LibraryItem], Any]
) -> list[Operation]:
    def kept_of(change: Change, ask: Any) -> LibraryItem:
        id = getattr(ask, key)
        if source == "prompts":
            return named_prompt(change, id, ask.version)
        return current(change, source, id, ask.version)

    def delete(change: Change, caller: Caller, ask: Any) -> Ok:
        items.delete(change, kept_of(change, ask))
        return Ok(True)

    def restore(change: Change, caller: Caller, ask: Any) -> Any:
        id = str(getattr(ask, key))
        if source == "prompts":
            id = items.id_of_name(change, source, id)
        return show(change, items.restore(change, source, id))

    answer = {"notes": KeptNote, "media": KeptMedia, "chats": KeptChat, "characters": KeptCharacter}.get(
        source, KeptPrompt
    )
    delete.__name__, restore.__name__ = f"delete_{what}", f"restore_{what}"
    delete.__annotations__ |= {"ask": gone, "return": Ok}
    restore.__annotations__ |= {"ask": one, "return": answer}
    delete.__doc__ = f"Delete a {what}: nobody finds it any more. It can be restored."
    restore.__doc__ = f"Bring back a {what} that was deleted."
    path = f"/api/{source}/{{{key}:name}}" if source == "prompts" else f"/api/{source}/{{{key}}}"
    return [
        operation(
            Tool(f"{source}.delete", toolset=WRITING, is_destructive=True),
            Route("DELETE", path),
            Command(f"{what} rm", takes=(key,)),
        )(delete),
        operation(
            Tool(f"{source}.restore", toolset=WRITING),
            Route("POST", f"{path}/restore"),
            Command(f"{what} restore", takes=(key,)),
        )(restore),
    ]


AWAY_AND_BACK: tuple[Operation, ...] = (
    *_away_and_back("notes", OneNote, DeleteNote, "note_id", "note", shown_note),
    *_away_and_back("media", OneMedia, DeleteMedia, "media_id", "media", shown_media),
    *_away_and_back("chats", OneChat, DeleteChat, "conversation_id", "chat", shown_chat),
    *_away_and_back("characters", OneCharacter, DeleteCharacter, "character_id", "character", shown_character),
    *_away_and_back("prompts", OnePrompt, DeletePrompt, "prompt_id", "prompt", shown_prompt),
)
