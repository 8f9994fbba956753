"""Prompts that people keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from palaver.model.library import Prompt
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Ask, Line
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Edited,
    Keywords,
    Listing,
    current,
    given,
    texts_of,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources import shelving
from palaver.search.sources.shelving import PROMPT_TEXTS
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem


@dataclass(frozen=True, slots=True)
class KeptPrompt:
    id: str
    name: str
    author: str
    details: str
    system_prompt: str
    user_prompt: str
    keywords: list[str]
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


class PromptTexts(Ask):
    author: Line | None = None
    """Who wrote it."""
    details: Content | None = None
    """What it is for."""
    system_prompt: Content | None = None
    """What the model is told first."""
    user_prompt: Content | None = None
    """What is asked. {{name}} stands for something to be filled in."""
    keywords: Keywords | None = None
    """Words to find it by."""


class CreatePrompt(PromptTexts, Created):
    name: Annotated[Line, Field(min_length=1)]
    """What it is called."""


class OnePrompt(Ask):
    prompt_id: AnyId
    """Id or name of the prompt."""


class UpdatePrompt(PromptTexts, Edited):
    prompt_id: AnyId
    """Id or name of the prompt."""
    name: Annotated[Line, Field(min_length=1)] | None = None
    """A new name."""


def named_prompt(read: Reader, name: int | str, version: int | None = None) -> LibraryItem:
    """The prompt of this id, or the one of this name that was changed last."""
    if items.find(read, "prompts", str(name)) is None:
        found = items.by_title(read, "prompts", str(name))
        if found:
            return current(read, "prompts", found.id, version)
    return current(read, "prompts", name, version)


def shown_prompt(read: Reader, kept: LibraryItem) -> KeptPrompt:
    bodies = items.bodies(read, kept.document_id)
    return KeptPrompt(
        id=kept.id,
        name=kept.title or "",
        **texts_of(bodies, PROMPT_TEXTS),
        keywords=kept.facts.get("keywords") or [],
        created_at=kept.created_at,
        last_modified=kept.last_modified,
        version=kept.version,
        uri=uri_of(kept),
    )


def _prompt_with(piece: Prompt, ask: PromptTexts) -> Prompt:
    return replace(piece, **given(ask, (*PROMPT_TEXTS, "keywords")))


@operation(
    Tool("prompts.create", toolset=WRITING),
    Route("POST", "/api/prompts", status=201),
    Command("prompt add", takes=("name",)),
)
def create_prompt(change: Change, caller: Caller, ask: CreatePrompt) -> KeptPrompt:
    """Keep a prompt. MCP clients see it among their prompts, with an argument for each {{name}} in it."""
    piece = _prompt_with(Prompt(name=ask.name), ask)
    return shown_prompt(change, items.add(change, "prompts", shelving.prompt(piece), ask.at))


@operation(Route("GET", "/api/prompts/{prompt_id:name}"), Command("prompt show", takes=("prompt_id",)))
def read_prompt(read: Reader, caller: Caller, ask: OnePrompt) -> KeptPrompt:
    """One prompt, by its id or its name."""
    return shown_prompt(read, named_prompt(read, ask.prompt_id))


@operation(
    Tool("prompts.update", toolset=WRITING),
    Route("PUT", "/api/prompts/{prompt_id:name}"),
    Command("prompt edit", takes=("prompt_id",)),
)
def update_prompt(change: Change, caller: Caller, ask: UpdatePrompt) -> KeptPrompt:
    """Change a prompt: what you leave out stays as it is."""
    kept = named_prompt(change, ask.prompt_id, ask.version)
    bodies = items.bodies(change, kept.document_id)
    old = Prompt(
        name=ask.name or kept.title or "",
        **texts_of(bodies, PROMPT_TEXTS),
        keywords=tuple(kept.facts.get("keywords") or ()),
    )
    return shown_prompt(change, items.update(change, kept, shelving.prompt(_prompt_with(old, ask))))


@operation(Route("GET", "/api/prompts"), Command("prompt list", columns=("id", "name", "author", "keywords")))
def list_prompts(read: Reader, caller: Caller, ask: Listing) -> list[KeptPrompt]:
    """Prompts, those changed last first."""
    return [shown_prompt(read, kept) for kept in items.page(read, "prompts", ask.limit, ask.offset)]
